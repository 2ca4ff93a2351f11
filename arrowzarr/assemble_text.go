package arrowzarr

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/internal/hostmem"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// assembleText joins slices of utf8 or binary columns on the host. It returns a view
// of a single slice without nulls.
func assembleText(parts []columnSlice, rows int64) (*chunkArrays, error) {
	views := make([]*element.VLen, len(parts)) // nil for Arrow's view types, and for no rows
	narrow := true                             // all have views, so 32-bit offsets may suffice
	var most int64                             // bytes of the views, with those of nulls
	for i, p := range parts {
		var err error
		if views[i], err = viewText(p); err != nil {
			return nil, err
		}
		if views[i] == nil {
			narrow = false
			continue
		}
		most += views[i].NBytes()
	}
	if len(parts) == 1 && views[0] != nil && parts[0].values.NullN() == 0 {
		return &chunkArrays{values: views[0]}, nil
	}
	if narrow && most <= math.MaxInt32 {
		return joinText[int32](parts, views, rows, most)
	}
	return joinText[int64](parts, views, rows, most)
}

// joinText copies slices of text to one array, whose offsets are of type O. views has a
// view of each slice, or nil. Bytes of size most are reserved at once.
func joinText[O element.Offset](parts []columnSlice, views []*element.VLen, rows, most int64) (*chunkArrays, error) {
	j := textJoin[O]{offsets: make([]O, 1, rows+1), data: hostmem.Grow(nil, int(most)), rows: rows}
	for i, p := range parts {
		if views[i] == nil {
			if err := j.appendValues(p); err != nil {
				return nil, err
			}
			continue
		}
		narrow, wide := views[i].Offsets()
		if narrow != nil {
			appendRange(&j, p, narrow, views[i].Data())
		} else {
			appendRange(&j, p, wide, views[i].Data())
		}
	}
	values, err := element.NewVLen(j.offsets, j.data, rows)
	if err != nil {
		return nil, err
	}
	out := &chunkArrays{values: values}
	if j.missing != nil {
		if out.mask, err = ndview.FromHost(arrowbuf.CPU(), ndview.Bool, j.missing, rows); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// textJoin is the text of a chunk while slices are appended to it. Nulls are empty.
type textJoin[O element.Offset] struct {
	offsets []O
	data    []byte
	rows    int64
	missing []bool // of all rows; nil if no row is missing yet
}

// appendNull appends a null.
func (j *textJoin[O]) appendNull() {
	if j.missing == nil {
		j.missing = make([]bool, j.rows)
	}
	j.missing[len(j.offsets)-1] = true
	j.offsets = append(j.offsets, O(len(j.data)))
}

// appendValues appends a slice value by value.
func (j *textJoin[O]) appendValues(s columnSlice) error {
	value, err := valueReader(s.values)
	if err != nil {
		return err
	}
	for i := s.from; i < s.to; i++ {
		if s.values.IsNull(int(i)) {
			j.appendNull()
			continue
		}
		j.data = append(j.data, value(int(i))...)
		j.offsets = append(j.offsets, O(len(j.data)))
	}
	return nil
}

// appendRange appends a slice whose values are ranges of bytes, one after the other:
// it copies those between two nulls at once.
func appendRange[O, S element.Offset](j *textJoin[O], s columnSlice, offsets []S, bytes []byte) {
	hasNulls := s.values.NullN() != 0
	first := offsets[0]                        // of the bytes that are not copied yet
	shift := int64(len(j.data)) - int64(first) // from an offset there to one here
	for i, end := range offsets[1:] {
		if hasNulls && s.values.IsNull(int(s.from)+i) {
			j.data = append(j.data, bytes[first:offsets[i]]...)
			j.appendNull()
			first, shift = end, int64(len(j.data))-int64(end)
			continue
		}
		j.offsets = append(j.offsets, O(int64(end)+shift))
	}
	j.data = append(j.data, bytes[first:offsets[len(offsets)-1]]...)
}

// viewText returns a view of the offsets and bytes of a slice; nil for view types,
// which have no offsets. Invalid offsets are an error.
func viewText(p columnSlice) (*element.VLen, error) {
	data := p.values.Data()
	buffers := data.Buffers()
	if len(buffers) < 3 || buffers[1] == nil || p.rows() == 0 {
		return nil, nil
	}
	var bytes []byte
	if buffers[2] != nil {
		bytes = buffers[2].Bytes()
	}
	from, to := int64(data.Offset())+p.from, int64(data.Offset())+p.to+1
	switch arrowdata.StorageType(p.values.DataType()).(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return viewStrings(arrow.Int32Traits.CastFromBytes(buffers[1].Bytes()), bytes, from, to)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return viewStrings(arrow.Int64Traits.CastFromBytes(buffers[1].Bytes()), bytes, from, to)
	}
	return nil, nil
}

func viewStrings[O element.Offset](offsets []O, bytes []byte, from, to int64) (*element.VLen, error) {
	if to > int64(len(offsets)) {
		return nil, fmt.Errorf("%d offsets, expected at least %d", len(offsets), to)
	}
	return element.NewVLen(offsets[from:to], bytes, to-from-1)
}

// valueReader returns a function that returns the bytes of value i.
func valueReader(values arrow.Array) (func(i int) []byte, error) {
	switch v := arrowdata.Unwrap(values).(type) {
	case interface{ Value(int) string }:
		return func(i int) []byte {
			s := v.Value(i)
			return unsafe.Slice(unsafe.StringData(s), len(s))
		}, nil
	case interface{ Value(int) []byte }:
		return v.Value, nil
	}
	return nil, fmt.Errorf("array of %T, expected text or bytes", values)
}
