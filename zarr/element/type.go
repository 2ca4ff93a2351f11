package element

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ErrInvalidUTF8: an element of a String array is not UTF-8; test with errors.Is.
var ErrInvalidUTF8 = errors.New("not UTF-8")

// Type is the data type of a Zarr array. It is a small value: compare with ==.
type Type struct {
	dtype ndview.DType // the zero value for a type of variable length
	vlen  vlenKind
}

type vlenKind uint8

const (
	fixed vlenKind = iota
	text
	blob
)

// The types of variable length.
var (
	// String is "string": valid UTF-8.
	String = Type{vlen: text}
	// Bytes is "bytes". Its other names, "variable_length_bytes" and
	// "binary", are read as well.
	Bytes = Type{vlen: blob}
)

// Of is the type of an NDBuffer's elements. ndview.Bytes(n) is "r8n", raw bits.
func Of(t ndview.DType) Type { return Type{dtype: t} }

// DType is the type that an NDBuffer of such elements has; false for types of
// variable length.
func (t Type) DType() (ndview.DType, bool) { return t.dtype, t.vlen == fixed }

// IsVLen tells whether elements differ in length, so that values are a VLen.
func (t Type) IsVLen() bool { return t.vlen != fixed }

// Size is the number of bytes an element takes; 0 for variable length.
func (t Type) Size() int64 { return t.dtype.Size() }

// String is the name in metadata: "int32", "numpy.datetime64", "string", "r16".
func (t Type) String() string {
	switch t.vlen {
	case text:
		return "string"
	case blob:
		return "bytes"
	}
	name, err := t.dtype.ZarrName()
	if err != nil {
		return t.dtype.String()
	}
	return name
}

// MarshalJSON writes the data_type of metadata: the name, or for times the name
// with unit and scale factor.
func (t Type) MarshalJSON() ([]byte, error) {
	if _, err := t.dtype.ZarrName(); err != nil && !t.IsVLen() {
		return nil, err
	}
	if !t.isTime() {
		return json.Marshal(t.String())
	}
	return metajson.Named(t.String(), metajson.Members{
		{Key: "unit", Value: t.dtype.Unit()},
		{Key: "scale_factor", Value: t.dtype.Step()},
	}).MarshalJSON()
}

// UnmarshalJSON reads the data_type of metadata. A type that this package lacks
// is an error that is errors.ErrUnsupported.
func (t *Type) UnmarshalJSON(raw []byte) error {
	ext, err := metajson.ParseExtension("data_type", raw)
	if err != nil {
		return err
	}
	if !ext.MustUnderstand {
		return fmt.Errorf("data_type %q: must_understand cannot be false", ext.Name)
	}
	if *t, err = parse(ext); err != nil {
		return err
	}
	return ext.Config.Done()
}

var vlenNames = map[string]Type{"string": String, "bytes": Bytes, "variable_length_bytes": Bytes, "binary": Bytes}

func parse(ext metajson.Extension) (Type, error) {
	if t, ok := vlenNames[ext.Name]; ok {
		return t, nil
	}
	dtype, err := ndview.ParseZarrName(ext.Name)
	switch {
	case err != nil:
		return Type{}, fmt.Errorf("data type %q: %w", ext.Name, errors.ErrUnsupported)
	case dtype.Kind() == ndview.KindDatetime:
		return parseTime(ext, ndview.Datetime64)
	case dtype.Kind() == ndview.KindTimedelta:
		return parseTime(ext, ndview.Timedelta64)
	default:
		return Of(dtype), nil
	}
}

func parseTime(ext metajson.Extension, of func(ndview.TimeUnit, int32) ndview.DType) (Type, error) {
	var unit string
	var step int32
	if err := ext.Config.Need("unit", &unit); err != nil {
		return Type{}, err
	}
	if err := ext.Config.Need("scale_factor", &step); err != nil {
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
