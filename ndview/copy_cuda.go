package ndview

import (
	"fmt"
	"math"
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
	"copy/interleave":    copyProgram[stridedcopy.Weave]("copy/interleave"),
	"copy/tiles":    copyProgram[stridedcopy.Tiles]("copy/tiles"),
	"copy/narrow_tiles":     copyProgram[stridedcopy.Tiles]("copy/narrow_tiles"),
	"copy/matrix_tiles": copyProgram[stridedcopy.Tiles]("copy/matrix_tiles"),
	"copy/word_tiles":    copyProgram[stridedcopy.Tiles]("copy/word_tiles"),
	"copy/run_tiles":     copyProgram[stridedcopy.Tiles]("copy/run_tiles"),
	"copy/matrix_byte_tiles":      copyProgram[stridedcopy.Tiles]("copy/matrix_byte_tiles"),
	"copy/box_tiles":   copyProgram[stridedcopy.Bricks]("copy/box_tiles"),
	"copy/rows":     copyProgram[stridedcopy.Rows]("copy/rows"),
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

// launchCast casts n elements without gaps; from head on, both sides begin at
// whole vectors.
func (b *both) launchCast(n, head int64, to, from cpu.Type) error {
	limit := uint32(0xff)
	if from == cpu.Bool {
		from, limit = cpu.Uint8, 1
		if to.Size() == 1 {
			to = cpu.Bool
		}
	}
	kernel := castKernels[from]
	perThread := 16 / max(to.Size(), from.Size())
	if to.Size() < from.Size() {
		perThread *= 2 // as unroll in kernels/elementwise/cast.cuh
	}
	return launch.Items(b.dst.Device(), kernel.program, kernel.name, n, perThread,
		launch.In(b.src.buf, b.in), launch.InOut(b.dst.buf, b.out), n, int32(head), uint32(to), limit)
}

type castKernel struct {
	program *cudabuf.Program
	name    string
}

// castKernels are by source.
var castKernels = func() (kernels [cpu.Types]castKernel) {
	for file, sources := range map[string]map[cpu.Type]string{
		"elementwise/cast_small": {cpu.Int8: "i8", cpu.Uint8: "u8", cpu.Int16: "i16", cpu.Uint16: "u16"},
		"elementwise/cast_int":   {cpu.Int32: "i32", cpu.Uint32: "u32", cpu.Int64: "i64", cpu.Uint64: "u64"},
		"elementwise/cast_float": {cpu.Float16: "f16", cpu.BFloat16: "bf16", cpu.Float32: "f32", cpu.Float64: "f64",
			cpu.Complex64: "c64", cpu.Complex128: "c128"},
	} {
		twins := map[string]cudabuf.HostKernel{}
		p := launch.Program(file, twins)
		for from, name := range sources {
			kernels[from] = castKernel{p, "quiver_cast_" + name}
			twins["quiver_cast_"+name] = func(l *cudabuf.HostLaunch) { castTwin(l, from) }
		}
	}
	return kernels
}()

func castTwin(l *cudabuf.HostLaunch, from cpu.Type) {
	n, head, to := l.Int64(2), int64(l.Int32(3)), cpu.Type(l.Uint32(4))
	if head > n {
		panic(fmt.Sprintf("a cast of %d elements, of which %d lie before the first vector", n, head))
	}
	vector := 16 / max(from.Size(), to.Size())
	launch.MustAlignAt(l, 0, head*from.Size(), vector*from.Size())
	launch.MustAlignAt(l, 1, head*to.Size(), vector*to.Size())
	src := launch.Reached(l, 0, 0, n*from.Size())
	if from == cpu.Uint8 && l.Uint32(5) == 1 {
		from = cpu.Bool
	}
	cpu.Cast(launch.Reached(l, 1, 0, n*to.Size()), src, n, to, from)
}

// launchWalk casts elements between any strides.
func (b *both) launchWalk(walk *cpu.Walk, to, from cpu.Type) error {
	whole := uint32(0)
	if b.aligned() {
		whole = 1
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, _ int64, at cpu.Offset) error {
		return launch.Items(b.dst.Device(), castWalkProgram, "quiver_cast_strided", part.Items, perThread,
			launch.In(b.src.buf, b.in+at.Data), launch.InOut(b.dst.buf, b.out+at.Value), launch.StructOf(part), uint32(to), uint32(from), whole)
	})
}

var castWalkProgram = launch.Program("elementwise/cast_strided", map[string]cudabuf.HostKernel{"quiver_cast_strided": func(l *cudabuf.HostLaunch) {
	walk, to, from := launch.Parameters[cpu.Walk](l, 2), cpu.Type(l.Uint32(3)), cpu.Type(l.Uint32(4))
	low, high := walk.Reach(&walk.Data, from.Size())
	outLow, outHigh := walk.Reach(&walk.Value, to.Size())
	if aligned := l.Uint32(5) != 0; aligned {
		launch.MustAlign(l, 0, from.Size(), walk.Data[:walk.Axes]...)
		launch.MustAlign(l, 1, to.Size(), walk.Value[:walk.Axes]...)
	}
	cpu.CastWalk(launch.Reached(l, 1, outLow, outHigh), launch.Reached(l, 0, low, high), &walk, to, from)
}})

// allocate takes memory that the default stream of a GPU uses first: what earlier
// work of that stream still uses is good enough, so that results which come and
// go take no more from the driver. Any other stream's first use waits for that
// work; memory for what the host sends at once had better be the device's Alloc.
func allocate(device arrowbuf.Device, n int64) (arrowbuf.Buffer, error) {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return device.Alloc(n)
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return nil, err
	}
	b, err := cuda.Pool().AllocOn(n, stream)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// in and inOut are arguments of a launch: pointers to an array's first element,
// for a kernel that reads it and for one that writes it.
func (a *NDBuffer) in() any { return a.at(0) }

func (a *NDBuffer) inOut() any { return a.atOut(0) }

// at and atOut are those some bytes behind it.
func (a *NDBuffer) at(behind int64) any { return launch.In(a.buf, a.offset+behind) }

func (a *NDBuffer) atOut(behind int64) any { return launch.InOut(a.buf, a.offset+behind) }

// maxItems is how many items a walk of a kernel has at most, which counts them
// in 32 bits. Longer walks are cut.
var maxItems int64 = math.MaxInt32

// perThread is how many items of a walk a thread does.
const perThread = 2

// hostAt is the address of a byte of a buffer, if the host reaches it.
func hostAt(b arrowbuf.Buffer, offset int64) (unsafe.Pointer, bool) {
	raw, ok := arrowbuf.HostBytes(b)
	if !ok || offset >= int64(len(raw)) {
		return nil, false
	}
	return unsafe.Pointer(&raw[offset]), true
}

// hostAt is the address of the array's first element.
func (a *NDBuffer) hostAt() (unsafe.Pointer, bool) { return hostAt(a.buf, a.offset) }

// hostSlice are the elements of a gapless array in the host's memory.
func hostSlice[T Element](a *NDBuffer) []T {
	raw, _ := a.HostBytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), a.Size())
}
