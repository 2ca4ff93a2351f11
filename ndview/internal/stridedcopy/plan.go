package stridedcopy

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Plan is a launch that copies a nest.
type Plan struct {
	Kernel  Kernel
	Blocks  int64
	Threads int64  // of a block
	Shared  int64  // bytes of shared memory that a block asks for
	Struct  []byte // the kernel's last argument, after where the destination and the source begin
}

// New plans the copy of a nest of a destination and a source, which begin at addresses,
// in units of width bytes, by the kernel that is the fastest. A block may have so much
// shared memory.
func New(width int64, dst, src uint64, n layout.Nest, memory int64) Plan {
	if w, kernel, ok := NewWeave(width, n); ok {
		return w.Plan(kernel)
	}
	t, kernel, tiled := NewTiles(width, dst, src, n, memory)
	var r *Rows
	if !tiled {
		r, kernel = NewRows(width, n)
	}
	room := BrickRoom(width*layout.Product(n.Shape), memory)
	if b, ok := NewBricks(width, dst, src, n, room, kernel, t); ok {
		return b.Plan()
	}
	if tiled {
		return t.Plan(kernel)
	}
	return r.Plan(kernel, width)
}

// structOf is a struct as a kernel takes it.
func structOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
