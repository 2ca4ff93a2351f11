package cdevice

import (
	"runtime"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// arrayNode is an ArrowArray that C has, and what it points to. Each node keeps
// its own memory, since a consumer may move a child away from its parent and
// release the parent.
type arrayNode struct {
	array      Array // where the parent points to; the first is copied
	buffers    []uintptr
	children   []*arrayNode
	pointers   []uintptr // to the children
	dictionary *arrayNode
	held       arrow.ArrayData // nil for a record batch, whose columns are held
	sizes      *memory.Buffer  // of the buffers of views
	event      uintptr         // where the struct's sync_event points to
	done       func()          // with the event
	pinned     runtime.Pinner
}

// give hands the node and all below it to C.
func (n *arrayNode) give() {
	n.pinned.Pin(n)
	if n.held != nil {
		for _, b := range n.held.Buffers() {
			// Memory of Go; any other stays where it is.
			if b != nil && b.Len() > 0 {
				n.pinned.Pin(unsafe.SliceData(b.Buf()))
			}
		}
	}
	if n.sizes != nil {
		n.pinned.Pin(unsafe.SliceData(n.sizes.Buf()))
	}
	a := &n.array
	a.nBuffers, a.buffers = int64(len(n.buffers)), keep(&n.pinned, n.buffers)
	for _, child := range n.children {
		child.give()
		n.pointers = append(n.pointers, addressOf(&child.array))
	}
	a.nChildren, a.children = int64(len(n.pointers)), keep(&n.pinned, n.pointers)
	if n.dictionary != nil {
		n.dictionary.give()
		a.dictionary = addressOf(&n.dictionary.array)
	}
	a.release, a.private = functions().releaseArray, give(n)
}

// release lets go of the memory that the node alone keeps.
func (n *arrayNode) release() {
	if n.held != nil {
		n.held.Release()
	}
	if n.sizes != nil {
		n.sizes.Release()
	}
	if n.done != nil {
		n.done()
	}
}

// endArray is the release of every ArrowArray.
func endArray(a *Array) {
	n, ok := takeBack[*arrayNode](a.private)
	if !ok {
		return
	}
	for _, child := range n.children {
		if child.array.release != 0 { // it was not moved away
			endArray(&child.array)
		}
	}
	if n.dictionary != nil && n.dictionary.array.release != 0 {
		endArray(&n.dictionary.array)
	}
	n.pinned.Unpin()
	n.release()
	a.release = 0
}
