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

// Bytes stores fixed-width elements contiguously in C order. Endian must be set if
// numbers have more than one byte (Zarr core 3.1, "bytes codec").
type Bytes struct {
	Endian Endian
}

// Name returns "bytes".
func (Bytes) Name() string { return "bytes" }

// Configuration returns the byte order, if it is set.
func (b Bytes) Configuration() any {
	if b.Endian == "" {
		return nil
	}
	return metajson.Members{{Key: "endian", Value: b.Endian}}
}

func parseBytes(config *metajson.Object) (Codec, error) {
	var b Bytes
	given, err := config.DecodeOptional("endian", &b.Endian)
	if given && err == nil && b.Endian != Little && b.Endian != Big {
		err = b.errEndian()
	}
	return b, err
}

func (b Bytes) check() error {
	if b.Endian != Little && b.Endian != Big && b.Endian != "" {
		return b.errEndian()
	}
	return nil
}

func (b Bytes) errEndian() error {
	return fmt.Errorf(`codec "bytes": endian %q is neither "little" nor "big"`, b.Endian)
}

func (b Bytes) compile(chunk ChunkSpec) (chunkSerializer, error) {
	dtype, ok := chunk.Type.DType()
	if !ok {
		return nil, fmt.Errorf("codec %q cannot encode %s", b.Name(), chunk.Type)
	}
	raw := &bytesSerializer{chunk: chunk}
	if width := byteOrderWidth(dtype); width > 1 {
		if b.Endian == "" {
			return nil, fmt.Errorf("%s: %w", chunk.Type, b.errEndian())
		}
		if b.Endian == Big {
			raw.swapWidth = width
		}
	}
	return raw, nil
}

// byteOrderWidth returns the number of bytes that a byte order applies to: an element,
// or one part of a complex number.
func byteOrderWidth(t ndview.DType) int64 {
	switch t.Kind() {
	case ndview.KindBytes:
		return 1
	case ndview.KindComplex:
		return t.Size() / 2
	default:
		return t.Size()
	}
}

// bytesSerializer is the compiled Bytes codec.
type bytesSerializer struct {
	chunk     ChunkSpec
	swapWidth int64 // width of numbers to byte-swap; 0 for none
}

func (r *bytesSerializer) spec() ChunkSpec { return r.chunk }

func (r *bytesSerializer) size() (int64, bool) { return r.chunk.nbytes(), true }

// encode returns the memory of the values if that is a whole chunk already.
func (r *bytesSerializer) encode(s *Scratch, v element.Values, keep bool) ([]byte, error) {
	raw, err := s.hostElements(v.(*ndview.NDBuffer))
	if err != nil {
		return nil, err
	}
	if !keep && grid.IsFilled(raw, r.chunk.Fill) {
		return nil, nil
	}
	raw = s.pad(r.chunk, raw, v.Shape())
	if r.swapWidth > 0 {
		swapped := s.Bytes(int64(len(raw)))
		swapBytes(swapped, raw, r.swapWidth)
		raw = swapped
	}
	return raw, nil
}

func (r *bytesSerializer) decodeFixed(_ *Scratch, dst, src []byte) error {
	if len(src) != len(dst) {
		return fmt.Errorf("chunk of %d bytes, want %d", len(src), len(dst))
	}
	switch {
	case r.swapWidth > 0:
		swapBytes(dst, src, r.swapWidth)
	case len(dst) > 0 && &dst[0] != &src[0]:
		copy(dst, src)
	}
	return nil
}

func (r *bytesSerializer) decodeVLen(*Scratch, []byte) (*element.VLen, error) {
	return nil, fmt.Errorf("codec %q cannot decode %s", Bytes{}.Name(), r.chunk.Type)
}

// swapBytes reverses the bytes of each number. dst and src may be the same.
func swapBytes(dst, src []byte, width int64) {
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
