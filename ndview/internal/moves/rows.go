package moves

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// Rows moves units in the order in which they lie in the destination. The
// innermost axis is a row. Threads move Items, each a unit, or a word of units.
type Rows struct {
	Items, Length    int32 // in all, and of a row
	DstStep, SrcStep int64 // from unit to unit of a row
	ByLength         Divide
	Count            int32         // of Axes
	Units            int32         // of a row
	Axes             [MaxAxes]Axis // over which rows are counted
}

// NewRows plans a nest of a destination and a source in units of width bytes, and
// names the kernel.
func NewRows(width int64, n layout.Nest) (r *Rows, kernel string) {
	r = &Rows{Length: 1, Units: 1}
	last := len(n.Shape) - 1
	kernel = "rows"
	if last >= 0 {
		r.Length, r.DstStep, r.SrcStep = int32(n.Shape[last]), n.Strides[0][last], n.Strides[1][last]
		r.Units = r.Length
		r.Count = int32(copy(r.Axes[:], axes(n, backwards(last))))
		bytes := n.Shape[last] * width
		ends := func(word int64) int32 { return int32((bytes + 2*(word-1)) / word) } // a word at each end may be a part
		switch {
		case r.DstStep != width || bytes >= MaxItems/2:
		case width == wordSize && abs(r.SrcStep) == width && bytes >= 4*spanSize && following(n, bytes, backwards(last)) == last:
			kernel = "chains"
		case width <= wordSize && abs(r.SrcStep) == width && bytes >= 4*spanSize:
			kernel, r.Length = "spans", ends(spanSize)
		case width < wordSize && bytes >= 2*wordSize:
			kernel, r.Length = "picks", ends(wordSize)
		}
		if n.Shape[last] >= longRow && (width == 16 || width == 8 && r.DstStep == 2*width) {
			kernel = "units"
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

// Grid is how many blocks there are for a kernel, and how many threads a block has.
func (r *Rows) Grid(kernel string, width int64) (blocks, threads int64) {
	switch {
	case kernel == "chains":
		return int64(r.Items)/2048 + 1, 256
	case kernel == "units":
		return (int64(r.Items)-1)/256 + 1, 256
	case kernel == "rows" && width < 16:
		threads = 128
	default:
		threads = 256
	}
	return (int64(r.Items)-1)/1024 + 1, threads
}

// Nest is what is moved, for a twin.
func (r *Rows) Nest() layout.Nest {
	n := newNest()
	n.Shape = []int64{int64(r.Units)}
	n.Strides[0], n.Strides[1] = []int64{r.DstStep}, []int64{r.SrcStep}
	return grow(n, r.Axes[:r.Count], int64(r.Items/r.Length))
}

// backwards are axes n-1, n-2, ..., 0.
func backwards(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}
