package codec

import (
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// PaddingEncoding is where [PackBits] stores the number of padding bits.
type PaddingEncoding string

// The places of the number of padding bits.
const (
	PaddingNone      PaddingEncoding = "none" // the default
	PaddingFirstByte PaddingEncoding = "first_byte"
	PaddingLastByte  PaddingEncoding = "last_byte"
)

// PackBits stores only the bits that a type has, or some of them, without gaps. The
// first element begins at the lowest bit of the first byte (zarr-extensions,
// "packbits"). Both parts of a complex number are packed alike.
type PackBits struct {
	// PaddingEncoding is PaddingNone if empty.
	PaddingEncoding PaddingEncoding
	// FirstBit and LastBit are the bits that are stored, inclusive, counted from the
	// lowest. A nil LastBit means all higher bits. Decoding extends the sign of the
	// last bit of signed integers; other bits become 0.
	FirstBit int
	LastBit  *int
}

// Name returns "packbits".
func (PackBits) Name() string { return "packbits" }

// Configuration returns the fields that are set.
func (c PackBits) Configuration() any {
	var m metajson.Members
	if c.PaddingEncoding != "" {
		m = append(m, metajson.Member{Key: "padding_encoding", Value: c.PaddingEncoding})
	}
	if c.FirstBit != 0 {
		m = append(m, metajson.Member{Key: "first_bit", Value: c.FirstBit})
	}
	if c.LastBit != nil {
		m = append(m, metajson.Member{Key: "last_bit", Value: *c.LastBit})
	}
	if m == nil {
		return nil
	}
	return m
}

func parsePackBits(config *metajson.Object) (Codec, error) {
	var c PackBits
	given, err := config.DecodeOptional("padding_encoding", &c.PaddingEncoding)
	if err != nil {
		return nil, err
	}
	if given && c.PaddingEncoding == "" {
		return nil, errors.New("padding_encoding is empty")
	}
	if raw, ok := config.Take("first_bit"); ok && string(raw) != "null" {
		if err := metajson.Decode("first_bit", raw, &c.FirstBit); err != nil {
			return nil, err
		}
	}
	if raw, ok := config.Take("last_bit"); ok && string(raw) != "null" {
		c.LastBit = new(int)
		if err := metajson.Decode("last_bit", raw, c.LastBit); err != nil {
			return nil, err
		}
	}
	return c, c.check()
}

func (c PackBits) check() error {
	switch c.PaddingEncoding {
	case "", PaddingNone, PaddingFirstByte, PaddingLastByte:
	default:
		return fmt.Errorf("packbits: unknown padding_encoding %q", c.PaddingEncoding)
	}
	if c.FirstBit < 0 || c.LastBit != nil && *c.LastBit < c.FirstBit {
		return fmt.Errorf("packbits: first_bit %d is negative or above last_bit", c.FirstBit)
	}
	return nil
}

// packing is the layout of packed elements.
type packing struct {
	size    int // of a part in bytes: 1, 2, 4 or 8
	first   int // bit of a part
	width   int // bits of a part
	signed  bool
	header  int // bytes before the bits
	trailer int // bytes after them
	bytes   int64
	padding byte // bits
}

// Serializer returns the codec for chunks of numbers.
func (c PackBits) Serializer(in ChunkSpec) (Serializer, error) {
	p, err := c.packing(in)
	if err != nil {
		return Serializer{}, err
	}
	size := p.bytes + int64(p.header+p.trailer)
	// zarrs stores no byte of padding bits if elements are stored whole.
	short := size > p.bytes && p.width == 8*p.size
	return Serializer{
		MaxSize: size, Exact: !short,
		Encode: func(dst, src []byte) ([]byte, error) { return p.encode(dst, src), nil },
		Decode: func(dst, src []byte) error {
			if short && int64(len(src)) == p.bytes {
				plain := p
				plain.header, plain.trailer = 0, 0
				return plain.decode(dst, src)
			}
			if int64(len(src)) != size {
				return fmt.Errorf("%d bytes, want %d", len(src), size)
			}
			return p.decode(dst, src)
		},
	}, nil
}

func (c PackBits) packing(in ChunkSpec) (packing, error) {
	width := in.Type.NumberBits()
	dtype, ok := in.Type.DType()
	if !ok || width == 0 {
		return packing{}, fmt.Errorf("cannot pack %s: %w", in.Type, errors.ErrUnsupported)
	}
	last := width - 1
	if c.LastBit != nil {
		last = *c.LastBit
	}
	if last >= width || c.FirstBit > last {
		return packing{}, fmt.Errorf("bits %d to %d of %s, which has %d", c.FirstBit, last, in.Type, width)
	}
	p := packing{size: (width + 7) / 8, first: c.FirstBit, width: last - c.FirstBit + 1, signed: dtype.Kind() == ndview.KindInt}
	if in.Type == element.Of(ndview.Bool) {
		p.size = 1
	}
	parts := in.nbytes() / int64(p.size)
	if parts > (math.MaxInt64-7)/64 {
		return packing{}, fmt.Errorf("chunk shape %v: too many bits", in.Shape)
	}
	used := parts * int64(p.width)
	p.bytes = (used + 7) / 8
	p.padding = byte(8*p.bytes - used)
	switch c.PaddingEncoding {
	case PaddingFirstByte:
		p.header = 1
	case PaddingLastByte:
		p.trailer = 1
	}
	return p, nil
}

// part reads and writes parts of elements as unsigned integers.
func (p packing) part() number { return number{size: p.size, bits: 8 * p.size} }

func (p packing) encode(dst, src []byte) []byte {
	if p.header == 1 {
		dst = append(dst, p.padding)
	}
	mask := uint64(math.MaxUint64) >> (64 - p.width)
	var pending uint64 // the lowest held bits
	held, part := 0, p.part()
	for i := range part.count(src) {
		x := uint64(part.int(src, i)) >> p.first & mask
		pending |= x << held
		held += p.width
		if held >= 64 {
			dst = le.AppendUint64(dst, pending)
			held -= 64
			pending = x >> (p.width - held) // 0 if all bits are written
		}
	}
	for ; held > 0; held -= 8 {
		dst = append(dst, byte(pending))
		pending >>= 8
	}
	if p.trailer == 1 {
		dst = append(dst, p.padding)
	}
	return dst
}

func (p packing) decode(dst, src []byte) error {
	if p.header == 1 && src[0] != p.padding || p.trailer == 1 && src[len(src)-1] != p.padding {
		return fmt.Errorf("the number of padding bits is not %d", p.padding)
	}
	src = src[p.header : len(src)-p.trailer]
	part := p.part()
	for i := range part.count(dst) {
		x := readBits(src, int64(i)*int64(p.width), p.width) << p.first
		if p.signed {
			unused := 64 - p.first - p.width
			x = uint64(int64(x<<unused) >> unused)
		}
		part.putInt(dst, i, int64(x))
	}
	return nil
}

// readBits returns width bits of src from a bit position.
func readBits(src []byte, at int64, width int) uint64 {
	var word [16]byte
	copy(word[:9], src[at/8:])
	shift := int(at % 8)
	x := le.Uint64(word[:])>>shift | uint64(word[8])<<(64-shift)
	return x & (math.MaxUint64 >> (64 - width))
}

// NumcodecsPackBits packs 8 bools into a byte, the first in the highest bit, after a
// byte with the number of padding bits (numcodecs, "packbits"). [PackBits] has another
// format.
type NumcodecsPackBits struct{}

// Name returns "numcodecs.packbits".
func (NumcodecsPackBits) Name() string { return numcodecs + "packbits" }

// Configuration returns nil.
func (NumcodecsPackBits) Configuration() any { return nil }

// Transform returns the transform of chunks of one-byte elements.
func (NumcodecsPackBits) Transform(in ChunkSpec) (Transform, error) {
	if in.Type.Size() != 1 {
		return Transform{}, fmt.Errorf("cannot pack %s, want bool: %w", in.Type, errors.ErrUnsupported)
	}
	n := in.nbytes()
	packed := (n + 7) / 8
	padding := byte(8*packed - n)
	uint8s, _, err := parseNumber("|u1")
	if err != nil {
		return Transform{}, err
	}
	return Transform{
		Out: ChunkSpec{Type: uint8s.of, Shape: []int64{1 + packed}, Fill: []byte{0}},
		Encode: func(dst, src []byte) error {
			clear(dst)
			dst[0] = padding
			for i, b := range src {
				if b != 0 {
					dst[1+i/8] |= 0x80 >> (i % 8)
				}
			}
			return nil
		},
		Decode: func(dst, src []byte) error {
			if src[0] != padding {
				return fmt.Errorf("%d padding bits, want %d", src[0], padding)
			}
			for i := range dst {
				dst[i] = src[1+i/8] >> (7 - i%8) & 1
			}
			return nil
		},
	}, nil
}
