package stridedcopy

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// Interleave copies units of 1 or 2 bytes between planes and rows: for example between
// the colour planes of an image and its pixels. Units are contiguous in a plane. A row
// is contiguous too, and has one unit per plane.
type Interleave struct {
	Begin, End    int64 // of the source, in bytes from its first unit
	Plane         int64 // bytes from plane to plane
	Whole, Extent int32 // units per plane, and per block
	Chunks        int32 // blocks per plane
	Pitch, Rows   int32 // bytes in shared memory per plane, and of the rows
	Count         int32
	Axes          [MaxAxes]Axis // of groups of planes
	Planes, Width int32
	Planar        int32 // 1 if the planes are in the destination
	Items         int32 // groups of planes
}

const (
	maxPlanes      = 8        // the most planes of a kernel
	minPlane       = 1 << 10  // bytes
	maxInterleaved = 22 << 10 // bytes per block
	imageMargin    = 48       // bytes before and after a run in the words at its ends, and in the last group of words
)

// NewInterleave plans a nest in units of width bytes, and returns the kernel. It
// returns false if the nest is not such planes.
func NewInterleave(width int64, n layout.Nest) (w *Interleave, kernel Kernel, ok bool) {
	if width > 2 || len(n.Shape) < 2 {
		return nil, "", false
	}
	for rows, strides := range n.Strides {
		order := byStride(strides)
		across, along := order[0], order[1]
		planes, plane := n.Shape[across], n.Strides[1-rows]
		isRows := strides[across] == width && strides[along] == planes*width && plane[along] == width
		// Box tiles separate rows of a multiple of 8 bytes faster: here such rows would
		// be read from few banks of shared memory.
		fewItems := rows == 1 && planes*width%8 == 0
		if !isRows || fewItems || planes > maxPlanes || n.Shape[along]*width < minPlane {
			continue
		}
		w = &Interleave{
			Plane: plane[across], Whole: int32(n.Shape[along]), Planes: int32(planes), Width: int32(width), Planar: int32(rows),
			Items: int32(layout.Product(n.Shape) / planes / n.Shape[along]),
		}
		w.Extent = int32(min(min((4+planes)<<11, maxInterleaved)/planes/width&^31, n.Shape[along]))
		w.Chunks = (w.Whole-1)/w.Extent + 1
		w.Pitch, w.Rows = int32(roundUp(int64(w.Extent)*width+imageMargin, loadedWord)), int32(roundUp(int64(w.Extent)*planes*width+imageMargin, loadedWord))
		var batch []int
		for _, k := range byStride(n.Strides[0]) {
			if k != across && k != along {
				batch = append(batch, k)
			}
		}
		w.Count = int32(copy(w.Axes[:], axes(n, batch)))
		w.Begin, w.End, _ = layout.ByteBounds(width, 0, n.Shape, n.Strides[1])
		if rows == 1 {
			return w, deinterleaveKernel(planes), true
		}
		return w, interleaveKernel(planes), true
	}
	return nil, "", false
}

// Blocks returns the number of blocks.
func (w *Interleave) Blocks() int64 { return int64(w.Chunks) * int64(w.Items) }

// Plan returns the launch of a kernel.
func (w *Interleave) Plan(kernel Kernel) Plan {
	return Plan{kernel, w.Blocks(), 256, int64(w.Planes)*int64(w.Pitch) + int64(w.Rows), structBytes(w)}
}

// RowAlign returns the alignment of rows in the destination and in the source, which
// the host implementation checks.
func (w *Interleave) RowAlign(_ Kernel, width int64) [2]int64 { return [2]int64{width, width} }

// Nest returns the copied nest, for the host implementation.
func (w *Interleave) Nest() layout.Nest {
	n, width := newNest(), int64(w.Width)
	n.Shape = []int64{int64(w.Whole), int64(w.Planes)}
	rows, planes := []int64{int64(w.Planes) * width, width}, []int64{width, w.Plane}
	n.Strides[w.Planar], n.Strides[1-w.Planar] = rows, planes
	return wrapAxes(n, w.Axes[:w.Count], int64(w.Items))
}
