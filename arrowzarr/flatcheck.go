package arrowzarr

import (
	"encoding/binary"
	"fmt"
	"math"
)

// arrow-go makes room for as many fields, children and metadata entries as a
// message says that there are. A message of a few bytes can say 4 billion, and
// memory that runs out ends the program; so the counts are checked first.
// (Arrow columnar format, "Encapsulated message format"; Schema.fbs, Message.fbs
// and File.fbs for the numbers of the fields.)

// maxDepth is how deep fields may be nested, as in arrow-go.
const maxDepth = 64

// checkMessage checks the metadata of an IPC message.
func checkMessage(metadata []byte) error {
	return checkFlat(metadata, func(w *flatWalker) {
		const headerIsSchema = 1
		message := w.follow(0)
		w.vector(message, 4, 4, nil) // custom metadata
		kind, header := w.field(message, 1), w.field(message, 2)
		if kind >= 0 && header >= 0 && w.bytes(kind, 1)[0] == headerIsSchema {
			w.schema(w.follow(header))
		}
	})
}

// checkFooter checks the footer of an IPC file, and calls visit with the place
// of each message in it. It tells whether the file has the other byte order.
func checkFooter(footer []byte, visit func(offset, length int64) error) (swapped bool, err error) {
	var failure error
	err = checkFlat(footer, func(w *flatWalker) {
		root := w.follow(0)
		if at := w.field(root, 1); at >= 0 {
			schema := w.follow(at)
			w.schema(schema)
			const bigEndian = 1
			order := w.field(schema, 0)
			swapped = order >= 0 && w.bytes(order, 2)[0] == bigEndian
		}
		for _, blocks := range []int{2, 3} {
			w.vector(root, blocks, 24, func(block int) {
				offset := binary.LittleEndian.Uint64(w.bytes(block, 8))
				if failure == nil {
					failure = visit(int64(offset), int64(int32(w.uint32(block+8))))
				}
			})
		}
		w.vector(root, 4, 4, nil) // custom metadata
	})
	if err != nil {
		return swapped, err
	}
	return swapped, failure
}

// checkFlat walks over a flatbuffer.
func checkFlat(raw []byte, walk func(*flatWalker)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			bad, ok := p.(flatError)
			if !ok {
				panic(p)
			}
			err = bad
		}
	}()
	walk(&flatWalker{raw: raw, left: len(raw) / 4})
	return nil
}

// flatError ends a walk.
type flatError string

func (e flatError) Error() string { return "Arrow metadata: " + string(e) }

// flatWalker reads tables and vectors of a flatbuffer. What lies outside of it
// ends the walk.
type flatWalker struct {
	raw  []byte
	left int // elements of vectors: no more than there is room for
}

func (w *flatWalker) bytes(at, n int) []byte {
	if at < 0 || at > len(w.raw)-n {
		panic(flatError(fmt.Sprintf("an offset of %d in %d bytes", at, len(w.raw))))
	}
	return w.raw[at : at+n]
}

func (w *flatWalker) uint32(at int) uint32 { return binary.LittleEndian.Uint32(w.bytes(at, 4)) }

// follow reads a reference.
func (w *flatWalker) follow(at int) int { return at + int(w.uint32(at)) }

// field is where the table at a place has its n-th field, or -1.
func (w *flatWalker) field(table, n int) int {
	layout := table - int(int32(w.uint32(table)))
	size := int(binary.LittleEndian.Uint16(w.bytes(layout, 2)))
	if 4+2*n >= size {
		return -1
	}
	offset := binary.LittleEndian.Uint16(w.bytes(layout+4+2*n, 2))
	if offset == 0 {
		return -1
	}
	return table + int(offset)
}

// vector visits the elements of a vector, the n-th field of a table.
func (w *flatWalker) vector(table, n, size int, visit func(element int)) {
	at := w.field(table, n)
	if at < 0 {
		return
	}
	start := w.follow(at)
	count := int(w.uint32(start))
	if w.left -= count; w.left < 0 || count > math.MaxInt32 {
		panic(flatError(fmt.Sprintf("a list of %d elements in %d bytes", count, len(w.raw))))
	}
	w.bytes(start+4, count*size)
	if visit != nil {
		for i := range count {
			visit(start + 4 + i*size)
		}
	}
}

func (w *flatWalker) schema(at int) {
	w.vector(at, 1, 4, func(field int) { w.arrowField(w.follow(field), 0) })
	w.vector(at, 2, 4, nil) // custom metadata
}

func (w *flatWalker) arrowField(at, depth int) {
	if depth > maxDepth {
		panic(flatError(fmt.Sprintf("fields nested deeper than %d", maxDepth)))
	}
	w.vector(at, 5, 4, func(child int) { w.arrowField(w.follow(child), depth+1) })
	w.vector(at, 6, 4, nil) // custom metadata
}
