package arrowipc

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
)

// Metadata are flatbuffers, which come from strangers: a message of a few bytes
// can say that it has 4 billion fields, or that one of them lies a gigabyte
// away. Here no more is read than is there, and no more counted than fits.
// (https://flatbuffers.dev/internals; Schema.fbs, Message.fbs and File.fbs of
// Arrow for the numbers of the fields.)

// readFlat reads a flatbuffer. What it must not hold is an error that is
// arrow.ErrInvalid.
func readFlat(raw []byte, read func(*flat)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			bad, ok := p.(flatError)
			if !ok {
				panic(p)
			}
			err = bad
		}
	}()
	read(&flat{raw: raw, left: len(raw) / 4, letters: 16 * len(raw)})
	return nil
}

// flatError ends the reading of a flatbuffer, by a panic that readFlat catches.
type flatError string

func (e flatError) Error() string { return "Arrow metadata: " + string(e) }
func (e flatError) Unwrap() error { return arrow.ErrInvalid }

// flat is a flatbuffer. A table is known by its place in it.
type flat struct {
	raw     []byte
	left    int // elements of vectors: no more than there is room for
	letters int // bytes of strings, with room for such as many point to
}

func (f *flat) bytes(at, n int) []byte {
	if at < 0 || n < 0 || at > len(f.raw)-n {
		panic(flatError(fmt.Sprintf("%d bytes at %d of %d", n, at, len(f.raw))))
	}
	return f.raw[at : at+n]
}

func (f *flat) uint32(at int) uint32 { return binary.LittleEndian.Uint32(f.bytes(at, 4)) }
func (f *flat) int64(at int) int64   { return int64(binary.LittleEndian.Uint64(f.bytes(at, 8))) }

// follow reads a reference.
func (f *flat) follow(at int) int { return at + int(f.uint32(at)) }

// layoutOf is where the vtable of a table lies.
func (f *flat) layoutOf(table int) int { return table - int(int32(f.uint32(table))) }

// field is where a table has its n-th field, or -1.
func (f *flat) field(table, n int) int {
	layout := f.layoutOf(table)
	size := int(binary.LittleEndian.Uint16(f.bytes(layout, 2)))
	if 4+2*n >= size {
		return -1
	}
	offset := binary.LittleEndian.Uint16(f.bytes(layout+4+2*n, 2))
	if offset == 0 {
		return -1
	}
	return table + int(offset)
}

// table is the table that is the n-th field of another.
func (f *flat) table(table, n int) (at int, ok bool) {
	at = f.field(table, n)
	if at < 0 {
		return 0, false
	}
	at = f.follow(at)
	f.bytes(at, 4) // which is where its layout is
	return at, true
}

// integer is the n-th field of a table, of size bytes and signed; 0 if absent.
func (f *flat) integer(table, n, size int) int64 {
	at := f.field(table, n)
	if at < 0 {
		return 0
	}
	var wide [8]byte
	copy(wide[8-size:], f.bytes(at, size))
	return int64(binary.LittleEndian.Uint64(wide[:])) >> (64 - 8*size)
}

// vector visits the elements of a vector, the n-th field of a table, size bytes
// each.
func (f *flat) vector(table, n, size int, visit func(element int)) {
	at := f.field(table, n)
	if at < 0 {
		return
	}
	start := f.follow(at)
	count := int(f.uint32(start))
	if f.left -= count; f.left < 0 || count > math.MaxInt32 {
		panic(flatError(fmt.Sprintf("a list of %d elements in %d bytes", count, len(f.raw))))
	}
	f.bytes(start+4, count*size)
	for i := range count {
		visit(start + 4 + i*size)
	}
}

// text is the string that is the n-th field of a table.
func (f *flat) text(table, n int) string {
	at := f.field(table, n)
	if at < 0 {
		return ""
	}
	start := f.follow(at)
	raw := f.bytes(start+4, int(f.uint32(start)))
	if f.letters -= len(raw); f.letters < 0 {
		panic(flatError(fmt.Sprintf("more text than %d bytes can hold", len(f.raw))))
	}
	return string(raw)
}

// pairs are custom metadata, the n-th field of a table.
func (f *flat) pairs(table, n int) arrow.Metadata {
	var keys, values []string
	f.vector(table, n, 4, func(element int) {
		pair := f.follow(element)
		keys, values = append(keys, f.text(pair, 0)), append(values, f.text(pair, 1))
	})
	return arrow.NewMetadata(keys, values)
}
