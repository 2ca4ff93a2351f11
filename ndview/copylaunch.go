package ndview

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/moves"
)

// copyLayout moves elements from one layout to another of the same shape, with
// elements of the same size. The caller holds both; they are on one device, or
// both on the host, and do not overlap unless each is one run of bytes.
func copyLayout(dst, src *NDBuffer) error {
	if dst.Size() == 0 {
		return nil
	}
	align := dst.address() | src.address()
	width, n := layout.Units(dst.dtype.Size(), align, dst.shape, dst.strides, src.strides)
	to, from := dst.offset+n.Offsets[0], src.offset+n.Offsets[1]
	n.Offsets = []int64{0, 0}
	if isRun(width, n) {
		return copyRun(dst.buf, to, src.buf, from, width*layout.Product(n.Shape))
	}
	if d, ok := hostAt(dst.buf, to); ok {
		s, _ := hostAt(src.buf, from)
		cpu.Copy(d, s, width, n)
		return nil
	}
	return n.Cut(moves.MaxItems, moves.MaxAxes, func(part layout.Nest) error {
		return launchCopy(dst.buf, to+part.Offsets[0], src.buf, from+part.Offsets[1], width, part)
	})
}

// isRun tells whether the units are one run in both operands.
func isRun(width int64, n layout.Nest) bool {
	switch len(n.Shape) {
	case 0:
		return true
	case 1:
		return n.Strides[0][0] == width && n.Strides[1][0] == width
	}
	return false
}

// copyRun copies bytes, which may overlap.
func copyRun(dst arrowbuf.Buffer, to int64, src arrowbuf.Buffer, from, n int64) error {
	if d, ok := arrowbuf.HostBytes(dst); ok {
		s, _ := arrowbuf.HostBytes(src)
		cpu.CopyBytes(d[to:to+n], s[from:from+n])
		return nil
	}
	part, err := src.Slice(from, n)
	if err != nil {
		return err
	}
	defer part.Release()
	cuda, ok := dst.Device().(*cudabuf.Device)
	if !ok {
		_, err := dst.CopyFromDevice(part, to)
		return err
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return err
	}
	_, err = dst.(*cudabuf.Buffer).CopyFromDeviceAsync(part, to, stream)
	return err
}

// launchCopy queues the kernel for one part of a copy.
func launchCopy(dst arrowbuf.Buffer, to int64, src arrowbuf.Buffer, from, width int64, n layout.Nest) error {
	dev, d, s := dst.Device(), inOut(dst, to), in(src, from)
	name := func(kernel string) string { return fmt.Sprintf("quiver_%s_%d", kernel, width) }
	if w, kernel, ok := moves.NewWeave(width, n); ok {
		return launchShared(dev, copyPrograms["weave"], name(kernel), cudabuf.Dim3{X: uint32(w.Blocks())}, cudabuf.Dim3{X: threads}, uint32(w.Shared()), d, s, structOf(w))
	}
	var r *moves.Rows
	atD, atS := uint64(dst.Address())+uint64(to), uint64(src.Address())+uint64(from)
	t, kernel, ok := moves.NewTiles(width, atD, atS, n, sharedMemory(dev))
	if !ok {
		r, kernel = moves.NewRows(width, n)
	}
	room := moves.BrickRoom(width*layout.Product(n.Shape), sharedMemory(dev))
	if b, ok := moves.NewBricks(width, atD, atS, n, room, kernel, t); ok {
		return launchShared(dev, copyPrograms["bricks"], name("bricks"), cudabuf.Dim3{X: uint32(b.Blocks())}, cudabuf.Dim3{X: uint32(b.Threads())}, uint32(b.Shared), d, s, structOf(b))
	}
	if t != nil {
		return launchShared(dev, copyPrograms[kernel], name(kernel), cudabuf.Dim3{X: uint32(t.Blocks())}, cudabuf.Dim3{X: uint32(t.Threads(kernel))}, uint32(t.Shared), d, s, structOf(t))
	}
	blocks, block := r.Grid(kernel, width)
	return launch(dev, copyPrograms[kernel], name(kernel), cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: uint32(block)}, d, s, structOf(r))
}

// copyPrograms are by the kind of kernel.
var copyPrograms = func() map[string]*cudabuf.Program {
	rows := program("rows", copyTwins[moves.Rows]("rows", "units", "spans", "picks", "chains"))
	tiles := program("tiles", copyTwins[moves.Tiles]("tiles", "sectors"))
	runs := program("runs", copyTwins[moves.Tiles]("runs", "shortruns", "lines"))
	return map[string]*cudabuf.Program{
		"tiles": tiles, "sectors": tiles,
		"bricks":   program("bricks", copyTwins[moves.Bricks]("bricks")),
		"weave":    program("weave", copyTwins[moves.Weave](moves.Weaves()...)),
		"slim":     program("slim", copyTwins[moves.Tiles]("slim")),
		"matrices": program("matrices", copyTwins[moves.Tiles]("matrices")),
		"words":    program("words", copyTwins[moves.Tiles]("words")),
		"oddlines": program("odd", copyTwins[moves.Tiles]("oddlines")),
		"runs":     runs, "shortruns": runs, "lines": runs,
		"rows": rows, "units": rows, "spans": rows, "picks": rows, "chains": rows,
	}
}()

// copyTwins are the twins of kernels that copy by a plan, one for each width.
func copyTwins[T any, P interface {
	*T
	Nest() layout.Nest
}](kernels ...string) map[string]cudabuf.Twin {
	twins := map[string]cudabuf.Twin{}
	for _, kernel := range kernels {
		for _, width := range []int64{1, 2, 4, 8, 16} {
			twins[fmt.Sprintf("quiver_%s_%d", kernel, width)] = func(l *cudabuf.TwinLaunch) {
				plan := parameters[T](l, 2)
				n := P(&plan).Nest()
				for operand, steps := range n.Strides {
					mustAlign(l, operand, width, steps...)
					switch b, ok := any(&plan).(*moves.Bricks); {
					case kernel == "words":
						mustAlign(l, operand, 8)
					case ok && b.Square > 0 && operand == 0:
						mustAlign(l, operand, int64(b.Square))
					case ok && b.Square > 0: // a line, see squares of internal/moves
						mustAlign(l, operand, min(int64(b.Square), 4*width))
					}
				}
				cpu.Copy(touched(l, 0, width, n), touched(l, 1, width, n), width, n)
			}
		}
	}
	return twins
}

// touched is where a nest's operand begins, which is that argument of a launch.
func touched(l *cudabuf.TwinLaunch, operand int, width int64, n layout.Nest) unsafe.Pointer {
	low, high, _ := layout.Extent(width, 0, n.Shape, n.Strides[operand])
	return reached(l, operand, low, high)
}
