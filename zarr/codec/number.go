package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// number reads and writes elements that are real numbers, on the host. Only filters also have
// bools and complex numbers; see [parseElement].
type number struct {
	of       element.Type
	size     int // bytes
	bits     int // less than 8 for small integers
	floating bool
	signed   bool
	time     bool        // an integer, whose smallest number is NaT
	small    *smallFloat // of floats of at most 8 bits, otherwise nil
	boolean  bool
	complex  bool // two of these floats are an element
}

// isInt reports whether elements are integers or times.
func (n number) isInt() bool { return !n.floating && !n.boolean && !n.complex }

// element returns the type of whole elements.
func (n number) element() element.Type {
	switch {
	case n.complex && n.of == float32s:
		return element.Of(ndview.Complex64)
	case n.complex:
		return element.Of(ndview.Complex128)
	default:
		return n.of
	}
}

// parts returns the number of numbers of an element.
func (n number) parts() int {
	if n.complex {
		return 2
	}
	return 1
}

// numberOf returns the number of a type, or false if elements are no integers and no
// floats of at least 16 bits.
func numberOf(of element.Type) (number, bool) {
	dtype, ok := of.DType()
	if !ok {
		return number{}, false
	}
	n := number{of: of, size: int(dtype.Size()), bits: of.NumberBits()}
	switch dtype.Kind() {
	case ndview.KindInt:
		n.signed = true
		return n, true
	case ndview.KindUint:
		return n, of == element.Of(dtype) || of == element.Uint2 || of == element.Uint4
	case ndview.KindFloat, ndview.KindBFloat:
		n.floating = true
		return n, true
	default:
		return number{}, false
	}
}

// castableNumber is numberOf for codecs that also have floats of at most 8 bits, and times.
func castableNumber(of element.Type) (number, bool) {
	if n, ok := numberOf(of); ok {
		return n, true
	}
	if small := smallFloats()[of]; small != nil {
		return number{of: of, size: 1, bits: of.NumberBits(), floating: true, small: small}, true
	}
	if dtype, ok := of.DType(); ok && dtype.IsTime() && of == element.Of(dtype) {
		return number{of: of, size: 8, bits: 64, signed: true, time: true}, true
	}
	return number{}, false
}

// nat is the number of NaT in the types of times.
const nat = math.MinInt64

// parseNumber parses a type of NumPy, such as "<f4". Times count as integers.
func parseNumber(name string) (number, Endian, error) {
	dtype, order, err := ndview.ParseDType(name)
	if err != nil {
		return number{}, "", err
	}
	isTime := dtype.IsTime()
	if isTime {
		dtype = ndview.Int64
	}
	n, ok := numberOf(element.Of(dtype))
	n.time = isTime
	if !ok {
		return number{}, "", fmt.Errorf("dtype %q: %w", name, errors.ErrUnsupported)
	}
	switch {
	case n.size == 1:
		return n, "", nil
	case order == '>':
		return n, Big, nil
	default:
		return n, Little, nil
	}
}

// parseElement is parseNumber with bools, and complex numbers as pairs of floats.
func parseElement(name string) (number, Endian, error) {
	dtype, order, err := ndview.ParseDType(name)
	if err != nil {
		return number{}, "", err
	}
	part := map[ndview.DType]ndview.DType{ndview.Complex64: ndview.Float32, ndview.Complex128: ndview.Float64}[dtype]
	switch n, _ := numberOf(element.Of(part)); {
	case dtype == ndview.Bool:
		return number{of: element.Of(dtype), size: 1, bits: 1, boolean: true}, "", nil
	case n.size == 0:
		return parseNumber(name)
	case order == '>':
		n.complex = true
		return n, Big, nil
	default:
		n.complex = true
		return n, Little, nil
	}
}

// count returns the number of numbers in raw.
func (n number) count(raw []byte) int { return len(raw) / n.size }

// int returns element i of an integer type. A uint64 has the same bits.
func (n number) int(raw []byte, i int) int64 {
	switch n.size {
	case 1:
		if n.signed {
			return int64(int8(raw[i]))
		}
		return int64(raw[i])
	case 2:
		x := le.Uint16(raw[2*i:])
		if n.signed {
			return int64(int16(x))
		}
		return int64(x)
	case 4:
		x := le.Uint32(raw[4*i:])
		if n.signed {
			return int64(int32(x))
		}
		return int64(x)
	default:
		return int64(le.Uint64(raw[8*i:]))
	}
}

// putInt stores the low bits of x.
func (n number) putInt(raw []byte, i int, x int64) {
	switch n.size {
	case 1:
		if n.bits < 8 {
			x <<= 64 - n.bits // small integers are stored with their sign extended
			if n.signed {
				x >>= 64 - n.bits
			} else {
				x = int64(uint64(x) >> (64 - n.bits))
			}
		}
		raw[i] = byte(x)
	case 2:
		le.PutUint16(raw[2*i:], uint16(x))
	case 4:
		le.PutUint32(raw[4*i:], uint32(x))
	default:
		le.PutUint64(raw[8*i:], uint64(x))
	}
}

// float returns element i of a float type.
func (n number) float(raw []byte, i int) float64 {
	switch n.of {
	case float64s:
		return math.Float64frombits(le.Uint64(raw[8*i:]))
	case float32s:
		return float64(math.Float32frombits(le.Uint32(raw[4*i:])))
	}
	x := n.of.Float64(raw[n.size*i:])
	if x != x { // the NaN of processors, unlike that of package math
		x = math.Float64frombits(0x7ff8 << 48)
	}
	return x
}

// putFloat stores the element nearest to x, ties to even.
func (n number) putFloat(raw []byte, i int, x float64) {
	switch n.of {
	case float64s:
		le.PutUint64(raw[8*i:], math.Float64bits(x))
	case float32s:
		le.PutUint32(raw[4*i:], math.Float32bits(float32(x)))
	default:
		n.of.PutFloat64(raw[n.size*i:], x)
	}
}

// le is the byte order of encoded numbers.
var le = binary.LittleEndian

var (
	float32s = element.Of(ndview.Float32)
	float64s = element.Of(ndview.Float64)
)

// round returns the number of a float type that is nearest to x, ties to even.
func (n number) round(x float64) float64 {
	switch n.of {
	case float64s:
		return x
	case float32s:
		return float64(float32(x))
	}
	var raw [8]byte
	n.of.PutFloat64(raw[:], x)
	return n.of.Float64(raw[:])
}

// toFloat converts an integer of the type n, rounded once to the float type of to.
func (n number) toFloat(x int64, to number) float64 {
	switch {
	case to.of == float64s && n.signed:
		return float64(x)
	case to.of == float64s:
		return float64(uint64(x))
	case n.signed:
		return to.round(float64(float32(x))) // NumPy converts to float16 by way of float32
	default:
		return to.round(float64(float32(uint64(x))))
	}
}

// promotedFloat returns the float type in which NumPy adds numbers of two types, of which
// at least one is a float.
func promotedFloat(a, b number) number {
	size := 2
	for _, n := range []number{a, b} {
		switch {
		case n.floating:
			size = max(size, n.size)
		default: // floats with at least as many digits
			size = max(size, min(2*n.size, 8))
		}
	}
	name := map[int]ndview.DType{2: ndview.Float16, 4: ndview.Float32, 8: ndview.Float64}[size]
	n, _ := numberOf(element.Of(name))
	return n
}

// contains reports whether an integral x is in the range of the integer type.
func (n number) contains(x float64) bool {
	if n.signed {
		limit := math.Ldexp(1, n.bits-1)
		return x >= -limit && x < limit
	}
	return x >= 0 && x < math.Ldexp(1, n.bits)
}

// fromFloat returns an integral x that the integer type contains.
func (n number) fromFloat(x float64) int64 {
	if x >= 1<<63 {
		return int64(uint64(x))
	}
	return int64(x)
}

var errRange = errors.New("value is not in the range of the type")

// truncated returns what an x86 processor makes of an integral x, or of NaN, that the
// integer type does not contain. So does NumPy, although C leaves it open.
func (n number) truncated(x float64) int64 {
	within := func(bits int) bool { return math.Abs(x) < math.Ldexp(1, bits-1) }
	switch {
	case n.size <= 2 && within(32), n.size == 4 && !n.signed && within(64), n.size == 8 && !n.signed && within(64):
		return int64(x)
	case n.size <= 2, n.size == 4 && !n.signed, n.size == 8 && !n.signed && x > 0:
		return 0
	case n.size == 4:
		return math.MinInt32
	default:
		return math.MinInt64
	}
}

// isZero reports whether number i is 0.
func (n number) isZero(raw []byte, i int) bool {
	if n.floating {
		return n.float(raw, i) == 0
	}
	return n.int(raw, i) == 0
}

// isOne reports whether number i is 1.
func (n number) isOne(raw []byte, i int) bool {
	if n.floating {
		return n.float(raw, i) == 1
	}
	return n.int(raw, i) == 1
}

// convert casts elements as NumPy does. Floats are rounded to the nearest float, and
// truncated to integers. Integers of one size keep their bits. It returns an error where
// NumPy loses data: for integers that a smaller type does not contain, for floats that an
// integer type does not contain, for bools of numbers other than 0 and 1, and for real
// numbers of complex ones.
func convert(dst []byte, to number, src []byte, from number) error {
	return cast(dst, to, src, from, true)
}

// reconvert casts what is stored. Unlike convert it returns no error, because elements
// outside of an array may be of any value: numcodecs stores what remains of a fill value.
func reconvert(dst []byte, to number, src []byte, from number) error {
	return cast(dst, to, src, from, false)
}

func cast(dst []byte, to number, src []byte, from number, strict bool) error {
	switch {
	case to.boolean:
		return castToBools(dst, src, from, strict)
	case from.complex && !to.complex:
		real, err := realParts(src, from, strict)
		if err != nil {
			return err
		}
		from.complex = false
		return cast(dst, to, real, from, strict)
	case to.complex && !from.complex:
		real := make([]byte, len(dst)/2)
		part := to
		part.complex = false
		err := cast(real, part, src, from, strict)
		clear(dst)
		for i := range part.count(real) {
			copy(dst[2*i*part.size:], real[i*part.size:(i+1)*part.size])
		}
		return err
	case to.of == from.of:
		copy(dst, src)
		return nil
	}
	for i := range from.count(src) {
		switch {
		case from.floating && to.floating:
			to.putFloat(dst, i, from.float(src, i))
		case from.floating:
			x := math.Trunc(from.float(src, i))
			switch {
			case to.contains(x):
				to.putInt(dst, i, to.fromFloat(x))
			case strict:
				return fmt.Errorf("element %d, %g: %w %s", i, from.float(src, i), errRange, to.of)
			default:
				to.putInt(dst, i, to.truncated(x))
			}
		case to.floating:
			to.putFloat(dst, i, from.toFloat(from.int(src, i), to))
		default:
			x := from.int(src, i)
			to.putInt(dst, i, x)
			if strict && to.bits < from.bits && to.int(dst, i) != x {
				return fmt.Errorf("element %d, %d: %w %s", i, x, errRange, to.of)
			}
		}
	}
	return nil
}

// castToBools sets those that are not 0.
func castToBools(dst, src []byte, from number, strict bool) error {
	parts := from.parts()
	for i := range dst {
		at := parts * i
		zero := from.isZero(src, at) && from.isZero(src, at+parts-1)
		if strict && !zero && (!from.isOne(src, at) || parts == 2 && !from.isZero(src, at+1)) {
			return fmt.Errorf("element %d is neither 0 nor 1: %w bool", i, errRange)
		}
		dst[i] = 1
		if zero {
			dst[i] = 0
		}
	}
	return nil
}

// realParts returns the real parts of complex numbers.
func realParts(src []byte, from number, strict bool) ([]byte, error) {
	real := make([]byte, 0, len(src)/2)
	for i := 0; i < from.count(src); i += 2 {
		if strict && !from.isZero(src, i+1) {
			return nil, fmt.Errorf("element %d has an imaginary part: %w %s", i/2, errRange, from.of)
		}
		real = append(real, src[i*from.size:(i+1)*from.size]...)
	}
	return real, nil
}

// viewShape returns the shape of elements of another size over the same bytes: the same
// shape if the size is that of the chunk, otherwise one axis.
func viewShape(in ChunkSpec, size int) ([]int64, error) {
	if int64(size) == in.Type.Size() {
		return in.Shape, nil
	}
	if in.nbytes()%int64(size) != 0 {
		return nil, fmt.Errorf("chunk of %d bytes is no array of elements of %d bytes", in.nbytes(), size)
	}
	return []int64{in.nbytes() / int64(size)}, nil
}
