package ndview

import (
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
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
	return n.Cut(stridedcopy.MaxItems, stridedcopy.MaxAxes, func(part layout.Nest) error {
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
	dev := dst.Device()
	p := stridedcopy.New(width, uint64(dst.Address())+uint64(to), uint64(src.Address())+uint64(from), n, launch.SharedMemory(dev))
	grid, block := cudabuf.Dim3{X: uint32(p.Blocks)}, cudabuf.Dim3{X: uint32(p.Threads)}
	return launch.QueueShared(dev, copyPrograms[p.Kernel.Image()], p.Kernel.Function(width), grid, block, uint32(p.Shared), launch.InOut(dst, to), launch.In(src, from), p.Struct)
}

// copyPrograms are by the name of the image.
var copyPrograms = map[string]*cudabuf.Program{
	"copy/interleave":        copyProgram[stridedcopy.Weave]("copy/interleave"),
	"copy/tiles":             copyProgram[stridedcopy.Tiles]("copy/tiles"),
	"copy/narrow_tiles":      copyProgram[stridedcopy.Tiles]("copy/narrow_tiles"),
	"copy/matrix_tiles":      copyProgram[stridedcopy.Tiles]("copy/matrix_tiles"),
	"copy/word_tiles":        copyProgram[stridedcopy.Tiles]("copy/word_tiles"),
	"copy/run_tiles":         copyProgram[stridedcopy.Tiles]("copy/run_tiles"),
	"copy/matrix_byte_tiles": copyProgram[stridedcopy.Tiles]("copy/matrix_byte_tiles"),
	"copy/box_tiles":         copyProgram[stridedcopy.Bricks]("copy/box_tiles"),
	"copy/rows":              copyProgram[stridedcopy.Rows]("copy/rows"),
}

// copyProgram is an image whose kernels take a plan of type T. Their twins copy what
// is planned, and end where a GPU would: where words are not aligned.
func copyProgram[T any, P interface {
	*T
	Nest() layout.Nest
	RowAlign(kernel stridedcopy.Kernel, width int64) [2]int64
}](image string) *cudabuf.Program {
	twins := map[string]cudabuf.HostKernel{}
	for _, kernel := range stridedcopy.Images[image] {
		for _, width := range []int64{1, 2, 4, 8, 16} {
			twins[kernel.Function(width)] = func(l *cudabuf.HostLaunch) {
				plan := launch.Parameters[T](l, 2)
				n := P(&plan).Nest()
				for operand, word := range P(&plan).RowAlign(kernel, width) {
					launch.MustAlign(l, operand, width, n.Strides[operand]...)
					launch.MustAlign(l, operand, word, outsideRun(width, n, operand)...)
				}
				cpu.Copy(touched(l, 0, width, n), touched(l, 1, width, n), width, n)
			}
		}
	}
	return launch.Program(image, twins)
}

// outsideRun are the steps of an operand's axes beside those of which units are one run.
func outsideRun(width int64, n layout.Nest, operand int) []int64 {
	steps := slices.Clone(n.Strides[operand])
	for run := width; ; {
		k := slices.Index(steps, run)
		if k < 0 {
			return steps
		}
		run, steps[k] = run*n.Shape[k], 0
	}
}

// touched is where a nest's operand begins, which is that argument of a launch.
func touched(l *cudabuf.HostLaunch, operand int, width int64, n layout.Nest) unsafe.Pointer {
	low, high, _ := layout.Extent(width, 0, n.Shape, n.Strides[operand])
	return launch.Reached(l, operand, low, high)
}
