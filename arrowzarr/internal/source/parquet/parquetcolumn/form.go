package parquetcolumn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// kind is how the slots of a leaf are kept.
type kind int

const (
	kindFixed   kind = iota
	kindBits         // Booleans
	kindText         // text or bytes of any length
	kindIndices      // of dictionaries of text or bytes, of 32 bits
)

// form is how a leaf becomes an Arrow array.
type form struct {
	kind       kind
	width      int // bytes of a value in Parquet; 0 unless it is fixed
	storage    arrow.DataType
	dictionary *arrow.DictionaryType // nil unless kindIndices
	convert    func(out, in []byte)  // values to those of the Arrow type; nil if they are the same
	outWidth   int                   // bytes of a value in Arrow, if convert is not nil
	isInt96    bool                  // times, which finishTimes converts
}

func (f *form) isText() bool  { return f.kind == kindText }
func (f *form) isBytes() bool { return f.kind == kindText || f.kind == kindIndices }

// formOf returns the form of a column of Parquet as a type that arrow-go infers.
func formOf(t arrow.DataType, column *schema.Column) (form, error) {
	t = arrowdata.StorageType(t)
	f := form{storage: t, width: column.PhysicalType().ByteSize()}
	ok := false
	switch column.PhysicalType() {
	case parquet.Types.Boolean:
		f.kind, f.width, ok = kindBits, 0, t.ID() == arrow.BOOL
	case parquet.Types.Int32:
		ok = f.fromInt32(t)
	case parquet.Types.Int64:
		ok = f.fromInt64(t)
	case parquet.Types.Int96:
		timestamp, is := t.(*arrow.TimestampType)
		f.isInt96, ok = true, is && (timestamp.Unit == arrow.Nanosecond || timestamp.Unit == arrow.Microsecond)
	case parquet.Types.Float:
		ok = t.ID() == arrow.FLOAT32
	case parquet.Types.Double:
		ok = t.ID() == arrow.FLOAT64
	case parquet.Types.ByteArray:
		f.width = 0
		ok = f.fromBytes(t)
	case parquet.Types.FixedLenByteArray:
		f.width = column.TypeLength()
		ok = f.fromFixed(t)
	}
	if !ok || !littleEndian {
		return f, fmt.Errorf("%s as %s: %w", column.PhysicalType(), t, errors.ErrUnsupported)
	}
	return f, nil
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func (f *form) fromInt32(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT32, arrow.UINT32, arrow.DATE32, arrow.TIME32:
		return true
	case arrow.INT8, arrow.UINT8:
		f.convert, f.outWidth = narrow[uint8], 1
	case arrow.INT16, arrow.UINT16:
		f.convert, f.outWidth = narrow[uint16], 2
	case arrow.DECIMAL128:
		f.convert, f.outWidth = widen[int32], 16
	default:
		return false
	}
	return true
}

func (f *form) fromInt64(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.Int64Type, *arrow.Uint64Type, *arrow.Time64Type:
		return true
	case *arrow.TimestampType:
		return t.Unit != arrow.Second
	case *arrow.Decimal128Type:
		f.convert, f.outWidth = widen[int64], 16
		return true
	}
	return false
}

func (f *form) fromBytes(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		f.kind = kindText
		return true
	case *arrow.DictionaryType:
		f.kind, f.dictionary = kindIndices, t
		id := t.ValueType.ID()
		return id == arrow.STRING || id == arrow.BINARY
	}
	return false
}

func (f *form) fromFixed(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		return t.ByteWidth == f.width && f.width > 0
	case *arrow.Float16Type:
		return f.width == 2
	case *arrow.Decimal128Type:
		width := f.width
		f.convert, f.outWidth = func(out, in []byte) { swapDecimals(out, in, width) }, 16
		return width > 0 && width <= 16
	}
	return false
}

// narrow copies the low parts of integers of 32 bits.
func narrow[T uint8 | uint16](out, in []byte) {
	numbers := view[uint32](in, len(in)/4)
	small := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(out))), len(numbers))
	for i, v := range numbers {
		small[i] = T(v)
	}
}

// widen extends integers to 128 bits.
func widen[T int32 | int64](out, in []byte) {
	numbers := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(in))), len(in)/int(unsafe.Sizeof(T(0))))
	for i, v := range numbers {
		binary.LittleEndian.PutUint64(out[16*i:], uint64(int64(v)))
		binary.LittleEndian.PutUint64(out[16*i+8:], uint64(int64(v)>>63))
	}
}

// swapDecimals extends big-endian integers of a width to 128 bits of the other order.
func swapDecimals(out, in []byte, width int) {
	for ; len(in) >= width; in, out = in[width:], out[16:] {
		var wide [16]byte
		if in[0]&0x80 != 0 {
			wide = [16]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		}
		copy(wide[16-width:], in[:width])
		binary.LittleEndian.PutUint64(out, binary.BigEndian.Uint64(wide[8:]))
		binary.LittleEndian.PutUint64(out[8:], binary.BigEndian.Uint64(wide[:]))
	}
}

// finish returns the slots of a leaf as an array of a type whose storage is that of the
// form. The caller owns it.
func (f *form) finish(o *output, t arrow.DataType, l *leaf) (arrow.ArrayData, error) {
	mem := l.options.Memory
	var validity *memory.Buffer
	if o.nulls > 0 {
		validity = o.bitmap
	}
	switch f.kind {
	case kindText:
		o.growOffsets(0) // an array of no slots has one offset
		offsets := o.offsets
		if id := f.storage.ID(); id == arrow.LARGE_STRING || id == arrow.LARGE_BINARY {
			offsets = memory.NewResizableBuffer(mem)
			defer offsets.Release()
			offsets.Resize(2 * o.offsets.Len())
			wide := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(offsets.Bytes()))), offsets.Len()/8)
			for i, v := range view32(o.offsets.Bytes()) {
				wide[i] = int64(v)
			}
		}
		return array.NewData(t, o.slots, []*memory.Buffer{validity, offsets, o.text}, nil, o.nulls, 0), nil
	case kindIndices:
		return f.finishDictionary(o, t, l, validity)
	case kindBits:
		return array.NewData(t, o.slots, []*memory.Buffer{validity, o.fixed}, nil, o.nulls, 0), nil
	}
	if f.isInt96 {
		return f.finishTimes(o, t, mem, validity)
	}
	o.fixed.ResizeNoShrink(o.slots * f.width)
	values := o.fixed
	if f.convert != nil {
		values = memory.NewResizableBuffer(mem)
		defer values.Release()
		values.Resize(o.slots * f.outWidth)
		f.convert(values.Bytes(), o.fixed.Bytes())
	}
	return array.NewData(t, o.slots, []*memory.Buffer{validity, values}, nil, o.nulls, 0), nil
}

// ErrTimeRange is an error of a time of INT96 that its type cannot hold.
var ErrTimeRange = errors.New("time that the unit of its type cannot hold")

const (
	julianDayOfUnixEpoch = 2440588
	nanosecondsPerDay    = int64(24 * 3600 * 1e9)
)

// finishTimes returns times of INT96, which are nanoseconds of a day and a Julian day.
// Microseconds are computed as Spark does, which wrote the year 290000 in days and
// nanoseconds that had overflowed.
func (f *form) finishTimes(o *output, t arrow.DataType, mem memory.Allocator, validity *memory.Buffer) (arrow.ArrayData, error) {
	unit := f.storage.(*arrow.TimestampType).Unit
	values := memory.NewResizableBuffer(mem)
	defer values.Release()
	values.Resize(8 * o.slots)
	out := view[uint64](values.Bytes(), o.slots)
	in := o.fixed.Bytes()
	for i := range out {
		if validity != nil && !bitutil.BitIsSet(validity.Bytes(), i) {
			out[i] = 0
			continue
		}
		ofDay := int64(binary.LittleEndian.Uint64(in[12*i:]))
		day := int64(int32(binary.LittleEndian.Uint32(in[12*i+8:]))) - julianDayOfUnixEpoch
		if unit == arrow.Microsecond {
			if ofDay%1000 != 0 {
				return nil, fmt.Errorf("INT96 with nanoseconds, in a column with years that need microseconds: %w", ErrTimeRange)
			}
			out[i] = uint64(day*(nanosecondsPerDay/1000) + ofDay/1000)
			continue
		}
		if day < 0 && ofDay >= 0 { // the first time of 64 bits is inside of a day
			day, ofDay = day+1, ofDay-nanosecondsPerDay
		}
		v := day*nanosecondsPerDay + ofDay
		if day > math.MaxInt64/nanosecondsPerDay || day < math.MinInt64/nanosecondsPerDay || (ofDay < 0) != (v < day*nanosecondsPerDay) {
			return nil, fmt.Errorf("INT96 of day %d after 1970-01-01 as %s: %w", day, f.storage, ErrTimeRange)
		}
		out[i] = uint64(v)
	}
	return array.NewData(t, o.slots, []*memory.Buffer{validity, values}, nil, o.nulls, 0), nil
}

// finishDictionary returns the slots as indices into the dictionary of the row group.
func (f *form) finishDictionary(o *output, t arrow.DataType, l *leaf, validity *memory.Buffer) (arrow.ArrayData, error) {
	words := &l.words
	if words.offsets == nil { // all slots are null
		words.offsets, words.text = memory.NewResizableBuffer(l.options.Memory), memory.NewResizableBuffer(l.options.Memory)
		words.offsets.Resize(4)
		clear(words.offsets.Bytes())
	}
	bits := f.dictionary.IndexType.(arrow.FixedWidthDataType).BitWidth()
	largest := int64(math.MaxUint32)
	if arrow.IsSignedInteger(f.dictionary.IndexType.ID()) {
		bits--
	}
	if bits < 32 {
		largest = 1<<bits - 1
	}
	if int64(words.n)-1 > largest {
		return nil, fmt.Errorf("dictionary of %d values with indices of type %s: %w", words.n, f.dictionary.IndexType, errors.ErrUnsupported)
	}
	o.fixed.ResizeNoShrink(4 * o.slots)
	indices := o.fixed
	if width := f.dictionary.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8; width != 4 {
		indices = memory.NewResizableBuffer(l.options.Memory)
		defer indices.Release()
		indices.Resize(o.slots * width)
		out, in := indices.Bytes(), view[uint32](o.fixed.Bytes(), o.slots)
		switch width {
		case 1:
			narrow[uint8](out, o.fixed.Bytes())
		case 2:
			narrow[uint16](out, o.fixed.Bytes())
		default:
			for i, v := range in {
				binary.LittleEndian.PutUint64(out[8*i:], uint64(v))
			}
		}
	}
	values := array.NewData(f.dictionary.ValueType, words.n, []*memory.Buffer{nil, words.offsets, words.text}, nil, 0, 0)
	defer values.Release()
	return array.NewDataWithDictionary(t, o.slots, []*memory.Buffer{validity, indices}, o.nulls, 0, values), nil
}
