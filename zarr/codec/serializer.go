package codec

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// chunkCodec is an array-to-bytes codec that takes values of any size on any device.
// Others are an [ArrayBytesCodec].
type chunkCodec interface {
	Codec
	compile(ChunkSpec) (chunkSerializer, error)
}

// chunkSerializer is a compiled array-to-bytes codec.
type chunkSerializer interface {
	// encode returns nil if all values equal the fill value, unless keep is set. The
	// values are not larger than the chunk; fill values pad them.
	encode(s *Scratch, v element.Values, keep bool) ([]byte, error)
	// decodeFixed fills dst with the elements of a whole chunk in C order.
	decodeFixed(s *Scratch, dst, src []byte) error
	// decodeVLen returns the elements of a whole chunk of variable length.
	decodeVLen(s *Scratch, src []byte) (*element.VLen, error)
	// size returns the size of an encoded chunk in bytes: exactly if exact is true,
	// otherwise an upper bound.
	size() (n int64, exact bool)
	// spec returns the chunks that the codec encodes.
	spec() ChunkSpec
}

// hostSerializer makes a chunkSerializer of a [Serializer]. It pads partial chunks,
// omits empty ones and copies elements to the host.
type hostSerializer struct {
	Serializer
	name  string
	chunk ChunkSpec
}

func compileHost(codec ArrayBytesCodec, chunk ChunkSpec) (chunkSerializer, error) {
	s, err := codec.Serializer(chunk)
	if err != nil {
		return nil, fmt.Errorf("codec %q: %w", codec.Name(), err)
	}
	complete := s.Encode != nil && s.Decode != nil
	if chunk.Type.IsVLen() {
		complete = s.EncodeVLen != nil && s.DecodeVLen != nil
	}
	if !complete || s.MaxSize < 0 {
		return nil, fmt.Errorf("codec %q: incomplete serializer of %s", codec.Name(), chunk.Type)
	}
	return &hostSerializer{s, codec.Name(), chunk}, nil
}

func (h *hostSerializer) spec() ChunkSpec { return h.chunk }

func (h *hostSerializer) size() (int64, bool) { return h.MaxSize, h.Exact }

func (h *hostSerializer) encode(s *Scratch, values element.Values, keep bool) ([]byte, error) {
	if v, ok := values.(*element.VLen); ok {
		return h.encodeVLen(s, v, keep)
	}
	raw, err := s.hostElements(values.(*ndview.NDBuffer))
	if err != nil {
		return nil, err
	}
	if !keep && grid.IsFilled(raw, h.chunk.Fill) {
		return nil, nil
	}
	raw = s.pad(h.chunk, raw, values.Shape())
	buf := s.nextBuffer()
	out, err := h.Encode((*buf)[:0], raw)
	return h.result(buf, out, err)
}

func (h *hostSerializer) encodeVLen(s *Scratch, v *element.VLen, keep bool) ([]byte, error) {
	if !keep && isFill(v, h.chunk.Fill) {
		return nil, nil
	}
	if !slices.Equal(v.Shape(), h.chunk.Shape) {
		padded, err := padVLen(v, h.chunk)
		if err != nil {
			return nil, err
		}
		v = padded
	}
	buf := s.nextBuffer()
	out, err := h.EncodeVLen((*buf)[:0], v)
	return h.result(buf, out, err)
}

// result keeps the grown buffer of an encoding, which it returns. An empty encoding is
// not nil, which would mean an empty chunk.
func (h *hostSerializer) result(buf *[]byte, out []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, fmt.Errorf("codec %q: %w", h.name, err)
	}
	if out == nil {
		out = []byte{}
	}
	*buf = out
	return out, nil
}

func (h *hostSerializer) decodeFixed(_ *Scratch, dst, src []byte) error {
	if h.chunk.Type.IsVLen() {
		return fmt.Errorf("elements of %s have no fixed width", h.chunk.Type)
	}
	if err := h.Decode(dst, src); err != nil {
		return fmt.Errorf("codec %q: %w", h.name, err)
	}
	return nil
}

func (h *hostSerializer) decodeVLen(_ *Scratch, src []byte) (*element.VLen, error) {
	if !h.chunk.Type.IsVLen() {
		return nil, fmt.Errorf("elements of %s have a fixed width", h.chunk.Type)
	}
	v, err := h.DecodeVLen(src)
	if err != nil {
		return nil, fmt.Errorf("codec %q: %w", h.name, err)
	}
	if v == nil {
		return nil, fmt.Errorf("codec %q: decoded values are nil", h.name)
	}
	if !slices.Equal(v.Shape(), h.chunk.Shape) {
		return nil, fmt.Errorf("codec %q: decoded shape %v, want %v", h.name, v.Shape(), h.chunk.Shape)
	}
	return v, nil
}

// isFill reports whether all strings equal fill.
func isFill(v *element.VLen, fill []byte) bool {
	if v.NBytes() != v.Len()*int64(len(fill)) {
		return false
	}
	for i := range v.Len() {
		if string(v.At(i)) != string(fill) {
			return false
		}
	}
	return true
}

// padVLen returns a whole chunk that begins with v.
func padVLen(v *element.VLen, chunk ChunkSpec) (*element.VLen, error) {
	if len(chunk.Fill) == 0 && slices.Equal(v.Shape()[1:], chunk.Shape[1:]) {
		// Empty strings after the last element have offsets, but no bytes.
		narrow, wide := v.Offsets()
		if narrow != nil {
			return padOffsets(narrow, v.Data(), chunk.Shape)
		}
		return padOffsets(wide, v.Data(), chunk.Shape)
	}
	whole := slices.Repeat([][]byte{chunk.Fill}, int(grid.Size(chunk.Shape)))
	origin := make([]int64, len(chunk.Shape))
	grid.Copy(whole, chunk.Shape, origin, v.Elements(), v.Shape(), origin, v.Shape(), 1)
	return element.PackVLen(whole, chunk.Shape...)
}

// padOffsets returns strings of the given shape: those of the offsets, then empty ones.
func padOffsets[O element.Offset](offsets []O, data []byte, shape []int64) (*element.VLen, error) {
	whole := make([]O, grid.Size(shape)+1)
	for i := copy(whole, offsets); i < len(whole); i++ {
		whole[i] = whole[i-1]
	}
	return element.NewVLen(whole, data, shape...)
}
