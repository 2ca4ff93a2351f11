package element

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// parseUTF32 parses a string of at most Size/4 code points.
func (t Type) parseUTF32(raw json.RawMessage) ([]byte, error) {
	text, ok := unquote(raw)
	if !ok {
		return nil, errors.New("expected a string")
	}
	fill := make([]byte, t.Size())
	return fill, encodeUTF32(fill, []byte(text))
}

// encodeUTF32 writes text to dst and pads it with zeros.
func encodeUTF32(dst, text []byte) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("%.60q: %w", text, ErrInvalidUTF8)
	}
	if n := utf8.RuneCount(text); n > len(dst)/4 {
		return fmt.Errorf("%.60q has %d code points, want at most %d", text, n, len(dst)/4)
	}
	clear(dst)
	at := 0
	for _, r := range string(text) {
		binary.LittleEndian.PutUint32(dst[at:], uint32(r))
		at += 4
	}
	return nil
}

// decodeUTF32 returns text without the zeros that pad it.
func decodeUTF32(element []byte) ([]byte, error) {
	for len(element) > 0 && binary.LittleEndian.Uint32(element[len(element)-4:]) == 0 {
		element = element[:len(element)-4]
	}
	var text []byte
	for ; len(element) > 0; element = element[4:] {
		point := binary.LittleEndian.Uint32(element)
		if point > math.MaxInt32 || !utf8.ValidRune(rune(point)) {
			return nil, fmt.Errorf("code point 0x%x is not Unicode", point)
		}
		text = utf8.AppendRune(text, rune(point))
	}
	return text, nil
}

// ToVLen returns elements of UTF32 as UTF-8, or of NullTerminated as bytes, without the
// zeros that pad them. values has the dtype of the type and is copied to the host if
// necessary. Other types are errors.
func (t Type) ToVLen(values *ndview.NDBuffer) (*VLen, error) {
	raw, err := t.hostElements("ToVLen", values)
	if err != nil {
		return nil, err
	}
	size := int(t.Size())
	elements := make([][]byte, len(raw)/size)
	for i := range elements {
		switch element := raw[i*size : (i+1)*size]; t.kind() {
		case formUTF32:
			if elements[i], err = decodeUTF32(element); err != nil {
				return nil, fmt.Errorf("element.Type.ToVLen: element %d: %w", i, err)
			}
		default:
			elements[i] = bytes.TrimRight(element, "\x00")
		}
	}
	return PackVLen(elements, values.Shape()...)
}

// FromVLen returns text as elements of UTF32 or NullTerminated, the inverse of
// [Type.ToVLen], on the CPU device. Text that is too long, and text for UTF32 that is
// not UTF-8, is an error that names the element. The caller must release the result.
func (t Type) FromVLen(text *VLen) (*ndview.NDBuffer, error) {
	if t.kind() != formUTF32 && t.kind() != formTerminated {
		return nil, fmt.Errorf("element.Type.FromVLen: %s is not text of a fixed length: %w", t, errors.ErrUnsupported)
	}
	if text == nil {
		return nil, errors.New("element.Type.FromVLen: nil values")
	}
	size := t.Size()
	n := text.Len() // of elements that exist
	if n > math.MaxInt64/size {
		return nil, fmt.Errorf("element.Type.FromVLen: %d elements of %d bytes exceed 2^63 bytes", n, size)
	}
	if err := arrowbuf.CheckHostMemory(n * size); err != nil {
		return nil, fmt.Errorf("element.Type.FromVLen: %w", err)
	}
	raw := make([]byte, n*size)
	for i, element := range text.Elements() {
		dst := raw[int64(i)*size:][:size]
		if t.kind() == formUTF32 {
			if err := encodeUTF32(dst, element); err != nil {
				return nil, fmt.Errorf("element.Type.FromVLen: element %d: %w", i, err)
			}
		} else if copy(dst, element) < len(element) {
			return nil, fmt.Errorf("element.Type.FromVLen: element %d has %d bytes, want at most %d", i, len(element), size)
		}
	}
	return ndview.FromBytes(arrowbuf.CPU(), t.dtype, raw, text.Shape()...)
}

// hostElements returns the elements of an array of text of a fixed length on the host
// in C order.
func (t Type) hostElements(function string, values *ndview.NDBuffer) ([]byte, error) {
	if t.kind() != formUTF32 && t.kind() != formTerminated {
		return nil, fmt.Errorf("element.Type.%s: %s is not text of a fixed length: %w", function, t, errors.ErrUnsupported)
	}
	if values == nil {
		return nil, fmt.Errorf("element.Type.%s: nil values", function)
	}
	if err := t.CheckValues(values); err != nil {
		return nil, fmt.Errorf("element.Type.%s: %w", function, err)
	}
	return hostBytes(values)
}

// hostBytes returns the elements of an array on the host in C order. It copies them
// only if necessary.
func hostBytes(values *ndview.NDBuffer) ([]byte, error) {
	if raw, ok := values.HostBytes(); ok {
		return raw, nil
	}
	raw := make([]byte, values.NBytes())
	return raw, values.CopyToHost(raw)
}
