package element

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/ndview"
)

// ToNumbers returns elements of a float of at most 8 bits as float32, and of a complex
// type that is a record as complex64. Both are exact, except for the payloads of
// NaN. The result is on the device of values,
// in C order; floats are converted there, complex numbers on the host. Other types are
// errors: their elements are numbers already, or cannot be. The caller must release the
// result.
func (t Type) ToNumbers(values *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	f, parts, err := t.smallParts("ToNumbers")
	if err != nil {
		return nil, err
	}
	if err := t.CheckValues(values); err != nil {
		return nil, fmt.Errorf("element.Type.ToNumbers: %w", err)
	}
	if parts == 1 {
		return t.lookUp(values)
	}
	raw, err := hostBytes(values)
	if err != nil {
		return nil, fmt.Errorf("element.Type.ToNumbers: %w", err)
	}
	size := f.size()
	numbers := make([]complex64, len(raw)/(2*size))
	part := func(i int) float32 { return float32(f.toFloat64(decodeUnsigned(raw[i*size:][:size]))) }
	for i := range numbers {
		numbers[i] = complex(part(2*i), part(2*i+1))
	}
	return ndview.FromHost(values.Device(), ndview.Complex64, numbers, values.Shape()...)
}

// lookUp converts floats of at most 8 bits on their device, by a table of all bytes.
func (t Type) lookUp(values *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	numbers := make([]float32, 256)
	for b := range numbers {
		bits := []byte{byte(b)}
		t.Normalize(bits)
		numbers[b] = float32(t.form.float.toFloat64(uint64(bits[0])))
	}
	table, err := ndview.FromHost(values.Device(), ndview.Float32, numbers, 256)
	if err != nil {
		return nil, fmt.Errorf("element.Type.ToNumbers: %w", err)
	}
	defer table.Release()
	return ndview.Take(table, values, 0, ndview.ModeRaise)
}

// FromNumbers returns numbers as elements of a float of at most 8 bits, or of a complex
// type that is a record. Values have dtype float32 or complex64, respectively. Each
// number is rounded to the nearest element, ties to even. Numbers beyond the range
// become Infinity if the type has it, otherwise NaN if the type has it, otherwise the
// largest number, as in ml_dtypes. A NaN is an error wrapping ndview.ErrRange if the
// type lacks it. The result is on the device of values in C order; the conversion is on
// the host. The caller must release it.
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
	return ndview.FromBytes(values.Device(), t.dtype, out, values.Shape()...)
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
