package moves

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// UnitsPerThread is how many units a thread of a kernel over Rows moves.
const UnitsPerThread = 4

// Rows moves units one by one, in the order in which they lie in the destination.
// The innermost axis is a row.
type Rows struct {
	Items, Length    int32 // units in all, and of a row
	DstStep, SrcStep int64 // along a row
	Magic, Shift     uint32
	Count            int32 // of Axes, the fastest first, over which rows are counted
	_                int32
	Axes             [MaxAxes]Axis
}

// NewRows plans a nest of a destination and a source.
func NewRows(n layout.Nest) *Rows {
	r := &Rows{Items: int32(layout.Product(n.Shape)), Length: 1}
	last := len(n.Shape) - 1
	if last < 0 {
		return r
	}
	r.Length, r.DstStep, r.SrcStep = int32(n.Shape[last]), n.Strides[0][last], n.Strides[1][last]
	r.Magic, r.Shift = magic(n.Shape[last])
	for k := last - 1; k >= 0; k-- {
		r.Axes[r.Count] = newAxis(n, k)
		r.Count++
	}
	return r
}

// nest is the nest of some axes.
func nest(axes []Axis) layout.Nest {
	n := layout.Nest{Strides: make([][]int64, 2), Offsets: make([]int64, 2)}
	for k := len(axes) - 1; k >= 0; k-- {
		n.Shape = append(n.Shape, axes[k].Extent)
		n.Strides[0] = append(n.Strides[0], axes[k].Dst)
		n.Strides[1] = append(n.Strides[1], axes[k].Src)
	}
	return n
}

// Nest is what is moved, for a twin.
func (r *Rows) Nest() layout.Nest {
	row := Axis{Extent: int64(r.Length), Dst: r.DstStep, Src: r.SrcStep}
	return nest(append([]Axis{row}, r.Axes[:r.Count]...))
}

// Nest is what is moved, for a twin.
func (t *Tiles) Nest() layout.Nest { return nest(t.Axes[:t.AxesA+t.AxesB+t.Batch]) }
