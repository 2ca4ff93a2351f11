package columns

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// work is what one call does on a device. It holds what is made on the way until
// the call ends; what goes into the result has references of its own by then.
type work struct {
	dev  arrowbuf.Device
	held []interface{ Release() }
}

func (w *work) end() {
	for _, one := range w.held {
		one.Release()
	}
}

func (w *work) hold(one interface{ Release() }) { w.held = append(w.held, one) }

// deviceOf is where an array is, or, if it has no memory, as one of nulls has none,
// where that beside it is.
func deviceOf(arr, beside arrow.Array) arrowbuf.Device {
	if dev := arrowbuf.DeviceOf(arr); dev != arrowbuf.CPU() || hasBuffers(arr.Data()) {
		return dev
	}
	return arrowbuf.DeviceOf(beside)
}

// deviceOfAll is where arrays are that are not on the host, if there are some.
func deviceOfAll(arrays []arrow.Array) arrowbuf.Device {
	for _, arr := range arrays {
		if dev := arrowbuf.DeviceOf(arr); dev != arrowbuf.CPU() {
			return dev
		}
	}
	return arrowbuf.CPU()
}

// errAbsent is of arrays, batches and types that are nil.
var errAbsent = fmt.Errorf("there is none: %w", arrow.ErrInvalid)

// hasBuffers tells whether an array has memory somewhere.
func hasBuffers(data arrow.ArrayData) bool {
	for _, b := range data.Buffers() {
		if b != nil && b.Len() > 0 {
			return true
		}
	}
	for _, child := range data.Children() {
		if child != nil && hasBuffers(child) {
			return true
		}
	}
	return false
}

// bring brings an array of the host to the device of the work.
func (w *work) bring(arr arrow.Array) (arrow.Array, error) {
	if dev := arrowbuf.DeviceOf(arr); dev != w.dev && dev != arrowbuf.CPU() {
		return nil, fmt.Errorf("on %s, for an array on %s: %w", dev, w.dev, arrowbuf.ErrDevice)
	}
	moved, err := arrowbuf.CopyArrayTo(arr, w.dev)
	if err != nil {
		return nil, err
	}
	w.hold(moved)
	return moved, nil
}

// array holds a new array.
func (w *work) array(a *ndview.NDBuffer, err error) (*ndview.NDBuffer, error) {
	if err == nil {
		w.hold(a)
	}
	return a, err
}

// empty is a new array of n undefined elements.
func (w *work) empty(dtype ndview.DType, n int64) (*ndview.NDBuffer, error) {
	return w.array(ndview.Empty(w.dev, dtype, n))
}

// buffer is the memory of an array without gaps, as arrow-go has it, cut to n
// bytes. It is never absent, not even where it is empty: arrow-go takes empty
// values without memory for none.
func (w *work) buffer(a *ndview.NDBuffer, n int64) (*memory.Buffer, error) {
	if n == 0 {
		some, err := w.dev.Alloc(1)
		if err != nil {
			return nil, err
		}
		defer some.Release()
		return w.slice(some.Arrow(), 0, 0), nil
	}
	return w.slice(a.Buffer().Arrow(), a.Offset(), n), nil
}

// slice takes over a reference to a buffer and holds a part of it.
func (w *work) slice(b *memory.Buffer, offset, n int64) *memory.Buffer {
	part := memory.SliceBuffer(b, int(offset), int(n))
	b.Release()
	w.hold(part)
	return part
}

// data is an array at offset 0.
func (w *work) data(dtype arrow.DataType, n int64, buffers []*memory.Buffer, children ...arrow.ArrayData) *array.Data {
	nulls := array.UnknownNullCount
	if len(buffers) == 0 {
		buffers = []*memory.Buffer{nil}
	}
	switch {
	case storageOf(dtype).ID() == arrow.NULL:
		nulls = int(n)
	case buffers[0] == nil:
		nulls = 0
	}
	data := array.NewData(dtype, int(n), buffers, children, nulls, 0)
	w.hold(data)
	return data
}

// sliced are elements [from, from+n) of an array. Those beyond its end are
// arrow.ErrInvalid: then what holds the array does not fit it.
func (w *work) sliced(data arrow.ArrayData, from, n int64, what string) (arrow.ArrayData, error) {
	if from < 0 || n < 0 || n > int64(data.Len())-from {
		return nil, fmt.Errorf("%s: elements [%d, %d+%d) of %d: %w", what, from, from, n, data.Len(), arrow.ErrInvalid)
	}
	if from == 0 && n == int64(data.Len()) {
		return data, nil
	}
	part := array.NewSliceData(data, from, from+n)
	w.hold(part)
	return part, nil
}

// bytes looks at n elements of a dtype from byte from of a buffer on. Where they do
// not lie at a multiple of align on a GPU, as a kernel wants it, they are copied.
func (w *work) bytes(b *memory.Buffer, dtype ndview.DType, from, n, align int64) (*ndview.NDBuffer, error) {
	if n == 0 {
		return w.empty(dtype, 0)
	}
	if b == nil {
		return nil, fmt.Errorf("a buffer is absent: %w", arrow.ErrInvalid)
	}
	look := arrowbuf.BufferOf
	if w.dev == arrowbuf.CPU() {
		look = arrowbuf.WrapHost // pinned memory, too
	}
	buf, err := look(b)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	if from < 0 || from > buf.Len() || n > (buf.Len()-from)/max(dtype.Size(), 1) {
		return nil, fmt.Errorf("%d elements of %d bytes from byte %d on, of a buffer of %d bytes: %w",
			n, dtype.Size(), from, buf.Len(), arrow.ErrInvalid)
	}
	a, err := w.array(ndview.FromBuffer(buf, dtype, from, []int64{n}, nil))
	if err != nil || w.dev == arrowbuf.CPU() || (int64(buf.Address())+from)%align == 0 {
		return a, err
	}
	return w.array(a.Copy(ndview.OrderC))
}

// fixed looks at the values of an array, width bytes each, in buffer i.
func (w *work) fixed(data arrow.ArrayData, i int, width int64) (*ndview.NDBuffer, error) {
	return w.values(data, i, width, int64(data.Len()))
}

// values looks at n values, width bytes each, that belong to an array from its
// first element on.
func (w *work) values(data arrow.ArrayData, i int, width, n int64) (*ndview.NDBuffer, error) {
	if data.Offset() < 0 || int64(data.Offset()) > math.MaxInt64/max(width, 1)-n {
		return nil, fmt.Errorf("buffer %d at offset %d: %w", i, data.Offset(), arrow.ErrInvalid)
	}
	a, err := w.bytes(bufferOf(data, i), dtypeOf(width), int64(data.Offset())*width, n, min(width&-width, 16))
	if err != nil {
		return nil, fmt.Errorf("buffer %d: %w", i, err)
	}
	return a, nil
}

// bits are n of an Arrow bitmap, the first at a bit of the first byte. Without
// bytes all of them are set.
type bits struct {
	bytes    *ndview.NDBuffer
	first, n int64
}

// bits looks at the bits of an array's elements in buffer i.
func (w *work) bits(data arrow.ArrayData, i int) (bits, error) {
	at := int64(data.Offset())
	bytes, err := w.bytes(bufferOf(data, i), ndview.Uint8, at/8, bitutil.BytesForBits(at%8+int64(data.Len())), 1)
	if err != nil {
		return bits{}, fmt.Errorf("buffer %d: %w", i, err)
	}
	return bits{bytes, at % 8, int64(data.Len())}, nil
}

// validity looks at the bitmap of an array, if it has one and may have nulls.
func (w *work) validity(data arrow.ArrayData) (bits, error) {
	if b := bufferOf(data, 0); b == nil || b.Len() == 0 || data.NullN() == 0 || data.Len() == 0 {
		return bits{}, nil
	}
	return w.bits(data, 0)
}

func bufferOf(data arrow.ArrayData, i int) *memory.Buffer {
	if i >= len(data.Buffers()) {
		return nil
	}
	return data.Buffers()[i]
}

// dtypeOf is a dtype of elements of so many bytes.
func dtypeOf(width int64) ndview.DType {
	switch width {
	case 1:
		return ndview.Uint8
	case 2:
		return ndview.Uint16
	case 4:
		return ndview.Uint32
	case 8:
		return ndview.Uint64
	default:
		return ndview.Bytes(int32(width))
	}
}

// storageOf is the type whose layout an array has.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = ext.StorageType()
	}
}

// children are the arrays that an array consists of, which are n.
func children(data arrow.ArrayData, n int) ([]arrow.ArrayData, error) {
	all := data.Children()
	for _, child := range all {
		if child == nil {
			all = nil
		}
	}
	if len(all) != n {
		return nil, fmt.Errorf("%d child arrays are expected: %w", n, arrow.ErrInvalid)
	}
	return all, nil
}
