// Package pcodec is the codec numcodecs.pcodec: pco, a lossless compression of numbers.
// An import of the package registers it, for Zarr v2 and v3:
//
//	import _ "github.com/quiver-gpu/quiver/zarr/codec/pcodec"
//
// The codec is the crate pco, compiled to WebAssembly (wasm/build). It compresses
// integers and floats of 16, 32 and 64 bits, in chunks of at most 1 GiB.
package pcodec

import (
	"bytes"
	_ "embed" // for the module
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/codec/internal/wasm"
)

//go:embed pcodec.wasm.gz
var compressed []byte

var module = wasm.New(compressed)

// Name is the name of the codec in metadata.
const Name = "numcodecs.pcodec"

func init() {
	if err := codec.Register(Name, parse); err != nil {
		panic(err) // the name is taken
	}
}

// Codec is the codec with its options, which matter for encoding only. The names are
// those of numcodecs.
type Codec struct {
	Level              int    `json:"level"`                // 0 to 12
	ModeSpec           string `json:"mode_spec"`            // "auto" or "classic"
	DeltaSpec          string `json:"delta_spec"`           // "auto", "no_op", "none", "try_consecutive" or "try_lookback"
	PagingSpec         string `json:"paging_spec"`          // "equal_pages_up_to"
	DeltaEncodingOrder *int   `json:"delta_encoding_order"` // 0 to 7, for "try_consecutive" and "auto", otherwise nil
	EqualPagesUpTo     int    `json:"equal_pages_up_to"`    // numbers per page
}

// Default returns the codec with the defaults of numcodecs.
func Default() Codec {
	return Codec{Level: 8, ModeSpec: "auto", DeltaSpec: "auto", PagingSpec: "equal_pages_up_to", EqualPagesUpTo: 262144}
}

func parse(configuration json.RawMessage) (codec.Codec, error) {
	c := Default()
	d := json.NewDecoder(bytes.NewReader(configuration))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("configuration: got more than one value")
	}
	_, err := c.delta()
	return c, errors.Join(err, c.check())
}

// Name returns the name of the codec in metadata.
func (c Codec) Name() string { return Name }

// Configuration returns the codec itself.
func (c Codec) Configuration() any { return c }

func (c Codec) check() error {
	switch {
	case c.Level < 0 || c.Level > 12:
		return fmt.Errorf("level: got %d, want 0 to 12", c.Level)
	case c.ModeSpec != "auto" && c.ModeSpec != "classic":
		return fmt.Errorf(`mode_spec: got %q, want "auto" or "classic"`, c.ModeSpec)
	case c.PagingSpec != "equal_pages_up_to":
		return fmt.Errorf(`paging_spec: got %q, want "equal_pages_up_to"`, c.PagingSpec)
	case c.EqualPagesUpTo < 1 || c.EqualPagesUpTo > 1<<24:
		return fmt.Errorf("equal_pages_up_to: got %d, want 1 to %d", c.EqualPagesUpTo, 1<<24)
	}
	return nil
}

// The values of delta that are no order.
const (
	deltaAuto     = -1
	deltaNone     = -2
	deltaLookback = -3
)

func (c Codec) delta() (int, error) {
	if order := c.DeltaEncodingOrder; order != nil {
		if *order < 0 || *order > 7 {
			return 0, fmt.Errorf("delta_encoding_order: got %d, want 0 to 7", *order)
		}
		if c.DeltaSpec != "auto" && c.DeltaSpec != "try_consecutive" {
			return 0, fmt.Errorf(`delta_spec with an order: got %q, want "auto" or "try_consecutive"`, c.DeltaSpec)
		}
		return *order, nil
	}
	switch c.DeltaSpec {
	case "auto":
		return deltaAuto, nil
	case "none", "no_op":
		return deltaNone, nil
	case "try_lookback":
		return deltaLookback, nil
	case "try_consecutive":
		return 0, errors.New("delta_spec try_consecutive without delta_encoding_order")
	}
	return 0, fmt.Errorf("delta_spec: got %q", c.DeltaSpec)
}

// numberTypes are the types that pco compresses, with their numbers in its format.
var numberTypes = map[ndview.DType]uint64{
	ndview.Uint32: 1, ndview.Uint64: 2, ndview.Int32: 3, ndview.Int64: 4, ndview.Float32: 5, ndview.Float64: 6,
	ndview.Uint16: 7, ndview.Int16: 8, ndview.Float16: 9,
}

// Serializer returns the codec for chunks of one kind. The error wraps
// errors.ErrUnsupported for types other than integers, times and floats of 16 to 64 bits,
// and for chunks above 1 GiB. Times are int64, as in numcodecs.
func (c Codec) Serializer(in codec.ChunkSpec) (codec.Serializer, error) {
	dtype, _ := in.Type.DType()
	if dtype.IsTime() {
		dtype = ndview.Int64
	}
	number, ok := numberTypes[dtype]
	if !ok {
		return codec.Serializer{}, fmt.Errorf("elements of %s: %w", in.Type, errors.ErrUnsupported)
	}
	n := int64(1)
	for _, d := range in.Shape {
		n *= d
	}
	size := n * dtype.Size()
	if size > wasm.MaxBytes {
		return codec.Serializer{}, fmt.Errorf("chunks of %d bytes, want at most %d: %w", size, wasm.MaxBytes, errors.ErrUnsupported)
	}
	delta, err := c.delta()
	if err := errors.Join(err, c.check()); err != nil {
		return codec.Serializer{}, err
	}
	pages := n/int64(c.EqualPagesUpTo) + 1
	p := pco{c, number, delta, n, size}
	return codec.Serializer{MaxSize: 2*size + 1<<16 + 256*pages, Encode: p.encode, Decode: p.decode}, nil
}

// pco is the codec for chunks of n numbers of a type.
type pco struct {
	codec   Codec
	number  uint64
	delta   int
	n, size int64
}

func (p pco) encode(dst, src []byte) ([]byte, error) {
	err := module.Run(func(i *wasm.Instance) error {
		from, err := i.Copy(src)
		if err != nil {
			return err
		}
		defer i.Release(from, p.size)
		classic := uint64(0)
		if p.codec.ModeSpec == "classic" {
			classic = 1
		}
		result, err := i.Call("encode", p.number, from, uint64(p.n), uint64(p.codec.Level), classic, uint64(uint32(int32(p.delta))), uint64(p.codec.EqualPagesUpTo))
		if err != nil {
			return err
		}
		if int64(result) < 0 && int64(result) > -16 {
			return fmt.Errorf("pcodec: encoding %d numbers: error %d", p.n, int64(result))
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

func (p pco) decode(dst, src []byte) error {
	return module.Run(func(i *wasm.Instance) error {
		from, err := i.Copy(src)
		if err != nil {
			return err
		}
		defer i.Release(from, int64(len(src)))
		to, err := i.Allocate(p.size)
		if err != nil {
			return err
		}
		defer i.Release(to, p.size)
		code, err := i.Call("decode", p.number, from, uint64(len(src)), to, uint64(p.n))
		if err != nil {
			return fmt.Errorf("pcodec: a corrupt chunk: %w", err)
		}
		if code != 0 {
			return fmt.Errorf("pcodec: a corrupt chunk, or not of %d numbers of this type: error %d", p.n, int32(uint32(code)))
		}
		decoded, err := i.View(to, p.size)
		if err == nil {
			copy(dst, decoded)
		}
		return err
	})
}
