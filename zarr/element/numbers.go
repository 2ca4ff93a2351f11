package element

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// ToNumbers returns elements of a float of at most 8 bits as float32, and of a complex
// type that is a record as complex64. Both are exact. The result is on the CPU device
// in C order; values are copied to the host if necessary. Other types are errors: their
// elements are numbers already, or cannot be. The caller must release the result.
func (t Type) ToNumbers(values *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	f, parts, err := t.smallParts("ToNumbers")
	if err != nil {
		return nil, err
	}
	if err := t.CheckValues(values); err != nil {
		return nil, fmt.Errorf("element.Type.ToNumbers: %w", err)
	}
	raw, err := hostBytes(values)
	if err != nil {
		return nil, fmt.Errorf("element.Type.ToNumbers: %w", err)
	}
	if err := t.CheckElements(raw); err != nil {
		return nil, fmt.Errorf("element.Type.ToNumbers: %w", err)
	}
	size := f.size()
	numbers := make([]float32, len(raw)/size)
	for i := range numbers {
		numbers[i] = float32(f.toFloat64(decodeUnsigned(raw[i*size:][:size])))
	}
	return fromFloats(numbers, parts, values.Shape())
}

// FromNumbers returns numbers as elements of a float of at most 8 bits, or of a complex
// type that is a record. Values have dtype float32 or complex64, respectively. Each
// number is rounded to the nearest element, ties to even. Numbers beyond the range
// become Infinity if the type has it, otherwise NaN if the type has it, otherwise the
// largest number, as in ml_dtypes. A NaN is an error wrapping ndview.ErrRange if the
// type lacks it. The result is on the CPU device in C order. The caller must release
// it.
func (t Type) FromNumbers(values *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	f, parts, err := t.smallParts("FromNumbers")
	if err != nil {
		return nil, err
	}
	want := ndview.Float32
	if parts == 2 {
		want = ndview.Complex64
	}
	if err := Of(want).CheckValues(values); err != nil {
		return nil, fmt.Errorf("element.Type.FromNumbers: %w", err)
	}
	raw, err := hostBytes(values)
	if err != nil {
		return nil, fmt.Errorf("element.Type.FromNumbers: %w", err)
	}
	size := f.size()
	out := make([]byte, 0, len(raw)/4*size)
	for i := 0; i < len(raw); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(raw[i:]))
		bits, ok := f.fromFloat64(float64(x))
		if !ok {
			return nil, fmt.Errorf("element.Type.FromNumbers: element %d: %s has no NaN: %w", i/4/parts, f.name, ndview.ErrRange)
		}
		out = append(out, encodeLittleEndian(bits, size)...)
	}
	return ndview.FromBytes(arrowbuf.CPU(), t.dtype, out, values.Shape()...)
}

// smallParts returns the float format of a type that ToNumbers converts, and the number
// of floats per element.
func (t Type) smallParts(function string) (*floatFormat, int, error) {
	switch t.kind() {
	case formFloat:
		return t.form.float, 1, nil
	case formComplex:
		return t.form.float, 2, nil
	default:
		return nil, 0, fmt.Errorf("element.Type.%s: %s is not a float of at most 8 bits or a complex record: %w", function, t, errors.ErrUnsupported)
	}
}

func fromFloats(numbers []float32, parts int, shape []int64) (*ndview.NDBuffer, error) {
	if parts == 1 {
		return ndview.FromHost(arrowbuf.CPU(), ndview.Float32, numbers, shape...)
	}
	pairs := make([]complex64, len(numbers)/2)
	for i := range pairs {
		pairs[i] = complex(numbers[2*i], numbers[2*i+1])
	}
	return ndview.FromHost(arrowbuf.CPU(), ndview.Complex64, pairs, shape...)
}
