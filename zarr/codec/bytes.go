package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Endian is a byte order.
type Endian string

// The byte orders.
const (
	Little Endian = "little"
	Big    Endian = "big"
)

// Bytes writes the elements of fixed width one after the other in C order.
// Endian must be set for numbers of more than one byte.
type Bytes struct {
	Endian Endian
}

// Name is "bytes".
func (Bytes) Name() string { return "bytes" }

func (b Bytes) configuration() any {
	if b.Endian == "" {
		return nil
	}
	return metajson.Members{{Key: "endian", Value: b.Endian}}
}

func parseBytes(config *metajson.Object) (Codec, error) {
	var b Bytes
	if given, err := config.Maybe("endian", &b.Endian); err != nil || !given {
		return b, err
	}
	return b, b.check()
}

func (b Bytes) check() error {
	if b.Endian != Little && b.Endian != Big {
		return fmt.Errorf(`codec "bytes": endian %q is neither "little" nor "big"`, b.Endian)
	}
	return nil
}

func (b Bytes) compile(chunk Chunk) (serializer, error) {
	dtype, ok := chunk.Type.DType()
	if !ok {
		return nil, fmt.Errorf("codec %q cannot encode %s", b.Name(), chunk.Type)
	}
	raw := &rawBytes{chunk: chunk}
	if width := swapWidth(dtype); width > 1 || b.Endian != "" {
		if err := b.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", chunk.Type, err)
		}
		if b.Endian == Big && width > 1 {
			raw.swap = width
		}
	}
	return raw, nil
}

// swapWidth is the number of bytes that change places between byte orders: of an
// element, or of each part of a complex one.
func swapWidth(t ndview.DType) int64 {
	switch t.Kind() {
	case ndview.KindBytes:
		return 1
	case ndview.KindComplex:
		return t.Size() / 2
	default:
		return t.Size()
	}
}

// rawBytes is the compiled codec.
type rawBytes struct {
	chunk Chunk
	swap  int64 // bytes to swap; 0 for none
}

func (r *rawBytes) size() (int64, bool) { return r.chunk.bytes(), true }

// encode returns the values' own memory when that is a whole chunk already.
func (r *rawBytes) encode(s *Scratch, v element.Values) ([]byte, error) {
	raw, err := s.elements(v.(*ndview.NDBuffer))
	if err != nil {
		return nil, err
	}
	if !s.KeepEmpty && grid.Filled(raw, r.chunk.Fill) {
		return nil, nil
	}
	if int64(len(raw)) != r.chunk.bytes() {
		whole := s.sized(r.chunk.bytes())
		grid.Fill(whole, r.chunk.Fill)
		origin := make([]int64, len(v.Shape()))
		grid.Copy(whole, r.chunk.Shape, origin, raw, v.Shape(), origin, v.Shape(), r.chunk.Type.Size())
		raw = whole
	}
	if r.swap > 0 {
		swapped := s.sized(int64(len(raw)))
		swap(swapped, raw, r.swap)
		raw = swapped
	}
	return raw, nil
}

func (r *rawBytes) decodeFixed(_ *Scratch, dst, src []byte) error {
	if len(src) != len(dst) {
		return fmt.Errorf("%d bytes of a chunk, expected %d", len(src), len(dst))
	}
	switch {
	case r.swap > 0:
		swap(dst, src, r.swap)
	case len(dst) > 0 && &dst[0] != &src[0]:
		copy(dst, src)
	}
	return nil
}

func (r *rawBytes) decodeVLen(*Scratch, []byte) (*element.VLen, error) {
	return nil, fmt.Errorf("codec %q cannot decode %s", Bytes{}.Name(), r.chunk.Type)
}

// swap reverses the bytes of each number. The slices may be the same.
func swap(dst, src []byte, width int64) {
	switch width {
	case 2:
		for i := 0; i < len(src); i += 2 {
			binary.BigEndian.PutUint16(dst[i:], binary.LittleEndian.Uint16(src[i:]))
		}
	case 4:
		for i := 0; i < len(src); i += 4 {
			binary.BigEndian.PutUint32(dst[i:], binary.LittleEndian.Uint32(src[i:]))
		}
	case 8:
		for i := 0; i < len(src); i += 8 {
			binary.BigEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(src[i:]))
		}
	}
}
