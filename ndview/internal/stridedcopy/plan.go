package stridedcopy

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Plan is the launch of a kernel that copies a nest.
type Plan struct {
	Kernel  Kernel
	Blocks  int64
	Threads int64  // per block
	Shared  int64  // bytes of dynamic shared memory per block
	Struct  []byte // the last argument, after the destination and source pointers
}

// New plans the copy of a nest with the fastest kernel. dst and src are the addresses,
// units have width bytes, and memory is the shared memory that a block may have.
func New(width int64, dst, src uint64, n layout.Nest, memory int64) Plan {
	if w, kernel, ok := NewInterleave(width, n); ok {
		return w.Plan(kernel)
	}
	t, kernel, tiled := NewTiles(width, dst, src, n, memory)
	var r *Rows
	if !tiled {
		r, kernel = NewRows(width, n)
	}
	limit := BoxTileMemory(width*layout.Product(n.Shape), memory)
	if b, ok := NewBoxTiles(width, dst, src, n, limit, kernel, t); ok {
		return b.Plan()
	}
	if tiled {
		return t.Plan(kernel)
	}
	return r.Plan(kernel, width)
}

// structBytes returns a struct as a kernel argument.
func structBytes[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// MaxAxes and MaxItems are the most axes and units of a plan. Larger nests must be
// split.
const (
	MaxAxes  = 16
	MaxItems = math.MaxInt32
)

// Axis adds a step of bytes every Every items; Divide divides by Every. The first axis
// has Every = 1. The offset of an item is the sum over the axes. The structs of this
// package have C's layout.
type Axis struct {
	Every, Dst, Src int64
	Divide
}

// axes returns axes that count items along the axes order of a nest, the fastest first.
func axes(n layout.Nest, order []int) []Axis {
	out := make([]Axis, 0, len(order))
	every := int64(1)
	for i, k := range order {
		a := Axis{Every: every, Dst: n.Strides[0][k], Src: n.Strides[1][k]}
		if i > 0 { // the previous axis wraps around then
			before := order[i-1]
			a.Dst -= n.Shape[before] * n.Strides[0][before]
			a.Src -= n.Shape[before] * n.Strides[1][before]
		}
		a.Divide = divide(every)
		out = append(out, a)
		every *= n.Shape[k]
	}
	return out
}

// Divide divides an item below 2^31: the quotient is item*Magic>>32>>Shift, or the item
// if Magic is 0.
type Divide struct{ Magic, Shift uint32 }

func divide(by int64) Divide {
	if by < 2 {
		return Divide{}
	}
	shift := uint32(bits.Len32(uint32(by - 1)))
	return Divide{uint32((uint64(1)<<(31+shift) + uint64(by) - 1) / uint64(by)), shift - 1}
}

// wrapAxes adds the axes that count items as outer axes of a nest.
func wrapAxes(n layout.Nest, axes []Axis, items int64) layout.Nest {
	var dst, src, extent int64
	for i, a := range axes {
		dst, src = extent*dst+a.Dst, extent*src+a.Src
		extent = items / a.Every
		if i+1 < len(axes) {
			extent = axes[i+1].Every / a.Every
		}
		n.Shape = append([]int64{extent}, n.Shape...)
		n.Strides[0] = append([]int64{dst}, n.Strides[0]...)
		n.Strides[1] = append([]int64{src}, n.Strides[1]...)
	}
	return n
}

func newNest() layout.Nest {
	return layout.Nest{Strides: make([][]int64, 2), Offsets: make([]int64, 2)}
}

// Kernel is the name of a copy kernel, without the width of its units.
type Kernel string

const (
	kernelTiles           Kernel = "tiles"
	kernelSectorTiles     Kernel = "sector_tiles"
	kernelNarrowTiles     Kernel = "narrow_tiles"
	kernelMatrixTiles     Kernel = "matrix_tiles"
	kernelWordTiles       Kernel = "word_tiles"
	kernelRunTiles        Kernel = "run_tiles"
	kernelShortRunTiles   Kernel = "short_run_tiles"
	kernelMatrixWordTiles Kernel = "matrix_word_tiles"
	kernelMatrixByteTiles Kernel = "matrix_byte_tiles"
	kernelBoxTiles        Kernel = "box_tiles"
	kernelRows            Kernel = "rows"
	kernelUnitRows        Kernel = "unit_rows"
	kernelVectorRows      Kernel = "vector_rows"
	kernelWordRows        Kernel = "word_rows"
	kernelJoinedRows      Kernel = "joined_rows"
)

// interleaveKernel and deinterleaveKernel return the kernels for a number of planes.
func interleaveKernel(planes int64) Kernel   { return Kernel(fmt.Sprintf("interleave%d", planes)) }
func deinterleaveKernel(planes int64) Kernel { return Kernel(fmt.Sprintf("deinterleave%d", planes)) }

// Images has the kernels of each image, by the name of the image.
var Images = map[string][]Kernel{
	"copy/interleave":        interleaveKernels(),
	"copy/tiles":             {kernelTiles, kernelSectorTiles},
	"copy/narrow_tiles":      {kernelNarrowTiles},
	"copy/matrix_tiles":      {kernelMatrixTiles},
	"copy/word_tiles":        {kernelWordTiles},
	"copy/run_tiles":         {kernelRunTiles, kernelShortRunTiles, kernelMatrixWordTiles},
	"copy/matrix_byte_tiles": {kernelMatrixByteTiles},
	"copy/box_tiles":         {kernelBoxTiles},
	"copy/rows":              {kernelRows, kernelUnitRows, kernelVectorRows, kernelWordRows, kernelJoinedRows},
}

func interleaveKernels() (kernels []Kernel) {
	for planes := int64(2); planes <= maxPlanes; planes++ {
		kernels = append(kernels, interleaveKernel(planes))
		if planes%8 != 0 { // see NewInterleave
			kernels = append(kernels, deinterleaveKernel(planes))
		}
	}
	return kernels
}

// Function returns the entry point for units of width bytes.
func (k Kernel) Function(width int64) string { return fmt.Sprintf("quiver_%s_%d", k, width) }

// Image returns the name of the image that contains the kernel.
func (k Kernel) Image() string { return imageOf[k] }

var imageOf = func() map[Kernel]string {
	images := map[Kernel]string{}
	for image, kernels := range Images {
		for _, k := range kernels {
			images[k] = image
		}
	}
	return images
}()
