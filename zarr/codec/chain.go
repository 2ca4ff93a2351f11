package codec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// ChunkSpec describes the chunks that a chain encodes.
type ChunkSpec struct {
	Type  element.Type
	Shape []int64 // every extent is positive
	Fill  []byte  // one element; pads values that are smaller than Shape
}

func (c ChunkSpec) check() error {
	for _, d := range c.Shape {
		if d < 1 {
			return fmt.Errorf("chunk shape %v: every extent must be at least 1", c.Shape)
		}
	}
	if _, err := grid.ByteSize(c.Shape, max(c.Type.Size(), 1)); err != nil {
		return fmt.Errorf("chunk %w", err)
	}
	return c.Type.CheckFill(c.Fill)
}

// nbytes returns the size of a decoded chunk of fixed-width elements.
func (c ChunkSpec) nbytes() int64 { return grid.Size(c.Shape) * c.Type.Size() }

// Chain is a codec list that was validated and compiled for one [ChunkSpec]. It is safe
// for concurrent use.
type Chain struct {
	chunk       ChunkSpec   // before any codec
	axisOrder   []int       // product of the leading transposes; nil for identity
	transforms  []transform // the other array-to-array codecs
	fillLost    bool        // by a transform
	serializer  chunkSerializer
	serializes  Codec // serializer, as the list has it
	compressors []BytesCodec
	sharding    *shardSerializer // serializer, if that is sharding_indexed; otherwise nil
}

// transform is a compiled array-to-array codec. in is the size of its input in bytes.
type transform struct {
	Transform
	name string
	in   int64
}

// Compile returns the chain for chunks of one kind. It returns an error unless exactly
// one array-to-bytes codec follows the array-to-array codecs and precedes the
// bytes-to-bytes codecs, and every codec fits the chunk.
func (l List) Compile(chunk ChunkSpec) (*Chain, error) {
	if err := chunk.check(); err != nil {
		return nil, err
	}
	c := &Chain{chunk: chunk}
	spec := chunk
	for i, codec := range l {
		if codec == nil {
			return nil, fmt.Errorf("codec %d is nil", i)
		}
		var err error
		switch _, isBytes := codec.(BytesCodec); {
		case isBytes && c.serializer == nil:
			return nil, fmt.Errorf("codec %q comes before any array-to-bytes codec", codec.Name())
		case !isBytes && c.serializer != nil:
			return nil, fmt.Errorf("codec %q comes after %q: want only one array-to-bytes codec, after the array-to-array codecs", codec.Name(), l[i-1].Name())
		}
		if checked, ok := codec.(interface{ check() error }); ok {
			if err := checked.check(); err != nil {
				return nil, err
			}
		}
		switch codec := codec.(type) {
		case ArrayCodec:
			spec, err = c.addArrayCodec(codec, spec)
		case ArrayBytesCodec: // before chunkCodec, which a type of another package may embed
			c.serializes = codec
			c.serializer, err = compileHost(codec, spec)
		case chunkCodec:
			c.serializes = codec
			if c.serializer, err = codec.compile(spec); err == nil {
				c.sharding, _ = c.serializer.(*shardSerializer)
			}
		case BytesCodec:
			if sized, ok := codec.(Blosc); ok {
				codec = sized.forElements(elementSize(l[:i], spec))
			}
			c.compressors = append(c.compressors, codec)
		default:
			err = checkKind(codec)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.serializer == nil {
		return nil, fmt.Errorf("no array-to-bytes codec for %s", chunk.Type)
	}
	return c, nil
}

// elementSize returns the size of elements in the bytes that codecs encode chunks to. It
// is 1 unless the last is [Bytes].
func elementSize(l List, encoded ChunkSpec) int64 {
	if len(l) > 0 {
		if _, ok := l[len(l)-1].(Bytes); ok {
			return max(encoded.Type.Size(), 1)
		}
	}
	return 1
}

// Complete returns the list for metadata of a new array: it sets fields whose defaults
// depend on the type of elements, and which Zarr v3 requires. These are Shuffle and
// TypeSize of [Blosc], also in shards. It returns an error if an array-to-array codec
// does not fit the chunk, or does not restore its fill value.
func (l List) Complete(chunk ChunkSpec) (List, error) {
	out := slices.Clone(l)
	for i, c := range l {
		switch c := c.(type) {
		case Transpose:
			order, err := c.axes(len(chunk.Shape))
			if err != nil {
				return nil, err
			}
			chunk.Shape = permuteShape(chunk.Shape, order)
		case ArrayCodec:
			t, err := c.Transform(chunk)
			if err == nil {
				err = t.fillErr
			}
			if err != nil {
				return nil, fmt.Errorf("codec %q: %w", c.Name(), err)
			}
			chunk = t.Out
		case Sharding:
			inner := chunk
			inner.Shape = c.ChunkShape
			var err error
			if c.Codecs, err = c.Codecs.Complete(inner); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name(), err)
			}
			out[i] = c
		case Blosc:
			out[i] = c.forElements(elementSize(l[:i], chunk))
		}
	}
	return out, nil
}

// addArrayCodec adds a codec and returns the chunks that it encodes to. Leading
// transposes are views, which a device need not copy to the host.
func (c *Chain) addArrayCodec(codec ArrayCodec, in ChunkSpec) (ChunkSpec, error) {
	if t, ok := codec.(Transpose); ok && len(c.transforms) == 0 {
		var err error
		in.Shape, err = c.addTranspose(t, in.Shape)
		return in, err
	}
	if in.Type.IsVLen() {
		return in, fmt.Errorf("codec %q cannot encode %s", codec.Name(), in.Type)
	}
	t, err := codec.Transform(in)
	if err != nil {
		return in, fmt.Errorf("codec %q: %w", codec.Name(), err)
	}
	if err := t.Out.check(); err != nil {
		return in, fmt.Errorf("codec %q: encoded %w", codec.Name(), err)
	}
	if t.Out.Type.IsVLen() || t.Encode == nil || t.Decode == nil {
		return in, fmt.Errorf("codec %q: incomplete transform of %s to %s", codec.Name(), in.Type, t.Out.Type)
	}
	c.transforms = append(c.transforms, transform{t, codec.Name(), in.nbytes()})
	c.fillLost = c.fillLost || t.fillLost
	return t.Out, nil
}

// addTranspose composes a transpose with axisOrder and returns the permuted shape.
func (c *Chain) addTranspose(t Transpose, shape []int64) ([]int64, error) {
	axes, err := t.axes(len(shape))
	if err != nil {
		return nil, err
	}
	moved, order := make([]int64, len(shape)), make([]int, len(shape))
	for i, axis := range axes {
		moved[i], order[i] = shape[axis], axis
		if c.axisOrder != nil {
			order[i] = c.axisOrder[axis]
		}
	}
	c.axisOrder = order
	if slices.IsSorted(order) {
		c.axisOrder = nil
	}
	return moved, nil
}

// Fill returns the fill value: one element.
func (c *Chain) Fill() []byte { return c.chunk.Fill }

// EncodesFill reports whether the codecs can encode the fill value. An example of one that
// they cannot is 0 as an unsigned integer less an offset.
func (c *Chain) EncodesFill() bool { return !c.fillLost }

// CheckValues returns an error unless the values fit a chunk: its type, its number of
// axes, and no larger along any axis.
func (c *Chain) CheckValues(v element.Values) error {
	if err := c.chunk.Type.CheckValues(v); err != nil {
		return err
	}
	shape := v.Shape()
	if len(shape) != len(c.chunk.Shape) {
		return fmt.Errorf("values of shape %v do not fit chunk shape %v", shape, c.chunk.Shape)
	}
	for i, d := range shape {
		if d > c.chunk.Shape[i] {
			return fmt.Errorf("values of shape %v are larger than chunk shape %v", shape, c.chunk.Shape)
		}
	}
	return nil
}

var errNilScratch = errors.New("codec.Chain: nil Scratch")

// Encode returns the encoding of a chunk. Values may be smaller than the chunk along
// any axis; fill values pad the rest. Where the codecs cannot encode fill values, such as
// after an element whose difference to them is too large, the elements before them do.
// The result is nil if all elements equal the fill value bitwise, unless s.KeepEmpty is
// set.
//
// The result is in s or in the memory of the values. It is valid until s is used again,
// and the caller must not modify it.
func (c *Chain) Encode(s *Scratch, v element.Values) ([]byte, error) {
	if s == nil {
		return nil, errNilScratch
	}
	s.Reset()
	if err := c.CheckValues(v); err != nil {
		return nil, err
	}
	return c.encode(s, v)
}

func (c *Chain) encode(s *Scratch, v element.Values) ([]byte, error) {
	if c.axisOrder != nil {
		moved, err := element.Transpose(v, c.axisOrder)
		if err != nil {
			return nil, err
		}
		defer moved.Release()
		v = moved
	}
	keep := s.KeepEmpty
	if len(c.transforms) > 0 {
		moved, err := c.transform(s, v.(*ndview.NDBuffer))
		if err != nil || moved == nil {
			return nil, err
		}
		defer moved.Release()
		// Only elements before the transforms decide whether a chunk is empty. Others
		// may encode to the fill value, too.
		v, keep = moved, true
	}
	out, err := c.serializer.encode(s, v, keep)
	if err != nil || out == nil {
		return nil, err
	}
	s.Stats.add(countOf(c.serializes, OnHost, false, int64(len(out))))
	return c.compress(s, out, 0)
}

// compress applies the bytes-to-bytes codecs from one on.
func (c *Chain) compress(s *Scratch, raw []byte, from int) (_ []byte, err error) {
	for _, codec := range c.compressors[from:] {
		buf := s.nextBuffer()
		*buf, err = codec.Encode((*buf)[:0], raw)
		if err != nil {
			return nil, fmt.Errorf("codec %q: %w", codec.Name(), err)
		}
		s.Stats.add(countOf(codec, OnHost, false, int64(len(raw))))
		raw = *buf
	}
	return raw, nil
}

// transform applies the transforms on the host. It returns nil for a chunk of fill
// values, unless s.KeepEmpty is set. The result is valid until s is used again.
func (c *Chain) transform(s *Scratch, v *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	raw, err := s.hostElements(v)
	if err != nil {
		return nil, err
	}
	if !s.KeepEmpty && grid.IsFilled(raw, c.chunk.Fill) {
		return nil, nil
	}
	spec := c.chunk
	if c.axisOrder != nil {
		spec.Shape = permuteShape(spec.Shape, c.axisOrder)
	}
	padded := s.pad(spec, raw, v.Shape())
	encoded, err := c.applyTransforms(s, padded)
	if err != nil && len(raw) > 0 && len(padded) > len(raw) {
		encoded, err = c.applyTransforms(s, s.padRepeating(spec, raw, v.Shape()))
	}
	if err != nil {
		return nil, err
	}
	spec = c.transforms[len(c.transforms)-1].Out
	dtype, _ := spec.Type.DType()
	buf := arrowbuf.WrapExternal(encoded, nil)
	defer buf.Release()
	return ndview.FromBuffer(buf, dtype, 0, spec.Shape, nil)
}

// applyTransforms encodes the elements of a whole chunk. The result is valid until s is
// used again.
func (c *Chain) applyTransforms(s *Scratch, raw []byte) ([]byte, error) {
	for _, t := range c.transforms {
		out := s.Bytes(t.Out.nbytes())
		if err := t.Encode(out, raw); err != nil {
			return nil, fmt.Errorf("codec %q: %w", t.name, err)
		}
		raw = out
	}
	return raw, nil
}

// sizeLimits returns an upper bound on the input of each bytes-to-bytes codec.
func (c *Chain) sizeLimits() []int64 {
	out := make([]int64, len(c.compressors))
	n, _ := c.serializer.size()
	for i, codec := range c.compressors {
		out[i] = n
		n, _ = encodedSize(codec, n)
	}
	return out
}

// size returns the size of an encoded chunk. It is exact if no codec compresses.
func (c *Chain) size() (n int64, exact bool) {
	n, exact = c.serializer.size()
	for _, codec := range c.compressors {
		var fixed bool
		n, fixed = encodedSize(codec, n)
		exact = exact && fixed
	}
	return n, exact
}

// encodedSize returns an upper bound on the encoding of n bytes, and whether every
// encoding has that size.
func encodedSize(codec BytesCodec, n int64) (most int64, exact bool) {
	if b, ok := codec.(SizeBounder); ok {
		return b.EncodedSize(n)
	}
	return looseBound(n), false
}

// maxDecoded returns an upper bound on the decoding of n bytes.
func maxDecoded(codec BytesCodec, n int64) int64 {
	b, ok := codec.(SizeBounder)
	if !ok {
		return math.MaxInt64
	}
	ratio := b.MaxRatio()
	if n > 0 && ratio > math.MaxInt64/n {
		return math.MaxInt64
	}
	return ratio * n
}

// looseBound bounds the encoding of n incompressible bytes by any encoder.
func looseBound(n int64) int64 {
	const slack = 1 << 16
	if n > (math.MaxInt64-slack)/2 {
		return math.MaxInt64
	}
	return 2*n + slack
}

// sameMemory reports whether two slices share memory, up to their capacities. A decoder
// may return any part of its input.
func sameMemory(a, b []byte) bool {
	if cap(a) == 0 || cap(b) == 0 {
		return false
	}
	firstA, firstB := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return firstA < firstB+uintptr(cap(b)) && firstB < firstA+uintptr(cap(a))
}

func errTooLong(limit int64) error { return fmt.Errorf("more than %d bytes decoded", limit) }
