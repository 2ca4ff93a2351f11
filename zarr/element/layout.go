package element

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

// layout describes the bytes of a struct: the parts that a byte order applies to, and
// the bytes that have only some valid values.
type layout struct {
	numbers []span // of width > 1
	big     []span // those that are big-endian in a little-endian array
	narrow  []span // bytes of bools and of numbers of less than 8 bits
}

// span is a run of numbers within an element.
type span struct {
	offset, width, count int64
	of                   Type // of narrow spans
}

// layoutOf returns the layout of any type.
func (t Type) layoutOf() layout {
	if t.kind() == formStruct {
		return t.form.layout
	}
	var l layout
	if width := t.NumberWidth(); width > 1 {
		l.numbers = []span{{width: width, count: t.Size() / width}}
	}
	if t.isNarrow() {
		l.narrow = []span{{width: 1, count: t.Size(), of: t}}
	}
	return l
}

// NumberWidth returns the number of bytes that a byte order applies to: an element, one
// part of a complex number, or one code point. It is 0 for structs, 1 for bytes.
func (t Type) NumberWidth() int64 {
	switch t.kind() {
	case formUTF32:
		return 4
	case formComplex:
		return t.Size() / 2
	case formStruct:
		return 0
	}
	switch t.dtype.Kind() {
	case ndview.KindBytes:
		return 1
	case ndview.KindComplex:
		return t.Size() / 2
	default:
		return t.Size()
	}
}

// isNarrow reports whether the upper bits of stored bytes have no meaning.
func (t Type) isNarrow() bool {
	switch t.kind() {
	case formInt:
		return true
	case formFloat, formComplex:
		return t.form.float.bits < 8
	default:
		return t.form == nil && t.dtype.Kind() == ndview.KindBool
	}
}

// maxSpans bounds the memory of a layout, which a short document can claim.
const maxSpans = 1024

// add appends the layout of a field of a struct, which has count elements from an offset
// on. It returns false if that takes more than maxSpans spans.
func (l *layout) add(f Field, offset, count int64) bool {
	part := f.Type.layoutOf()
	if f.BigEndian {
		part.numbers, part.big = nil, part.numbers
	}
	for i := range count {
		if len(l.numbers)+len(l.big) > maxSpans || len(l.narrow) > maxSpans {
			return false
		}
		at := offset + i*f.Type.Size()
		l.numbers = appendSpans(l.numbers, part.numbers, at)
		l.big = appendSpans(l.big, part.big, at)
		l.narrow = appendSpans(l.narrow, part.narrow, at)
	}
	return true
}

// appendSpans appends spans at an offset, and joins each with a predecessor that it
// continues.
func appendSpans(to, spans []span, offset int64) []span {
	for _, s := range spans {
		s.offset += offset
		if n := len(to) - 1; n >= 0 && to[n].width == s.width && to[n].of == s.of && to[n].offset+to[n].width*to[n].count == s.offset {
			to[n].count += s.count
			continue
		}
		to = append(to, s)
	}
	return to
}

// HasByteOrder reports whether the byte order affects elements: whether they contain
// numbers of more than one byte.
func (t Type) HasByteOrder() bool {
	return !t.IsVLen() && (len(t.layoutOf().numbers) > 0 || t.hasBigEndianFields())
}

func (t Type) hasBigEndianFields() bool { return t.kind() == formStruct && len(t.form.layout.big) > 0 }

// IsSwapped reports whether stored elements differ from those of an NDBuffer by
// [Type.SwapBytes], in an array of a byte order. It returns an error if no array of that
// order has the type.
func (t Type) IsSwapped(order ndview.ByteOrder) (bool, error) {
	if !t.hasBigEndianFields() {
		return order == dtype.BigEndian && t.HasByteOrder(), nil
	}
	if order == dtype.BigEndian {
		return false, fmt.Errorf("%s has fields of both byte orders in a big-endian array: %w", t, errors.ErrUnsupported)
	}
	return true, nil
}

// IsStruct reports whether elements consist of fields; see [Type.Fields].
func (t Type) IsStruct() bool { return t.kind() == formStruct }

// SwapBytes copies elements from src to dst and reverses the bytes of every number in
// them: each part of a complex number and each field of a struct separately. Of a struct
// with fields of both byte orders, it reverses those that are big-endian. dst and src may
// be the same memory. Only the elements that both have room for are copied.
func (t Type) SwapBytes(dst, src []byte) {
	n := min(len(dst), len(src))
	dst, src = dst[:n], src[:n]
	if width := t.NumberWidth(); width > 1 {
		swapNumbers(dst, src, width)
		return
	}
	if len(src) > 0 && &dst[0] != &src[0] {
		copy(dst, src)
	}
	size, l := int(t.Size()), t.layoutOf()
	numbers := l.numbers
	if len(l.big) > 0 {
		numbers = l.big
	}
	for _, s := range numbers {
		run := int(s.width * s.count)
		for at := int(s.offset); at+run <= len(dst); at += size {
			swapNumbers(dst[at:at+run], dst[at:at+run], s.width)
		}
	}
}

func swapNumbers(dst, src []byte, width int64) {
	switch width {
	case 2:
		for i := 0; i+2 <= len(src); i += 2 {
			binary.BigEndian.PutUint16(dst[i:], binary.LittleEndian.Uint16(src[i:]))
		}
	case 4:
		for i := 0; i+4 <= len(src); i += 4 {
			binary.BigEndian.PutUint32(dst[i:], binary.LittleEndian.Uint32(src[i:]))
		}
	case 8:
		for i := 0; i+8 <= len(src); i += 8 {
			binary.LittleEndian.PutUint64(dst[i:], bits.ReverseBytes64(binary.LittleEndian.Uint64(src[i:])))
		}
	}
}

// NeedsNormalize reports whether Normalize can change elements of the type.
func (t Type) NeedsNormalize() bool {
	return (t.IsStruct() || t.isNarrow()) && len(t.layoutOf().narrow) > 0
}

// Normalize changes stored elements in place to those of an NDBuffer: bools other than 0
// become 1, numbers of less than 8 bits lose their upper bits, and signed ones extend
// their sign. It does nothing for other types.
func (t Type) Normalize(raw []byte) {
	if !t.IsStruct() && !t.isNarrow() {
		return
	}
	size := t.Size()
	for _, s := range t.layoutOf().narrow {
		if s.count == size {
			s.of.normalizeBytes(raw)
			continue
		}
		for at := s.offset; at+s.count <= int64(len(raw)); at += size {
			s.of.normalizeBytes(raw[at : at+s.count])
		}
	}
}

func (t Type) normalizeBytes(raw []byte) {
	if t.form == nil { // bool
		const notBools = 0xfefefefefefefefe
		for len(raw) >= 8 && binary.LittleEndian.Uint64(raw)&notBools == 0 {
			raw = raw[8:]
		}
	}
	for i, b := range raw {
		raw[i] = t.normalize(b)
	}
}

// normalize returns the byte that an NDBuffer holds for a stored byte of a narrow type.
func (t Type) normalize(b byte) byte {
	switch t.kind() {
	case 0:
		return min(b, 1)
	case formInt:
		shift := 8 - t.form.bits
		if t.dtype.Kind() == ndview.KindInt {
			return byte(int8(b<<shift) >> shift)
		}
		return b << shift >> shift
	default:
		shift := 8 - t.form.float.bits
		return b << shift >> shift
	}
}

// CheckElements returns an error unless elements of an NDBuffer fit the type: numbers of
// less than 8 bits must be in range. The error names the first element that does not.
func (t Type) CheckElements(raw []byte) error {
	if !t.IsStruct() && !t.isNarrow() {
		return nil
	}
	size := t.Size()
	for _, s := range t.layoutOf().narrow {
		if s.of.form == nil {
			continue // an NDBuffer has no other bools
		}
		for at := s.offset; at+s.count <= int64(len(raw)); at += size {
			for i, b := range raw[at : at+s.count] {
				if s.of.normalize(b) != b {
					return fmt.Errorf("element %d: byte 0x%02x at %d is out of range of %s", at/size, b, s.offset+int64(i), s.of)
				}
			}
		}
	}
	return nil
}
