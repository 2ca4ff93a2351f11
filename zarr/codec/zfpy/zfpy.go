// Package zfpy is the codec numcodecs.zfpy: zfp, which compresses arrays of up to four
// axes, usually with loss. An import of the package registers it, for Zarr v2 and v3:
//
//	import _ "github.com/quiver-gpu/quiver/zarr/codec/zfpy"
//
// The codec is the C library zfp, compiled to WebAssembly (wasm/build). It compresses
// integers and floats of 32 and 64 bits, in chunks of at most 1 GiB.
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
	if err := codec.Register(Name, parse); err != nil {
		panic(err) // the name is taken
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
	d := json.NewDecoder(bytes.NewReader(configuration))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("configuration: got more than one value")
	}
	_, _, err := read.mode()
	return read.Codec, err
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
// errors.ErrUnsupported for types other than integers and floats of 32 and 64 bits, for
// chunks without axes or with more than four, and for chunks above 1 GiB.
func (c Codec) Serializer(in codec.ChunkSpec) (codec.Serializer, error) {
	dtype, _ := in.Type.DType()
	number, ok := numberTypes[dtype]
	if !ok {
		return codec.Serializer{}, fmt.Errorf("elements of %s: %w", in.Type, errors.ErrUnsupported)
	}
	if len(in.Shape) < 1 || len(in.Shape) > maxAxes {
		return codec.Serializer{}, fmt.Errorf("chunks of %d axes, want 1 to %d: %w", len(in.Shape), maxAxes, errors.ErrUnsupported)
	}
	z := zfp{number: number, axes: uint64(len(in.Shape)), size: dtype.Size()}
	padded := dtype.Size() // zfp encodes blocks of 4 elements per axis
	for _, n := range in.Shape {
		if n > wasm.MaxBytes || z.size*n > wasm.MaxBytes {
			return codec.Serializer{}, fmt.Errorf("chunks of shape %v, want at most %d bytes: %w", in.Shape, wasm.MaxBytes, errors.ErrUnsupported)
		}
		z.size *= n
		padded *= (n + 3) / 4 * 4
		z.shape = binary.LittleEndian.AppendUint64(z.shape, uint64(n))
	}
	mode, parameter, err := c.mode()
	if err != nil {
		return codec.Serializer{}, err
	}
	z.mode, z.parameter = uint64(mode), math.Float64bits(parameter)
	return codec.Serializer{MaxSize: 3*padded + 1<<16, Encode: z.encode, Decode: z.decode}, nil
}

// zfp is the codec for chunks of one type and shape.
type zfp struct {
	number, axes    uint64
	shape           []byte // as the module reads it
	size            int64
	mode, parameter uint64
}

func (z zfp) encode(dst, src []byte) ([]byte, error) {
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
		result, err := i.Call("encode", z.number, z.axes, shape, from, z.mode, z.parameter)
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

func (z zfp) decode(dst, src []byte) error {
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
		code, err := i.Call("decode", z.number, z.axes, shape, from, uint64(len(src)), to)
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
