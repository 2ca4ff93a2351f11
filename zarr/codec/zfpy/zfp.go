package zfpy

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// ZFPName is the name of [ZFP] in metadata.
const ZFPName = "zfp"

// ZFPMode is a mode of [ZFP], with its name in metadata.
type ZFPMode string

// The modes of ZFP.
const (
	ModeReversible     ZFPMode = "reversible"      // without loss
	ModeExpert         ZFPMode = "expert"          // MinBits, MaxBits, MaxPrec and MinExp
	ModeFixedAccuracy  ZFPMode = "fixed_accuracy"  // Tolerance
	ModeFixedRate      ZFPMode = "fixed_rate"      // Rate
	ModeFixedPrecision ZFPMode = "fixed_precision" // Precision
)

// ZFP is the codec zfp of Zarr v3 (zarr-extensions, "zfp"). Unlike [Codec], chunks have no
// header, so all fields matter for decoding, too. Fields of other modes are 0.
//
// Integers of 8 and 16 bits are scaled to 32 bits. Unsigned integers of 32 and 64 bits
// become signed ones; those that a signed type lacks are errors. Times are integers.
type ZFP struct {
	Mode ZFPMode
	// MinBits and MaxBits are the limits of the bits per block of 4 elements per axis,
	// MaxPrec is the most bit planes, and MinExp is the exponent of the lowest one.
	MinBits, MaxBits, MaxPrec uint32
	MinExp                    int32
	// Tolerance is the largest absolute error.
	Tolerance float64
	// Rate is the number of bits per element.
	Rate float64
	// Precision is the number of bit planes per block.
	Precision uint32
}

// zfpConfiguration has the members of the configuration that are given.
type zfpConfiguration struct {
	Mode      ZFPMode  `json:"mode"`
	MinBits   *uint32  `json:"minbits,omitempty"`
	MaxBits   *uint32  `json:"maxbits,omitempty"`
	MaxPrec   *uint32  `json:"maxprec,omitempty"`
	MinExp    *int32   `json:"minexp,omitempty"`
	Tolerance *float64 `json:"tolerance,omitempty"`
	Rate      *float64 `json:"rate,omitempty"`
	Precision *uint32  `json:"precision,omitempty"`
}

// Name returns the name of the codec in metadata.
func (ZFP) Name() string { return ZFPName }

// Configuration returns the mode and its parameters.
func (c ZFP) Configuration() any {
	config := zfpConfiguration{Mode: c.Mode}
	switch c.Mode {
	case ModeExpert:
		config.MinBits, config.MaxBits, config.MaxPrec, config.MinExp = &c.MinBits, &c.MaxBits, &c.MaxPrec, &c.MinExp
	case ModeFixedAccuracy:
		config.Tolerance = &c.Tolerance
	case ModeFixedRate:
		config.Rate = &c.Rate
	case ModeFixedPrecision:
		config.Precision = &c.Precision
	}
	return config
}

func parseZFP(configuration json.RawMessage) (codec.Codec, error) {
	var read zfpConfiguration
	if err := decodeOnly(configuration, &read); err != nil {
		return nil, err
	}
	c := ZFP{
		Mode: read.Mode, MinBits: value(read.MinBits), MaxBits: value(read.MaxBits), MaxPrec: value(read.MaxPrec), MinExp: value(read.MinExp),
		Tolerance: value(read.Tolerance), Rate: value(read.Rate), Precision: value(read.Precision),
	}
	// Its own configuration has exactly the members of the mode.
	got, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	want, err := json.Marshal(c.Configuration())
	if err != nil {
		return nil, err
	}
	if string(got) != string(want) {
		return nil, fmt.Errorf("members of mode %q: got %s, want those of %s", c.Mode, got, want)
	}
	_, err = c.parameters(ndview.Int32, 1) // floats need more bits
	return c, err
}

func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// The limits of zfp (zfp.h).
const (
	zfpMinBits       = 1
	zfpMaxBits       = 16658
	zfpMaxPrecision  = 64
	zfpMinExponent   = -1074
	zfpReversibleExp = zfpMinExponent - 1
)

// parameters returns those of zfp in expert mode: minbits, maxbits, maxprec and minexp.
func (c ZFP) parameters(of ndview.DType, axes int) ([]uint64, error) {
	p := ZFP{MinBits: zfpMinBits, MaxBits: zfpMaxBits, MaxPrec: zfpMaxPrecision, MinExp: zfpMinExponent}
	switch c.Mode {
	case ModeReversible:
		p.MinExp = zfpReversibleExp
	case ModeExpert:
		p = c
		least := overhead(of, p.MinExp < zfpMinExponent)
		if p.MinBits > p.MaxBits || p.MinBits > zfpMaxBits || p.MaxBits < least || p.MaxPrec == 0 || p.MaxPrec > zfpMaxPrecision {
			return nil, fmt.Errorf("minbits %d, maxbits %d, maxprec %d: want minbits of at most %d and maxbits, maxbits of at least %d for %s, and maxprec of 1 to %d",
				p.MinBits, p.MaxBits, p.MaxPrec, zfpMaxBits, least, of, zfpMaxPrecision)
		}
		if p.MinExp < zfpMinExponent && p.MinBits > zfpMinBits {
			// zfp 1.0.1 does not pad blocks of zeros, but skips the padding.
			return nil, fmt.Errorf("minbits %d without loss: %w", p.MinBits, errors.ErrUnsupported)
		}
	case ModeFixedAccuracy:
		if !(c.Tolerance >= 0) || math.IsInf(c.Tolerance, 0) {
			return nil, fmt.Errorf("tolerance: got %v, want a number of at least 0", c.Tolerance)
		}
		if c.Tolerance > 0 {
			_, exponent := math.Frexp(c.Tolerance)
			p.MinExp = int32(exponent - 1)
		}
	case ModeFixedRate:
		if !(c.Rate > 0) || c.Rate > 64 {
			return nil, fmt.Errorf("rate: got %v, want more than 0 and at most 64", c.Rate)
		}
		bits := uint32(math.Floor(float64(int(1)<<(2*axes))*c.Rate + 0.5))
		bits = max(bits, overhead(of, false))
		p.MinBits, p.MaxBits = bits, bits
	case ModeFixedPrecision:
		if c.Precision < 1 || c.Precision > zfpMaxPrecision {
			return nil, fmt.Errorf("precision: got %d, want 1 to %d", c.Precision, zfpMaxPrecision)
		}
		p.MaxPrec = c.Precision
	default:
		return nil, fmt.Errorf("unknown mode %q", c.Mode)
	}
	return []uint64{uint64(p.MinBits), uint64(p.MaxBits), uint64(p.MaxPrec), uint64(uint32(p.MinExp))}, nil
}

// overhead returns how many bits of a block are no elements: zfp fails with fewer.
func overhead(of ndview.DType, reversible bool) uint32 {
	exponent, planes := uint32(0), uint32(5) // bits of an exponent, and of a number of bit planes
	switch of {
	case ndview.Float32:
		exponent = 1 + 8
	case ndview.Float64:
		exponent = 1 + 11
	}
	if !reversible {
		return max(exponent, 1)
	}
	if of.Size() == 8 {
		planes = 6
	}
	if exponent > 0 {
		exponent++ // integers that stand for the bits of floats have a bit
	}
	return exponent + planes
}

// Serializer returns the codec for chunks of one kind. The error wraps
// errors.ErrUnsupported for types other than integers, times and floats of 32 and 64 bits,
// for chunks with more than four axes, and for chunks above 1 GiB.
func (c ZFP) Serializer(in codec.ChunkSpec) (codec.Serializer, error) {
	dtype, fixed := in.Type.DType()
	promotion, encoded := promotions[dtype], dtype
	switch {
	case !fixed || in.Type != element.Of(dtype): // floats of 8 bits, for example
		return codec.Serializer{}, fmt.Errorf("elements of %s: %w", in.Type, errors.ErrUnsupported)
	case promotion.to != ndview.DType{}:
		encoded = promotion.to
	case dtype.IsTime():
		encoded = ndview.Int64
	}
	number, ok := numberTypes[encoded]
	if !ok {
		return codec.Serializer{}, fmt.Errorf("elements of %s: %w", in.Type, errors.ErrUnsupported)
	}
	z, padded, err := newField(number, encoded.Size(), in.Shape)
	if err != nil {
		return codec.Serializer{}, err
	}
	parameters, err := c.parameters(encoded, int(z.axes))
	if err != nil {
		return codec.Serializer{}, err
	}
	blocks := padded / encoded.Size() >> (2 * z.axes)
	out := codec.Serializer{MaxSize: 3*padded + blocks*int64(parameters[0]/8+1) + 1<<16}
	out.Encode = func(dst, src []byte) ([]byte, error) {
		if promotion.promote != nil {
			promoted := make([]byte, z.size)
			if err := promotion.promote(promoted, src); err != nil {
				return nil, err
			}
			src = promoted
		}
		return z.encode(dst, src, "encode_bare", parameters...)
	}
	out.Decode = func(dst, src []byte) error {
		if promotion.demote == nil {
			return z.decode(dst, src, "decode_bare", parameters...)
		}
		promoted := make([]byte, z.size)
		if err := z.decode(promoted, src, "decode_bare", parameters...); err != nil {
			return err
		}
		promotion.demote(dst, promoted)
		return nil
	}
	return out, nil
}

// promotion converts a type to one that zfp compresses and back, as zfp_promote_int8_to_int32
// and others do.
type promotion struct {
	to      ndview.DType
	promote func(dst, src []byte) error
	demote  func(dst, src []byte)
}

var promotions = map[ndview.DType]promotion{
	ndview.Int8: scaled(1, 0, math.MinInt8, math.MaxInt8), ndview.Uint8: scaled(1, 1<<7, 0, math.MaxUint8),
	ndview.Int16: scaled(2, 0, math.MinInt16, math.MaxInt16), ndview.Uint16: scaled(2, 1<<15, 0, math.MaxUint16),
	ndview.Uint32: {ndview.Int32, checkPositive(4), clampPositive(4)}, ndview.Uint64: {ndview.Int64, checkPositive(8), clampPositive(8)},
}

// scaled returns the promotion of integers of 1 or 2 bytes to int32: their offset is
// subtracted, and they fill all bits but one. Decoded values are clamped to low and high.
func scaled(width int, offset, low, high int32) promotion {
	shift := 31 - 8*width
	get := func(src []byte, i int) int32 {
		switch {
		case width == 1 && low < 0:
			return int32(int8(src[i]))
		case width == 1:
			return int32(src[i])
		case low < 0:
			return int32(int16(binary.LittleEndian.Uint16(src[2*i:])))
		default:
			return int32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}
	return promotion{
		to: ndview.Int32,
		promote: func(dst, src []byte) error {
			for i := range len(src) / width {
				binary.LittleEndian.PutUint32(dst[4*i:], uint32((get(src, i)-offset)<<shift))
			}
			return nil
		},
		demote: func(dst, src []byte) {
			for i := range len(dst) / width {
				x := int32(binary.LittleEndian.Uint32(src[4*i:]))>>shift + offset
				x = min(max(x, low), high)
				dst[width*i] = byte(x)
				if width == 2 {
					dst[2*i+1] = byte(x >> 8)
				}
			}
		},
	}
}

// checkPositive returns a function that copies unsigned integers which are signed ones,
// too. Other implementations store the largest signed integer for larger ones.
func checkPositive(width int) func(dst, src []byte) error {
	return func(dst, src []byte) error {
		for i := width - 1; i < len(src); i += width {
			if src[i]&0x80 != 0 {
				return fmt.Errorf("element %d is larger than a signed integer of %d bits: %w", i/width, 8*width, errors.ErrUnsupported)
			}
		}
		copy(dst, src)
		return nil
	}
}

// clampPositive returns a function that copies signed integers, and 0 for negative ones,
// which loss can yield.
func clampPositive(width int) func(dst, src []byte) {
	return func(dst, src []byte) {
		copy(dst, src)
		for i := width - 1; i < len(dst); i += width {
			if dst[i]&0x80 != 0 {
				clear(dst[i+1-width : i+1])
			}
		}
	}
}
