package element

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ErrInvalidUTF8 reports that an element of a String array is not UTF-8. Test with
// errors.Is.
var ErrInvalidUTF8 = errors.New("not UTF-8")

// Type is the data type of a Zarr array (Zarr core 3.1, "Data types", and
// zarr-extensions). Compare types with ==. The zero value is invalid.
//
// Values are an NDBuffer of the dtype that [Type.DType] returns, or a [VLen]. Several
// types share a dtype:
//
//   - Int2 and Int4 are int8, Uint2 and Uint4 are uint8: one number per byte.
//   - Floats of 4, 6 and 8 bits are uint8: their bits. [Type.ToNumbers] and
//     [Type.FromNumbers] convert them.
//   - Complex numbers of float16, bfloat16 and smaller floats are records of "real" and
//     "imag".
//   - Text of a fixed length is bytes; [Type.ToVLen] and [Type.FromVLen] convert it.
type Type struct {
	dtype ndview.DType // zero for variable-length types
	form  *form        // what the dtype does not determine; nil for nothing
}

// form is what distinguishes a type from others of the same dtype.
type form struct {
	kind   formKind
	name   string       // in metadata
	float  *floatFormat // of formFloat and formComplex
	bits   int          // of formInt
	fields []Field      // of formStruct
	layout layout       // of formStruct
}

type formKind uint8

const (
	formString formKind = iota + 1
	formBytes
	formInt        // an integer of 2 or 4 bits
	formFloat      // a float of at most 8 bits
	formComplex    // a complex number without a dtype of its own
	formRawBytes   // raw_bytes, in contrast to r*
	formUTF32      // fixed_length_utf32
	formTerminated // null_terminated_bytes
	formStruct
)

// Variable-length types.
var (
	// String is "string": valid UTF-8.
	String = Type{form: &form{kind: formString, name: "string"}}
	// Bytes is "bytes". UnmarshalJSON also accepts its aliases "variable_length_bytes"
	// and "binary".
	Bytes = Type{form: &form{kind: formBytes, name: "bytes"}}
)

// Integers of 2 and 4 bits. Chunks store one byte per number, whose upper bits have no
// meaning. Reading extends the sign; writing returns an error for numbers that do not
// fit.
var (
	Int2  = smallInt("int2", ndview.Int8, 2)
	Int4  = smallInt("int4", ndview.Int8, 4)
	Uint2 = smallInt("uint2", ndview.Uint8, 2)
	Uint4 = smallInt("uint4", ndview.Uint8, 4)
)

func smallInt(name string, t ndview.DType, bits int) Type {
	return Type{t, &form{kind: formInt, name: name, bits: bits}}
}

// Floats of at most 8 bits, by the names of ml_dtypes and the OCP formats. Float8E4M3FN
// is not registered with Zarr; tensorstore reads and writes it.
var (
	Float4E2M1FN      = smallFloat(float4E2M1FN)
	Float6E2M3FN      = smallFloat(float6E2M3FN)
	Float6E3M2FN      = smallFloat(float6E3M2FN)
	Float8E3M4        = smallFloat(float8E3M4)
	Float8E4M3        = smallFloat(float8E4M3)
	Float8E4M3FN      = smallFloat(float8E4M3FN)
	Float8E4M3B11FNUZ = smallFloat(float8E4M3B11FNUZ)
	Float8E4M3FNUZ    = smallFloat(float8E4M3FNUZ)
	Float8E5M2        = smallFloat(float8E5M2)
	Float8E5M2FNUZ    = smallFloat(float8E5M2FNUZ)
	Float8E8M0FNU     = smallFloat(float8E8M0FNU)
)

func smallFloat(f *floatFormat) Type {
	return Type{ndview.Uint8, &form{kind: formFloat, name: f.name, float: f}}
}

// complexTypes are the complex types without a dtype, by the format of their parts.
var complexTypes = func() map[*floatFormat]Type {
	types := map[*floatFormat]Type{}
	for f, part := range partTypes {
		record, err := ndview.Record(2*part.Size(), ndview.Field{Name: "real", DType: part}, ndview.Field{Name: "imag", DType: part, Offset: part.Size()})
		if err != nil {
			panic(err) // impossible: the fields are constant
		}
		types[f] = Type{record, &form{kind: formComplex, name: "complex_" + f.name, float: f}}
	}
	return types
}()

// Complex returns the complex type whose parts are of a float type: ndview.Complex64
// and ndview.Complex128 for float32 and float64, otherwise a record of "real" and
// "imag" with the dtype of the float type. It returns the zero Type for other types.
func Complex(part Type) Type {
	switch part {
	case Of(ndview.Float32):
		return Of(ndview.Complex64)
	case Of(ndview.Float64):
		return Of(ndview.Complex128)
	}
	if f := part.floatFormat(); f != nil && part.dtype.Kind() != ndview.KindComplex {
		return complexTypes[f]
	}
	return Type{}
}

var (
	rawBytes   = &form{kind: formRawBytes, name: "raw_bytes"}
	utf32      = &form{kind: formUTF32, name: "fixed_length_utf32"}
	terminated = &form{kind: formTerminated, name: "null_terminated_bytes"}
)

// maxConfiguredSize bounds the size of an element that only a number in metadata claims,
// because a fill value takes as much memory.
const maxConfiguredSize = 1 << 20

// RawBytes returns "raw_bytes": n uninterpreted bytes under the name that zarr-python
// writes. Of(ndview.Bytes(n)) is the same in the name of the specification, "rN". It
// returns the zero Type unless n is from 1 to 2^20.
func RawBytes(n int32) Type { return configured(rawBytes, int64(n), 1) }

// UTF32 returns "fixed_length_utf32": text of at most n code points, stored as n numbers
// of 32 bits and padded with zeros. It returns the zero Type unless n is from 1 to 2^18.
func UTF32(n int32) Type { return configured(utf32, int64(n), 4) }

// NullTerminated returns "null_terminated_bytes": at most n bytes, padded with zeros.
// Trailing zeros are not part of the value. It returns the zero Type unless n is from 1
// to 2^20.
func NullTerminated(n int32) Type { return configured(terminated, int64(n), 1) }

func configured(f *form, n, width int64) Type {
	if n < 1 || n > maxConfiguredSize/width {
		return Type{}
	}
	return Type{ndview.Bytes(int32(n * width)), f}
}

// Of returns the type of an NDBuffer's elements. ndview.Bytes(n) becomes "rN" with N =
// 8n: raw bits. A record without gaps becomes a struct; other records cannot be named
// in metadata.
func Of(t ndview.DType) Type {
	if t.Kind() == ndview.KindRecord {
		return structOf(t)
	}
	return Type{dtype: t}
}

// DType returns the dtype of an NDBuffer with such elements, or false for
// variable-length types.
func (t Type) DType() (ndview.DType, bool) { return t.dtype, !t.IsVLen() }

// kind returns the kind of the form, or 0 if the dtype determines the type.
func (t Type) kind() formKind {
	if t.form == nil {
		return 0
	}
	return t.form.kind
}

// IsVLen reports whether elements have variable length, so that values are a [VLen].
func (t Type) IsVLen() bool { return t.kind() == formString || t.kind() == formBytes }

// Size returns the size of an element in bytes, or 0 for variable-length types.
func (t Type) Size() int64 { return t.dtype.Size() }

// String returns the name in metadata, such as "int32", "numpy.datetime64" or "r16".
func (t Type) String() string {
	if t.form != nil {
		return t.form.name
	}
	name, err := t.dtype.ZarrName()
	if err != nil {
		return t.dtype.String()
	}
	return name
}

// MarshalJSON writes the data_type member of metadata: a name, or an object for types
// with a configuration.
func (t Type) MarshalJSON() ([]byte, error) {
	var config metajson.Members
	switch t.kind() {
	case formUTF32, formTerminated, formRawBytes:
		config = metajson.Members{{Key: "length_bytes", Value: t.Size()}}
	case formStruct:
		return t.marshalStruct()
	case 0:
		if _, err := t.dtype.ZarrName(); err != nil {
			return nil, err
		}
		if t.isTime() {
			config = metajson.Members{{Key: "unit", Value: t.dtype.Unit()}, {Key: "scale_factor", Value: t.dtype.Step()}}
		}
	}
	if config == nil {
		return json.Marshal(t.String())
	}
	return metajson.FormatExtension(t.String(), config).MarshalJSON()
}

// UnmarshalJSON reads the data_type member of metadata. It returns an error wrapping
// errors.ErrUnsupported if this package lacks the type.
func (t *Type) UnmarshalJSON(raw []byte) (err error) {
	*t, err = parseType(raw, 0)
	return err
}

// parseType parses a data type within depth structs.
func parseType(raw json.RawMessage, depth int) (Type, error) {
	ext, err := metajson.ParseExtension("data_type", raw)
	if err != nil {
		return Type{}, err
	}
	if !ext.MustUnderstand {
		return Type{}, fmt.Errorf("data_type %q: must_understand cannot be false", ext.Name)
	}
	t, err := parseNamed(ext, depth)
	if err != nil {
		return Type{}, err
	}
	return t, ext.Config.CheckEmpty()
}

// names are the types with a name that ndview lacks, and no configuration.
var names = func() map[string]Type {
	names := map[string]Type{
		"string": String, "bytes": Bytes, "variable_length_bytes": Bytes, "binary": Bytes,
		"complex_float32": Of(ndview.Complex64), "complex_float64": Of(ndview.Complex128),
	}
	for _, t := range []Type{Int2, Int4, Uint2, Uint4, Float4E2M1FN, Float6E2M3FN, Float6E3M2FN, Float8E3M4, Float8E4M3,
		Float8E4M3FN, Float8E4M3B11FNUZ, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0FNU} {
		names[t.String()] = t
	}
	for _, t := range complexTypes {
		names[t.String()] = t
	}
	return names
}()

func parseNamed(ext metajson.Extension, depth int) (Type, error) {
	if t, ok := names[ext.Name]; ok {
		return t, nil
	}
	switch ext.Name {
	case rawBytes.name:
		return parseConfigured(ext, rawBytes, 1)
	case utf32.name:
		return parseConfigured(ext, utf32, 4)
	case terminated.name:
		return parseConfigured(ext, terminated, 1)
	case structName, legacyStructName:
		return parseStruct(ext, depth)
	}
	dtype, err := ndview.ParseZarrName(ext.Name)
	switch {
	case err != nil:
		return Type{}, fmt.Errorf("data type %q: %w", ext.Name, errors.ErrUnsupported)
	case dtype.Kind() == ndview.KindDatetime:
		return parseTimeType(ext, ndview.Datetime64)
	case dtype.Kind() == ndview.KindTimedelta:
		return parseTimeType(ext, ndview.Timedelta64)
	default:
		return Of(dtype), nil
	}
}

// parseConfigured parses a type whose configuration is its length in bytes.
func parseConfigured(ext metajson.Extension, f *form, width int64) (Type, error) {
	var raw json.RawMessage
	if err := ext.Config.DecodeRequired("length_bytes", &raw); err != nil {
		return Type{}, err
	}
	n, err := metajson.ParseInt(string(raw))
	switch {
	case err != nil:
		return Type{}, fmt.Errorf("%s: length_bytes: %w", ext.Name, err)
	case n < 1 || n%width != 0 || n > math.MaxInt32:
		return Type{}, fmt.Errorf("%s: length_bytes %d, want a positive multiple of %d", ext.Name, n, width)
	case n > maxConfiguredSize:
		return Type{}, fmt.Errorf("%s: length_bytes %d, want at most %d: %w", ext.Name, n, maxConfiguredSize, errors.ErrUnsupported)
	}
	return configured(f, n/width, width), nil
}

func parseTimeType(ext metajson.Extension, of func(ndview.TimeUnit, int32) ndview.DType) (Type, error) {
	var unit string
	var step int32
	if err := ext.Config.DecodeRequired("unit", &unit); err != nil {
		return Type{}, err
	}
	if err := ext.Config.DecodeRequired("scale_factor", &step); err != nil {
		return Type{}, err
	}
	known, err := ndview.ParseTimeUnit(unit)
	if err != nil {
		return Type{}, fmt.Errorf("%s: %w", ext.Name, err)
	}
	if step < 1 {
		return Type{}, fmt.Errorf("%s: scale_factor %d is not positive", ext.Name, step)
	}
	return Of(of(known, step)), nil
}

func (t Type) isTime() bool { return t.form == nil && t.dtype.IsTime() }
