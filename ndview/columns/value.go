package columns

import (
	"fmt"
	"reflect"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"

	"github.com/quiver-gpu/quiver/ndview"
)

// value is an operand or a result of a function: a column, or a literal if it has
// constant bytes.
type value struct {
	dtype arrow.DataType // nil for a weak literal
	n     int64
	label string // names the value in errors

	// A column is an input array, or elements and validity. Both are bitmaps from bit 0
	// on if the type is bool; validity is nil if no element is null.
	array    arrow.Array
	elements *ndview.NDBuffer
	valid    *ndview.NDBuffer

	// A literal is a Go value, whose type the other operand decides, or the bytes of one
	// element of dtype.
	weak    any
	literal []byte
	null    bool
}

func (v value) isLiteral() bool { return v.literal != nil || v.weak != nil }

// isNil reports whether an interface is nil or holds a nil pointer.
func isNil(x any) bool {
	if x == nil {
		return true
	}
	r := reflect.ValueOf(x)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// literalOf returns the value of a scalar or a Go value.
func literalOf(x any) (value, error) {
	switch x := x.(type) {
	case nil:
		return value{}, fmt.Errorf("operand: %w", errNil)
	case bool, int, uint, float64, time.Time, time.Duration:
		return value{weak: x, label: fmt.Sprintf("the Go value %v", x)}, nil
	case scalar.Scalar:
		if isNil(x) {
			return value{}, fmt.Errorf("scalar: %w", errNil)
		}
		return literalOfScalar(x)
	}
	s, err := ndview.ScalarOf(x)
	if err != nil {
		return value{}, fmt.Errorf("operand of Go type %T: %w: %w", x, arrow.ErrInvalid, err)
	}
	t, err := s.Natural().Arrow()
	if err != nil {
		return value{}, fmt.Errorf("operand of Go type %T: %w: %w", x, arrow.ErrInvalid, err)
	}
	raw, err := s.Bytes(s.Natural())
	return value{dtype: t, literal: raw, label: fmt.Sprintf("the Go value %v", x)}, err
}

// literalOfScalar returns the value of a scalar of a fixed width, or of a null of any
// type. A bool is a byte.
func literalOfScalar(x scalar.Scalar) (v value, err error) {
	defer func() {
		if failure := recover(); failure != nil { // arrow-go panics for scalars without a value
			err = fmt.Errorf("scalar %T: %v: %w", x, failure, arrow.ErrInvalid)
		}
	}()
	t := x.DataType()
	v = value{dtype: t, label: fmt.Sprintf("the scalar %s of type %s", x, t), null: !x.IsValid()}
	width, ok := widthOf(t)
	switch {
	case !ok:
		return v, fmt.Errorf("operand is %s: %w", v.label, arrow.ErrNotImplemented)
	case v.null:
		v.literal = make([]byte, max(width, 1))
		return v, nil
	}
	one, err := scalar.MakeArrayFromScalar(x, 1, memory.DefaultAllocator)
	if err != nil {
		return v, fmt.Errorf("operand is %s: %w", v.label, err)
	}
	defer one.Release()
	raw := one.Data().Buffers()[1].Bytes()
	if t.ID() == arrow.BOOL {
		v.literal = []byte{raw[0] & 1}
	} else {
		v.literal = append([]byte{}, raw[:width]...)
	}
	return v, nil
}

// widthOf returns the bytes per element of a type of a fixed width that is a power of 2
// up to 16. Bool has 0.
func widthOf(t arrow.DataType) (int64, bool) {
	switch t := storageOf(t).(type) {
	case *arrow.BooleanType:
		return 0, true
	case *arrow.DictionaryType, *arrow.FixedSizeListType:
		return 0, false
	case arrow.FixedWidthDataType:
		n := int64(t.Bytes())
		return n, n > 0 && n <= 16 && n&(n-1) == 0
	}
	return 0, false
}

// numberType returns the type in which kernels compute with a type of Arrow: times and
// small decimals are integers.
func numberType(t arrow.DataType) (ndview.DType, bool) {
	switch t.ID() {
	case arrow.INT8:
		return ndview.Int8, true
	case arrow.INT16:
		return ndview.Int16, true
	case arrow.INT32, arrow.DATE32, arrow.TIME32, arrow.DECIMAL32:
		return ndview.Int32, true
	case arrow.INT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION, arrow.DECIMAL64:
		return ndview.Int64, true
	case arrow.UINT8:
		return ndview.Uint8, true
	case arrow.UINT16:
		return ndview.Uint16, true
	case arrow.UINT32:
		return ndview.Uint32, true
	case arrow.UINT64:
		return ndview.Uint64, true
	case arrow.FLOAT16:
		return ndview.Float16, true
	case arrow.FLOAT32:
		return ndview.Float32, true
	case arrow.FLOAT64:
		return ndview.Float64, true
	}
	return ndview.DType{}, false
}

// load returns a column whose elements and validity are on the workspace's device. The
// elements are numbers of type as, or bits for a bool.
func (w *workspace) load(v value, as ndview.DType) (value, error) {
	v, err := w.loadValidity(v)
	if err != nil || v.isLiteral() {
		return v, err
	}
	if v.elements == nil {
		if v.elements, err = w.loadElements(v.array, v.label); err != nil {
			return v, err
		}
	}
	if v.dtype.ID() == arrow.BOOL || v.elements.DType() == as {
		return v, nil
	}
	v.elements, err = w.ownArray(v.elements.View(as))
	return v, err
}

func (w *workspace) loadElements(arr arrow.Array, label string) (*ndview.NDBuffer, error) {
	width, ok := widthOf(arr.DataType())
	if !ok {
		return nil, fmt.Errorf("%s: %w", label, arrow.ErrNotImplemented)
	}
	if storageOf(arr.DataType()).ID() == arrow.BOOL {
		bits, err := w.viewBits(arr.Data(), 1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		return w.alignBits(bits)
	}
	elements, err := w.viewFixed(arr.Data(), 1, width)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", label, err)
	}
	return elements, nil
}

// loadValidity returns a column whose validity is on the workspace's device. That of a
// null literal has no set bit.
func (w *workspace) loadValidity(v value) (value, error) {
	if v.isLiteral() || v.array == nil || v.valid != nil {
		return v, nil
	}
	bits, err := w.viewValidity(v.array.Data())
	if err != nil {
		return v, fmt.Errorf("%s: validity bitmap: %w", v.label, err)
	}
	if bits.bytes != nil {
		v.valid, err = w.alignBits(bits)
	}
	return v, err
}

// dataOf returns a computed value as array data, which the workspace owns.
func (w *workspace) dataOf(v value) (*array.Data, error) {
	buffers := []*memory.Buffer{nil, nil}
	var err error
	if v.valid != nil {
		if buffers[0], err = w.toBuffer(v.valid, v.valid.NBytes()); err != nil {
			return nil, err
		}
	}
	if buffers[1], err = w.toBuffer(v.elements, v.elements.NBytes()); err != nil {
		return nil, err
	}
	return w.newData(v.dtype, v.n, buffers), nil
}

// alignBits returns bits as bytes that begin with bit 0.
func (w *workspace) alignBits(b bitmap) (*ndview.NDBuffer, error) {
	if b.first == 0 {
		return b.bytes, nil
	}
	n := bitutil.BytesForBits(b.n)
	low, err := w.ownArray(b.bytes.Slice(0, 0, n))
	if err != nil {
		return nil, err
	}
	out, err := w.ownArray(ndview.RightShift.Of(low, int(b.first)))
	if err != nil || b.bytes.Size() == 1 {
		return out, err
	}
	next, err := w.ownArray(b.bytes.Slice(0, 1, min(n+1, b.bytes.Size())))
	if err != nil {
		return nil, err
	}
	high, err := w.ownArray(ndview.LeftShift.Of(next, int(8-b.first)))
	if err != nil {
		return nil, err
	}
	target, err := w.ownArray(out.Slice(0, 0, high.Size()))
	if err != nil {
		return nil, err
	}
	return out, ndview.BitwiseOr.Into(target, target, high)
}

// packBools returns bools as bits. The bits after the last one are 0.
func (w *workspace) packBools(bools *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	out, err := w.ownArray(ndview.Zeros(w.dev, ndview.Uint8, bitutil.BytesForBits(bools.Size())))
	if err != nil || bools.Size() == 0 {
		return out, err
	}
	return out, bools.PackBits(out.Buffer(), 8*out.Offset())
}

// bits is a bitmap of a computation. The zero value has all bits set.
type bits = *ndview.NDBuffer

// both returns the bits that are set in both bitmaps; nil has all bits set.
func (w *workspace) both(x, y bits) (bits, error) {
	switch {
	case x == nil:
		return y, nil
	case y == nil:
		return x, nil
	}
	return w.ownArray(ndview.BitwiseAnd.Of(x, y))
}

// either returns the bits that are set in one of the bitmaps; nil has all bits set.
func (w *workspace) either(x, y bits) (bits, error) {
	if x == nil || y == nil {
		return nil, nil
	}
	return w.ownArray(ndview.BitwiseOr.Of(x, y))
}

// inverted returns the bits that are not set in a bitmap, which is not nil.
func (w *workspace) inverted(x bits) (bits, error) { return w.ownArray(ndview.Invert.Of(x)) }

// constantBits returns a bitmap of n equal bits.
func (w *workspace) constantBits(n int64, set bool) (bits, error) {
	pattern := 0
	if set {
		pattern = 0xff
	}
	return w.ownArray(ndview.Full(w.dev, ndview.Uint8, pattern, bitutil.BytesForBits(n)))
}

// validityOfAll returns the bits of elements that are null in no operand, for n elements.
func (w *workspace) validityOfAll(n int64, in ...value) (valid bits, err error) {
	for _, v := range in {
		if v.null {
			return w.constantBits(n, false)
		}
		if valid, err = w.both(valid, v.valid); err != nil {
			return nil, err
		}
	}
	return valid, nil
}
