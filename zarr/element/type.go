package element

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ErrInvalidUTF8 reports that an element of a String array is not UTF-8. Test with
// errors.Is.
var ErrInvalidUTF8 = errors.New("not UTF-8")

// Type is the data type of a Zarr array (Zarr core 3.1, "Data types", and
// zarr-extensions). Compare types with ==. The zero value is invalid.
type Type struct {
	dtype ndview.DType // zero for variable-length types
	vlen  vlenKind
}

type vlenKind uint8

const (
	fixedWidth vlenKind = iota
	vlenUTF8
	vlenBytes
)

// Variable-length types.
var (
	// String is "string": valid UTF-8.
	String = Type{vlen: vlenUTF8}
	// Bytes is "bytes". UnmarshalJSON also accepts its aliases "variable_length_bytes"
	// and "binary".
	Bytes = Type{vlen: vlenBytes}
)

// Of returns the type of an NDBuffer's elements. ndview.Bytes(n) becomes "rN" with N =
// 8n: raw bits.
func Of(t ndview.DType) Type { return Type{dtype: t} }

// DType returns the dtype of an NDBuffer with such elements, or false for
// variable-length types.
func (t Type) DType() (ndview.DType, bool) { return t.dtype, t.vlen == fixedWidth }

// IsVLen reports whether elements have variable length, so that values are a [VLen].
func (t Type) IsVLen() bool { return t.vlen != fixedWidth }

// Size returns the size of an element in bytes, or 0 for variable-length types.
func (t Type) Size() int64 { return t.dtype.Size() }

// String returns the name in metadata, such as "int32", "numpy.datetime64" or "r16".
func (t Type) String() string {
	switch t.vlen {
	case vlenUTF8:
		return "string"
	case vlenBytes:
		return "bytes"
	}
	name, err := t.dtype.ZarrName()
	if err != nil {
		return t.dtype.String()
	}
	return name
}

// MarshalJSON writes the data_type member of metadata: a name, or for times an object
// with the unit and scale factor.
func (t Type) MarshalJSON() ([]byte, error) {
	if _, err := t.dtype.ZarrName(); err != nil && !t.IsVLen() {
		return nil, err
	}
	if !t.isTime() {
		return json.Marshal(t.String())
	}
	return metajson.FormatExtension(t.String(), metajson.Members{
		{Key: "unit", Value: t.dtype.Unit()},
		{Key: "scale_factor", Value: t.dtype.Step()},
	}).MarshalJSON()
}

// UnmarshalJSON reads the data_type member of metadata. It returns an error wrapping
// errors.ErrUnsupported if this package lacks the type.
func (t *Type) UnmarshalJSON(raw []byte) error {
	ext, err := metajson.ParseExtension("data_type", raw)
	if err != nil {
		return err
	}
	if !ext.MustUnderstand {
		return fmt.Errorf("data_type %q: must_understand cannot be false", ext.Name)
	}
	if *t, err = parseType(ext); err != nil {
		return err
	}
	return ext.Config.CheckEmpty()
}

var vlenNames = map[string]Type{"string": String, "bytes": Bytes, "variable_length_bytes": Bytes, "binary": Bytes}

func parseType(ext metajson.Extension) (Type, error) {
	if t, ok := vlenNames[ext.Name]; ok {
		return t, nil
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

func (t Type) isTime() bool { return t.dtype.IsTime() }
