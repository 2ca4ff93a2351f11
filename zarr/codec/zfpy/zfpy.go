// Package zfpy has the codecs that are zfp, which compresses arrays of up to four axes,
// usually with loss. An import of the package registers them: numcodecs.zfpy for Zarr v2
// and v3, and zfp for v3.
//
//	import _ "github.com/quiver-gpu/quiver/zarr/codec/zfpy"
//
// The codecs are the C library zfp, compiled to WebAssembly (wasm/build). They compress
// integers and floats of 32 and 64 bits, in chunks of at most 1 GiB; zfp also smaller
// integers and times.
package zfpy

import (
	"bytes"
	_ "embed" // for the module
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/codec/internal/wasm"
)

//go:embed zfp.wasm.gz
var compressed []byte

var module = wasm.New(compressed)

// Name is the name of the codec in metadata.
const Name = "numcodecs.zfpy"

func init() {
	if err := errors.Join(codec.Register(Name, parse), codec.Register(ZFPName, parseZFP)); err != nil {
		panic(err) // a name is taken
	}
}

// Mode is a mode of zfp, with zfp's number.
type Mode int

// The modes that numcodecs has. A negative parameter of a mode means Reversible.
const (
	FixedRate      Mode = 2 // Rate bits per element
	FixedPrecision Mode = 3 // Precision bit planes per block
	FixedAccuracy  Mode = 4 // an absolute error of at most Tolerance
	Reversible     Mode = 5 // without loss
)

// Codec is the codec with its options, which matter for encoding only. The names are
// those of numcodecs.
type Codec struct {
	Mode      Mode    `json:"mode"`
	Tolerance float64 `json:"tolerance"`
	Rate      float64 `json:"rate"`
	Precision int     `json:"precision"`
}

// Lossless returns the codec with the defaults of numcodecs, which lose nothing.
func Lossless() Codec { return Codec{Mode: FixedAccuracy, Tolerance: -1, Rate: -1, Precision: -1} }

func parse(configuration json.RawMessage) (codec.Codec, error) {
	// numcodecs writes the parameter of the mode a second time, and reads it once.
	read := struct {
		Codec
		Repeated json.RawMessage `json:"compression_kwargs"`
	}{Codec: Lossless()}
	if err := decodeOnly(configuration, &read); err != nil {
		return nil, err
	}
	_, _, err := read.mode()
	return read.Codec, err
}

// decodeOnly decodes one JSON object without unknown members.
func decodeOnly(raw json.RawMessage, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("configuration: got more than one value")
	}
	return nil
}

// Name returns the name of the codec in metadata.
func (c Codec) Name() string { return Name }

// Configuration returns the codec itself.
func (c Codec) Configuration() any { return c }

// mode returns the mode of zfp and its parameter.
func (c Codec) mode() (Mode, float64, error) {
	mode, parameter := c.Mode, 0.0
	switch mode {
	case FixedRate:
		if parameter = c.Rate; parameter > 64 || parameter == 0 {
			return 0, 0, fmt.Errorf("rate: got %v, want more than 0 and at most 64", c.Rate)
		}
	case FixedPrecision:
		if parameter = float64(c.Precision); c.Precision > 64 {
			return 0, 0, fmt.Errorf("precision: got %d, want at most 64", c.Precision)
		}
	case FixedAccuracy:
		parameter = c.Tolerance
	case Reversible:
	default:
		return 0, 0, fmt.Errorf("mode: got %d, want 2 (rate), 3 (precision), 4 (accuracy) or 5 (reversible)", c.Mode)
	}
	if math.IsNaN(parameter) || math.IsInf(parameter, 0) {
		return 0, 0, fmt.Errorf("parameter of mode %d: got %v", mode, parameter)
	}
	if parameter < 0 {
		return Reversible, 0, nil
	}
	return mode, parameter, nil
}

// numberTypes are the types that zfp compresses, with zfp's numbers.
var numberTypes = map[ndview.DType]uint64{ndview.Int32: 1, ndview.Int64: 2, ndview.Float32: 3, ndview.Float64: 4}

const maxAxes = 4

// Serializer returns the codec for chunks of one kind. The error wraps
// errors.ErrUnsupported for types other than integers, times and floats of 32 and 64 bits,
// for chunks with more than four axes, and for chunks above 1 GiB. Times are int64, as in
// numcodecs.
func (c Codec) Serializer(in codec.ChunkSpec) (codec.Serializer, error) {
	dtype, _ := in.Type.DType()
	if dtype.IsTime() {
		dtype = ndview.Int64
	}
	number, ok := numberTypes[dtype]
	if !ok {
		return codec.Serializer{}, fmt.Errorf("elements of %s: %w", in.Type, errors.ErrUnsupported)
	}
	z, padded, err := newField(number, dtype.Size(), in.Shape)
	if err != nil {
		return codec.Serializer{}, err
	}
	mode, parameter, err := c.mode()
	if err != nil {
		return codec.Serializer{}, err
	}
	encode := func(dst, src []byte) ([]byte, error) {
		return z.encode(dst, src, "encode", uint64(mode), math.Float64bits(parameter))
	}
	decode := func(dst, src []byte) error { return z.as(src).decode(dst, src, "decode") }
	return codec.Serializer{MaxSize: 3*padded + 1<<16, Encode: encode, Decode: decode}, nil
}

// field is an array of one type and shape.
type field struct {
	number, axes uint64
	shape        []byte // as the module reads it
	width, size  int64  // of an element and of the array in bytes
}

// newField returns the field of a chunk of elements of a width, and its size when each
// axis is padded to a multiple of 4, as zfp encodes it. A chunk without axes is one of a
// single element.
func newField(number uint64, width int64, shape []int64) (f field, padded int64, err error) {
	if len(shape) == 0 {
		shape = []int64{1}
	}
	if len(shape) > maxAxes {
		return field{}, 0, fmt.Errorf("chunks of %d axes, want at most %d: %w", len(shape), maxAxes, errors.ErrUnsupported)
	}
	f = field{number: number, axes: uint64(len(shape)), width: width, size: width}
	padded = width
	for _, n := range shape {
		if n > wasm.MaxBytes || f.size*n > wasm.MaxBytes {
			return field{}, 0, fmt.Errorf("chunks of shape %v, want at most %d bytes: %w", shape, wasm.MaxBytes, errors.ErrUnsupported)
		}
		f.size *= n
		padded *= (n + 3) / 4 * 4
		f.shape = binary.LittleEndian.AppendUint64(f.shape, uint64(n))
	}
	return f, padded, nil
}

// as returns the field as one axis if the header of its encoding has one axis of as many
// elements. Old versions of numcodecs encoded chunks of any shape so.
func (z field) as(src []byte) field {
	const start, axesMask, extentShift, extentMask = 4, 0b1100, 4, 1<<48 - 1
	if len(src) < start+8 {
		return z // decoding reports the error
	}
	header := binary.LittleEndian.Uint64(src[start:])
	n := header>>extentShift&extentMask + 1
	if header&axesMask == 0 && n == uint64(z.size/z.width) {
		z.axes, z.shape = 1, binary.LittleEndian.AppendUint64(nil, n)
	}
	return z
}

// encode appends the encoding of src, by a function of the module with parameters.
func (z field) encode(dst, src []byte, function string, parameters ...uint64) ([]byte, error) {
	err := module.Run(func(i *wasm.Instance) error {
		shape, err := i.Copy(z.shape)
		if err != nil {
			return err
		}
		defer i.Release(shape, int64(len(z.shape)))
		from, err := i.Copy(src)
		if err != nil {
			return err
		}
		defer i.Release(from, z.size)
		result, err := i.Call(function, append([]uint64{z.number, z.axes, shape, from}, parameters...)...)
		if err != nil {
			return err
		}
		if code := int64(result); code < 0 && code > -16 {
			return fmt.Errorf("zfpy: encoding %d bytes: error %d", z.size, code)
		}
		at, length := result>>32, int64(uint32(result))
		encoded, err := i.View(at, length)
		if err != nil {
			return err
		}
		dst = append(dst, encoded...)
		i.Release(at, length)
		return nil
	})
	return dst, err
}

// decode fills dst, by a function of the module with parameters.
func (z field) decode(dst, src []byte, function string, parameters ...uint64) error {
	return module.Run(func(i *wasm.Instance) error {
		shape, err := i.Copy(z.shape)
		if err != nil {
			return err
		}
		defer i.Release(shape, int64(len(z.shape)))
		from, err := i.Copy(src)
		if err != nil {
			return err
		}
		defer i.Release(from, int64(len(src)))
		to, err := i.Allocate(z.size)
		if err != nil {
			return err
		}
		defer i.Release(to, z.size)
		code, err := i.Call(function, append([]uint64{z.number, z.axes, shape, from, uint64(len(src)), to}, parameters...)...)
		if err != nil {
			return fmt.Errorf("zfpy: a corrupt chunk: %w", err)
		}
		if code != 0 {
			return fmt.Errorf("zfpy: a corrupt chunk, or not of this type and shape: error %d", int32(uint32(code)))
		}
		decoded, err := i.View(to, z.size)
		if err == nil {
			copy(dst, decoded)
		}
		return err
	})
}
