package codec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// DecodeFixed decodes a chunk of fixed-width elements into dst, in C order and the
// host's byte order. dst must have the size of a decoded chunk.
func (c *Chain) DecodeFixed(s *Scratch, dst, src []byte) error {
	if s == nil {
		return errNilScratch
	}
	s.Reset()
	if c.chunk.Type.IsVLen() || int64(len(dst)) != c.chunk.nbytes() {
		return fmt.Errorf("destination of %d bytes does not fit a chunk of %s %v", len(dst), c.chunk.Type, c.chunk.Shape)
	}
	return c.decodeFixed(s, dst, src)
}

func (c *Chain) decodeFixed(s *Scratch, dst, src []byte) error {
	s.Stats.add(countOf(c.serializes, OnHost, true, c.serializer.spec().nbytes()))
	if c.axisOrder == nil && len(c.transforms) == 0 {
		raw, err := c.decompress(s, dst, src, 0)
		if err != nil {
			return err
		}
		return c.serializer.decodeFixed(s, dst, raw)
	}
	raw, err := c.decompress(s, nil, src, 0)
	if err != nil {
		return err
	}
	elements := s.Bytes(c.serializer.spec().nbytes())
	if err := c.serializer.decodeFixed(s, elements, raw); err != nil {
		return err
	}
	for i, t := range slices.Backward(c.transforms) {
		out := dst
		if i > 0 || c.axisOrder != nil {
			out = s.Bytes(t.in)
		}
		if err := t.Decode(out, elements); err != nil {
			return fmt.Errorf("codec %q: %w", t.name, err)
		}
		elements = out
	}
	if c.axisOrder != nil {
		grid.Transpose(dst, elements, permuteShape(c.chunk.Shape, c.axisOrder), invertPermutation(c.axisOrder), c.chunk.Type.Size())
	}
	return nil
}

// isOrdered reports whether the bytes that the compressors encode are the elements in C
// order, though maybe in the other byte order.
func (c *Chain) isOrdered() bool {
	_, ok := c.serializer.(*bytesSerializer)
	return ok && len(c.transforms) == 0 && c.axisOrder == nil
}

// IsPlain reports whether an encoded chunk is its elements in C order and the host's byte
// order, so that a range of elements is a range of bytes.
func (c *Chain) IsPlain() bool {
	return c.isOrdered() && !c.serializer.(*bytesSerializer).swap && len(c.compressors) == 0
}

// DecodePlain decodes a range of the elements of a chunk. The chain must be plain; see
// [Chain.IsPlain]. src may be dst itself.
func (c *Chain) DecodePlain(dst, src []byte) error {
	if !c.IsPlain() {
		return fmt.Errorf("a range of a chunk that is not plain: %w", errors.ErrUnsupported)
	}
	return c.serializer.decodeFixed(nil, dst, src)
}

// rangeDecoder is a codec that decodes some of the bytes of a chunk in less time than all.
type rangeDecoder interface {
	BytesCodec
	// decodeRange fills dst with the bytes from a position on of the decoding of src, which
	// it does not overlap. size is that of the whole decoding; it is an error if src has
	// another. Damage that does not concern the range need not be found. src is foreign.
	decodeRange(dst, src []byte, from, size int64) error
}

// rangeDecoder returns the codec that decodes ranges of elements in C order, or nil.
func (c *Chain) rangeDecoder() rangeDecoder {
	if !c.isOrdered() || len(c.compressors) == 0 || !isOwn(c.compressors[0]) {
		return nil
	}
	codec, _ := c.compressors[0].(rangeDecoder)
	return codec
}

// DecodesRanges reports whether a range of the elements of a chunk, in C order, takes less
// time to decode than the chunk.
func (c *Chain) DecodesRanges() bool { return c.rangeDecoder() != nil }

// DecodeRange decodes elements of a chunk, in C order from a position on, into dst in the
// host's byte order. Both are counted in bytes. It returns an error unless
// [Chain.DecodesRanges]. Damage of the chunk that does not concern the range may not be found.
func (c *Chain) DecodeRange(s *Scratch, dst, src []byte, from int64) error {
	if s == nil {
		return errNilScratch
	}
	s.Reset()
	codec := c.rangeDecoder()
	if codec == nil {
		return fmt.Errorf("a range of a chunk: %w", errors.ErrUnsupported)
	}
	size, n, width := c.chunk.nbytes(), int64(len(dst)), max(c.chunk.Type.Size(), 1)
	if from < 0 || n > size-from || from%width != 0 || n%width != 0 {
		return fmt.Errorf("%d bytes from %d are not elements of a chunk of %s %v", n, from, c.chunk.Type, c.chunk.Shape)
	}
	src, err := c.decompress(s, nil, src, 1)
	if err != nil {
		return err
	}
	if maxDecoded(codec, int64(len(src))) < size {
		return errTooShort(codec, src, size)
	}
	if err := codec.decodeRange(dst, src, from, size); err != nil {
		return fmt.Errorf("codec %q: %w", codec.Name(), err)
	}
	s.Stats.add(countOf(codec, OnHost, true, n), countOf(c.serializes, OnHost, true, n))
	return c.serializer.decodeFixed(s, dst, dst)
}

// DecodeVLen decodes a chunk of variable-length elements. The result shares no memory
// with src or s.
func (c *Chain) DecodeVLen(s *Scratch, src []byte) (*element.VLen, error) {
	if s == nil {
		return nil, errNilScratch
	}
	s.Reset()
	if !c.chunk.Type.IsVLen() {
		return nil, fmt.Errorf("elements of %s have a fixed width", c.chunk.Type)
	}
	return c.decodeVLen(s, src)
}

func (c *Chain) decodeVLen(s *Scratch, src []byte) (*element.VLen, error) {
	raw, err := c.decompress(s, nil, src, 0)
	if err != nil {
		return nil, err
	}
	v, err := c.serializer.decodeVLen(s, raw)
	if err != nil || c.axisOrder == nil {
		return v, err
	}
	moved, err := element.Transpose(v, invertPermutation(c.axisOrder))
	if err != nil {
		return nil, err
	}
	return moved.(*element.VLen), nil
}

// decompress applies the bytes-to-bytes codecs in reverse, down to one. If the last step
// yields exactly a decoded chunk, it writes to dst directly.
func (c *Chain) decompress(s *Scratch, dst, src []byte, downTo int) ([]byte, error) {
	want, exact := c.serializer.size()
	limits := c.sizeLimits()
	for i, codec := range slices.Backward(c.compressors) {
		if i < downTo {
			return src, nil
		}
		limit, whole := limits[i], exact && i == 0
		if most := maxDecoded(codec, int64(len(src))); most < limit { // claims more than src can hold, or src is truncated
			if whole {
				return nil, errTooShort(codec, src, limit)
			}
			limit = most
		}
		buf := s.nextBuffer()
		if whole && int64(len(dst)) == limit {
			buf = &dst
		} else if whole {
			*buf = slices.Grow((*buf)[:0], int(limit))
		}
		out, err := codec.Decode((*buf)[:0], src, limit)
		if err == nil && int64(len(out)) > limit {
			err = errTooLong(limit)
		}
		if err != nil {
			return nil, fmt.Errorf("codec %q: %w", codec.Name(), err)
		}
		if cap(out) > cap(*buf) && !sameMemory(out, src) {
			*buf = out // keep the grown buffer
		}
		s.Stats.add(countOf(codec, OnHost, true, int64(len(out))))
		src = out
	}
	if exact && int64(len(src)) != want {
		return nil, fmt.Errorf("chunk of %d bytes, want %d", len(src), want)
	}
	return src, nil
}

// errTooShort returns the error of an encoding that cannot have a decoding of n bytes.
func errTooShort(codec Codec, src []byte, n int64) error {
	return fmt.Errorf("codec %q: %d bytes cannot hold the %d of a chunk", codec.Name(), len(src), n)
}
