package codec

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
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
	if chunk.Type.IsVLen() {
		return nil, fmt.Errorf("codec %q cannot encode %s", b.Name(), chunk.Type)
	}
	order := dtype.LittleEndian
	if b.Endian == Big {
		order = dtype.BigEndian
	}
	swap, err := chunk.Type.IsSwapped(order)
	if err != nil {
		return nil, err
	}
	raw := &bytesSerializer{chunk: chunk, swap: swap}
	// zarr-python wrote structs without a byte order, and reads them as little-endian.
	if b.Endian == "" && chunk.Type.HasByteOrder() && !chunk.Type.IsStruct() {
		return nil, fmt.Errorf("%s: %w", chunk.Type, b.errEndian())
	}
	return raw, nil
}

// bytesSerializer is the compiled Bytes codec.
type bytesSerializer struct {
	chunk ChunkSpec
	swap  bool // chunks store numbers, or some, in the other byte order
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
	if err := r.chunk.Type.CheckElements(raw); err != nil {
		return nil, err
	}
	raw = s.pad(r.chunk, raw, v.Shape())
	if r.swap {
		swapped := s.Bytes(int64(len(raw)))
		r.chunk.Type.SwapBytes(swapped, raw)
		raw = swapped
	}
	return raw, nil
}

func (r *bytesSerializer) decodeFixed(_ *Scratch, dst, src []byte) error {
	if len(src) != len(dst) {
		return fmt.Errorf("chunk of %d bytes, want %d", len(src), len(dst))
	}
	switch {
	case r.swap:
		r.chunk.Type.SwapBytes(dst, src)
	case len(dst) > 0 && &dst[0] != &src[0]:
		copy(dst, src)
	}
	r.chunk.Type.Normalize(dst)
	return nil
}

func (r *bytesSerializer) decodeVLen(*Scratch, []byte) (*element.VLen, error) {
	return nil, fmt.Errorf("codec %q cannot decode %s", Bytes{}.Name(), r.chunk.Type)
}
