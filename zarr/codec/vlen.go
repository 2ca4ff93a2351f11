package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// VLenUTF8 writes strings one after the other in C order: their number, then
// for each its length and its bytes; numbers have 4 bytes, least significant
// first. The bytes are checked to be UTF-8, on the way back too.
type VLenUTF8 struct{}

// VLenBytes writes byte strings as VLenUTF8 writes strings.
type VLenBytes struct{}

// Name is "vlen-utf8".
func (VLenUTF8) Name() string { return "vlen-utf8" }

// Name is "vlen-bytes".
func (VLenBytes) Name() string { return "vlen-bytes" }

func (VLenUTF8) configuration() any  { return nil }
func (VLenBytes) configuration() any { return nil }

func (c VLenUTF8) compile(chunk Chunk) (serializer, error) {
	return compileVLen(c, chunk, element.String)
}

func (c VLenBytes) compile(chunk Chunk) (serializer, error) {
	return compileVLen(c, chunk, element.Bytes)
}

func compileVLen(c Codec, chunk Chunk, takes element.Type) (serializer, error) {
	if chunk.Type != takes {
		return nil, fmt.Errorf("codec %q encodes %s, not %s", c.Name(), takes, chunk.Type)
	}
	if grid.Size(chunk.Shape) > math.MaxUint32 {
		return nil, fmt.Errorf("codec %q: chunk shape %v has 2^32 or more strings", c.Name(), chunk.Shape)
	}
	return vlen{chunk}, nil
}

// vlen is the compiled codec.
type vlen struct{ chunk Chunk }

// maxVLen bounds a chunk of strings: metadata does not say how long they are,
// so this is what keeps a small compressed chunk from filling the memory.
const maxVLen = 4 << 30

func (vlen) size() (int64, bool) { return maxVLen, false }

func (c vlen) isText() bool { return c.chunk.Type == element.String }

func (c vlen) encode(s *Scratch, values element.Values) ([]byte, error) {
	v := values.(*element.VLen)
	if !s.KeepEmpty && c.filled(v) {
		return nil, nil
	}
	if !slices.Equal(v.Shape(), c.chunk.Shape) {
		padded, err := c.pad(v)
		if err != nil {
			return nil, err
		}
		v = padded
	}
	size := 4 + 4*v.Len() + v.NBytes()
	if size > maxVLen {
		return nil, fmt.Errorf("a chunk of %d bytes of strings, where at most %d are written: choose smaller chunks", size, int64(maxVLen))
	}
	if err := c.checkText(v); err != nil {
		return nil, err
	}
	out := s.sized(size)
	narrow, wide := v.Offsets()
	if narrow != nil {
		writeVLen(out, narrow, v.Data())
	} else {
		writeVLen(out, wide, v.Data())
	}
	return out, nil
}

// writeVLen fills out, which has just the right size.
func writeVLen[O element.Offset](out []byte, offsets []O, data []byte) {
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

// checkText looks at all bytes at once, which is fast, and then only at where
// elements begin: a character cut in two is a beginning that is none.
func (c vlen) checkText(v *element.VLen) error {
	if !c.isText() {
		return nil
	}
	narrow, wide := v.Offsets()
	if narrow != nil && validText(narrow, v.Data()) || wide != nil && validText(wide, v.Data()) {
		return nil
	}
	for i, s := range v.Elements() {
		if !utf8.Valid(s) {
			return fmt.Errorf("element %d: %.40q: %w", i, s, element.ErrInvalidUTF8)
		}
	}
	return nil
}

func validText[O element.Offset](offsets []O, data []byte) bool {
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

func (c vlen) filled(v *element.VLen) bool {
	if v.NBytes() != v.Len()*int64(len(c.chunk.Fill)) {
		return false
	}
	for i := range v.Len() {
		if string(v.At(i)) != string(c.chunk.Fill) {
			return false
		}
	}
	return true
}

func (c vlen) pad(v *element.VLen) (*element.VLen, error) {
	whole := slices.Repeat([][]byte{c.chunk.Fill}, int(grid.Size(c.chunk.Shape)))
	origin := make([]int64, len(c.chunk.Shape))
	grid.Copy(whole, c.chunk.Shape, origin, v.Elements(), v.Shape(), origin, v.Shape(), 1)
	return element.Strings(whole, c.chunk.Shape...)
}

func (c vlen) decodeFixed(*Scratch, []byte, []byte) error {
	return fmt.Errorf("elements of %s have no fixed width", c.chunk.Type)
}

func (c vlen) decodeVLen(_ *Scratch, src []byte) (*element.VLen, error) {
	n := grid.Size(c.chunk.Shape)
	total := int64(len(src)) - 4 - 4*n
	if total < 0 {
		return nil, fmt.Errorf("%d bytes are too few for %d strings", len(src), n)
	}
	if given := binary.LittleEndian.Uint32(src); int64(given) != n {
		return nil, fmt.Errorf("%d strings in a chunk of %d", given, n)
	}
	var v *element.VLen
	var err error
	if total <= math.MaxInt32 {
		v, err = readVLen[int32](src[4:], n, total, c.chunk.Shape)
	} else {
		v, err = readVLen[int64](src[4:], n, total, c.chunk.Shape)
	}
	if err != nil {
		return nil, err
	}
	return v, c.checkText(v)
}

func readVLen[O element.Offset](src []byte, n, total int64, shape []int64) (*element.VLen, error) {
	offsets, data := make([]O, n+1), make([]byte, 0, total)
	for i := range n {
		if len(src) < 4 {
			return nil, fmt.Errorf("string %d of %d: the chunk ends", i, n)
		}
		length := int64(binary.LittleEndian.Uint32(src))
		src = src[4:]
		if length > int64(len(src)) || int64(len(data))+length > total {
			return nil, fmt.Errorf("string %d of %d: %d bytes, where %d are left", i, n, length, total-int64(len(data)))
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
