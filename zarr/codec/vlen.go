package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/internal/hostmem"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// VLenUTF8 stores strings in C order: their number, then the length and the bytes of
// each. Numbers are 4 bytes, little-endian. Encoding and decoding verify that strings
// are UTF-8 (zarr-extensions, "vlen-utf8").
type VLenUTF8 struct{}

// VLenBytes stores byte strings in the format of [VLenUTF8] (zarr-extensions,
// "vlen-bytes").
type VLenBytes struct{}

// Name returns "vlen-utf8".
func (VLenUTF8) Name() string { return "vlen-utf8" }

// Name returns "vlen-bytes".
func (VLenBytes) Name() string { return "vlen-bytes" }

// Configuration returns nil.
func (VLenUTF8) Configuration() any { return nil }

// Configuration returns nil.
func (VLenBytes) Configuration() any { return nil }

func (VLenUTF8) v2() (string, metajson.Members)  { return "vlen-utf8", nil }
func (VLenBytes) v2() (string, metajson.Members) { return "vlen-bytes", nil }

// Serializer returns the codec for chunks of element.String.
func (c VLenUTF8) Serializer(in ChunkSpec) (Serializer, error) {
	return vlenSerializer(c, in, element.String)
}

// Serializer returns the codec for chunks of element.Bytes.
func (c VLenBytes) Serializer(in ChunkSpec) (Serializer, error) {
	return vlenSerializer(c, in, element.Bytes)
}

// maxVLen bounds an encoded chunk of strings. Metadata does not bound their lengths, so
// without it a small compressed chunk could exhaust memory.
const maxVLen = 4 << 30

func vlenSerializer(c Codec, in ChunkSpec, want element.Type) (Serializer, error) {
	if in.Type != want {
		return Serializer{}, fmt.Errorf("codec %q encodes %s, got %s", c.Name(), want, in.Type)
	}
	if grid.Size(in.Shape) > math.MaxUint32 {
		return Serializer{}, fmt.Errorf("codec %q: chunk shape %v has 2^32 or more strings", c.Name(), in.Shape)
	}
	isText := want == element.String
	return Serializer{
		MaxSize: maxVLen,
		EncodeVLen: func(dst []byte, v *element.VLen) ([]byte, error) {
			size := 4 + 4*v.Len() + v.NBytes()
			if size > maxVLen {
				return nil, fmt.Errorf("chunk of %d bytes of strings exceeds %d: choose smaller chunks", size, int64(maxVLen))
			}
			if err := checkUTF8(v, isText); err != nil {
				return nil, err
			}
			dst = hostmem.Grow(dst, int(size))
			out := dst[len(dst) : len(dst)+int(size)]
			narrow, wide := v.Offsets()
			if narrow != nil {
				encodeVLen(out, narrow, v.Data())
			} else {
				encodeVLen(out, wide, v.Data())
			}
			return dst[:len(dst)+int(size)], nil
		},
		DecodeVLen: func(src []byte) (*element.VLen, error) {
			v, err := decodeStrings(in.Shape, src)
			if err != nil {
				return nil, err
			}
			return v, checkUTF8(v, isText)
		},
	}, nil
}

// encodeVLen fills out, which has the exact size.
func encodeVLen[O element.Offset](out []byte, offsets []O, data []byte) {
	binary.LittleEndian.PutUint32(out, uint32(len(offsets)-1))
	out = out[4:]
	start := offsets[0]
	for _, end := range offsets[1:] {
		binary.LittleEndian.PutUint32(out, uint32(end-start))
		copy(out[4:], data[start:end])
		out = out[4+end-start:]
		start = end
	}
}

// checkUTF8 validates all bytes at once, which is fast. It then verifies that every
// element begins at the start of a character.
func checkUTF8(v *element.VLen, isText bool) error {
	if !isText {
		return nil
	}
	narrow, wide := v.Offsets()
	if narrow != nil && isValidUTF8(narrow, v.Data()) || wide != nil && isValidUTF8(wide, v.Data()) {
		return nil
	}
	for i, s := range v.Elements() {
		if !utf8.Valid(s) {
			return fmt.Errorf("element %d: %.40q: %w", i, s, element.ErrInvalidUTF8)
		}
	}
	return nil
}

func isValidUTF8[O element.Offset](offsets []O, data []byte) bool {
	end := offsets[len(offsets)-1]
	if !utf8.Valid(data[offsets[0]:end]) {
		return false
	}
	for _, start := range offsets {
		if start < end && !utf8.RuneStart(data[start]) {
			return false
		}
	}
	return true
}

func decodeStrings(shape []int64, src []byte) (*element.VLen, error) {
	n := grid.Size(shape)
	total := int64(len(src)) - 4 - 4*n
	if total < 0 {
		return nil, fmt.Errorf("%d bytes are too few for %d strings", len(src), n)
	}
	if given := binary.LittleEndian.Uint32(src); int64(given) != n {
		return nil, fmt.Errorf("%d strings in a chunk of %d", given, n)
	}
	if total <= math.MaxInt32 {
		return decodeVLen[int32](src[4:], n, total, shape)
	}
	return decodeVLen[int64](src[4:], n, total, shape)
}

func decodeVLen[O element.Offset](src []byte, n, total int64, shape []int64) (*element.VLen, error) {
	offsets, data := make([]O, n+1), make([]byte, 0, total)
	for i := range n {
		if len(src) < 4 {
			return nil, fmt.Errorf("string %d of %d: unexpected end of chunk", i, n)
		}
		length := int64(binary.LittleEndian.Uint32(src))
		src = src[4:]
		if length > int64(len(src)) || int64(len(data))+length > total {
			return nil, fmt.Errorf("string %d of %d: %d bytes, but only %d remain", i, n, length, total-int64(len(data)))
		}
		data = append(data, src[:length]...)
		src = src[length:]
		offsets[i+1] = O(len(data))
	}
	if len(src) != 0 {
		return nil, fmt.Errorf("%d bytes after the last string", len(src))
	}
	return element.NewVLen(offsets, data, shape...)
}
