package stridedcopy

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// Rows copies units in the order of the destination. The innermost axis is a row.
// Threads copy Items, each a unit or a word of units.
type Rows struct {
	Items, Length    int32 // items in all, and per row
	DstStep, SrcStep int64 // bytes from unit to unit of a row
	ByLength         Divide
	Count            int32         // number of Axes
	Units            int32         // units per row
	Axes             [MaxAxes]Axis // of rows
}

// NewRows plans a nest in units of width bytes, and returns the kernel.
func NewRows(width int64, n layout.Nest) (r *Rows, kernel Kernel) {
	r = &Rows{Length: 1, Units: 1}
	last := len(n.Shape) - 1
	kernel = kernelRows
	if last >= 0 {
		r.Length, r.DstStep, r.SrcStep = int32(n.Shape[last]), n.Strides[0][last], n.Strides[1][last]
		r.Units = r.Length
		r.Count = int32(copy(r.Axes[:], axes(n, reversed(last))))
		bytes := n.Shape[last] * width
		ends := func(word int64) int32 { return int32((bytes + 2*(word-1)) / word) } // the words at both ends may be partial
		switch {
		case r.DstStep != width || bytes >= MaxItems/2:
		case width == wordSize && abs(r.SrcStep) == width && bytes >= 4*spanSize && countFollowing(n, bytes, reversed(last)) == last:
			kernel = kernelJoinedRows
		case width <= wordSize && abs(r.SrcStep) == width && bytes >= 4*spanSize:
			kernel, r.Length = kernelVectorRows, ends(spanSize)
		case width < wordSize && bytes >= 2*wordSize:
			kernel, r.Length = kernelWordRows, ends(wordSize)
		}
		if n.Shape[last] >= longRow && (width == 16 || width == 8 && r.DstStep == 2*width) {
			kernel = kernelUnitRows
		}
	}
	r.ByLength = divide(int64(r.Length))
	r.Items = r.Length
	for _, extent := range n.Shape[:max(last, 0)] {
		r.Items *= int32(extent)
	}
	return r, kernel
}

const (
	wordSize = 4
	spanSize = 16
	longRow  = 256 // units
)

// Plan returns the launch of a kernel. The items per block are those of
// kernels/copy/rows.cu.
func (r *Rows) Plan(kernel Kernel, width int64) Plan {
	items, threads := int64(1024), int64(256)
	switch {
	case kernel == kernelJoinedRows:
		return Plan{kernel, int64(r.Items)/2048 + 1, threads, 0, structBytes(r)} // the first block may begin a unit earlier
	case kernel == kernelUnitRows:
		items = threads
	case kernel == kernelRows && width < 16:
		threads = 128
	}
	return Plan{kernel, (int64(r.Items)-1)/items + 1, threads, 0, structBytes(r)}
}

// RowAlign returns the alignment of rows in the destination and in the source, which
// the host implementation checks.
func (r *Rows) RowAlign(_ Kernel, width int64) [2]int64 { return [2]int64{width, width} }

// Nest returns the copied nest, for the host implementation.
func (r *Rows) Nest() layout.Nest {
	n := newNest()
	n.Shape = []int64{int64(r.Units)}
	n.Strides[0], n.Strides[1] = []int64{r.DstStep}, []int64{r.SrcStep}
	return wrapAxes(n, r.Axes[:r.Count], int64(r.Items/r.Length))
}

// reversed returns axes n-1, n-2, ..., 0.
func reversed(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}
