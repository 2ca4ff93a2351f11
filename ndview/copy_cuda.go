package ndview

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// launchCopy enqueues the kernel of one part of a copy.
func launchCopy(dst arrowbuf.Buffer, to int64, src arrowbuf.Buffer, from, width int64, n layout.Nest) error {
	dev := dst.Device()
	p := stridedcopy.New(width, uint64(dst.Address())+uint64(to), uint64(src.Address())+uint64(from), n, launch.SharedMemory(dev))
	grid, block := cudabuf.Dim3{X: uint32(p.Blocks)}, cudabuf.Dim3{X: uint32(p.Threads)}
	return launch.QueueShared(dev, copyPrograms[p.Kernel.Image()], p.Kernel.Function(width), grid, block, uint32(p.Shared), launch.InOut(dst, to), launch.In(src, from), p.Struct)
}

// copyPrograms are the images of strided copies, by name.
var copyPrograms = map[string]*cudabuf.Program{
	"copy/interleave":        copyProgram[stridedcopy.Interleave]("copy/interleave"),
	"copy/tiles":             copyProgram[stridedcopy.Tiles]("copy/tiles"),
	"copy/narrow_tiles":      copyProgram[stridedcopy.Tiles]("copy/narrow_tiles"),
	"copy/matrix_tiles":      copyProgram[stridedcopy.Tiles]("copy/matrix_tiles"),
	"copy/word_tiles":        copyProgram[stridedcopy.Tiles]("copy/word_tiles"),
	"copy/run_tiles":         copyProgram[stridedcopy.Tiles]("copy/run_tiles"),
	"copy/matrix_byte_tiles": copyProgram[stridedcopy.Tiles]("copy/matrix_byte_tiles"),
	"copy/box_tiles":         copyProgram[stridedcopy.BoxTiles]("copy/box_tiles"),
	"copy/rows":              copyProgram[stridedcopy.Rows]("copy/rows"),
}

// copyProgram returns the program of an image whose kernels take a plan of type T. The
// host kernels copy the plan's loop nest, and panic if the words that the kernel would
// access are not aligned.
func copyProgram[T any, P interface {
	*T
	Nest() layout.Nest
	RowAlign(kernel stridedcopy.Kernel, width int64) [2]int64
}](image string) *cudabuf.Program {
	hostKernels := map[string]cudabuf.HostKernel{}
	for _, kernel := range stridedcopy.Images[image] {
		for _, width := range []int64{1, 2, 4, 8, 16} {
			hostKernels[kernel.Function(width)] = func(l *cudabuf.HostLaunch) {
				plan := launch.StructArg[T](l, 2)
				n := P(&plan).Nest()
				for operand, word := range P(&plan).RowAlign(kernel, width) {
					launch.MustAlign(l, operand, width, n.Strides[operand]...)
					launch.MustAlign(l, operand, word, stridesOutsideRun(width, n, operand)...)
				}
				cpu.Copy(operandStart(l, 0, width, n), operandStart(l, 1, width, n), width, n)
			}
		}
	}
	return launch.Program(image, hostKernels)
}

// stridesOutsideRun returns the strides of an operand, with 0 for the axes along which
// its units form one contiguous run.
func stridesOutsideRun(width int64, n layout.Nest, operand int) []int64 {
	strides := slices.Clone(n.Strides[operand])
	for run := width; ; {
		k := slices.Index(strides, run)
		if k < 0 {
			return strides
		}
		run, strides[k] = run*n.Shape[k], 0
	}
}

// operandStart returns the first unit of a nest's operand, an argument of the launch
// that is checked to cover all units.
func operandStart(l *cudabuf.HostLaunch, operand int, width int64, n layout.Nest) unsafe.Pointer {
	low, high, _ := layout.ByteBounds(width, 0, n.Shape, n.Strides[operand])
	return launch.PointerArg(l, operand, low, high)
}

// launchCast casts n contiguous elements. From element head on, both sides begin at
// whole vectors, see vectorHead.
func (b *stridedPair) launchCast(n, head int64, to, from cpu.Type) error {
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
	return launch.QueueItems(b.dst.Device(), kernel.program, kernel.name, n, perThread,
		launch.In(b.src.buf, b.in), launch.InOut(b.dst.buf, b.out), n, int32(head), uint32(to), limit)
}

// castKernel is the kernel that casts from one type to all others.
type castKernel struct {
	program *cudabuf.Program
	name    string
}

// castKernels are indexed by the source type.
var castKernels = func() (kernels [cpu.Types]castKernel) {
	for file, sources := range map[string]map[cpu.Type]string{
		"elementwise/cast_small": {cpu.Int8: "i8", cpu.Uint8: "u8", cpu.Int16: "i16", cpu.Uint16: "u16"},
		"elementwise/cast_int":   {cpu.Int32: "i32", cpu.Uint32: "u32", cpu.Int64: "i64", cpu.Uint64: "u64"},
		"elementwise/cast_float": {cpu.Float16: "f16", cpu.BFloat16: "bf16", cpu.Float32: "f32", cpu.Float64: "f64",
			cpu.Complex64: "c64", cpu.Complex128: "c128"},
	} {
		hostKernels := map[string]cudabuf.HostKernel{}
		p := launch.Program(file, hostKernels)
		for from, name := range sources {
			kernels[from] = castKernel{p, "quiver_cast_" + name}
			hostKernels["quiver_cast_"+name] = func(l *cudabuf.HostLaunch) { castHostKernel(l, from) }
		}
	}
	return kernels
}()

// castHostKernel is the host implementation of the kernels for contiguous casts.
func castHostKernel(l *cudabuf.HostLaunch, from cpu.Type) {
	n, head, to := l.Int64(2), int64(l.Int32(3)), cpu.Type(l.Uint32(4))
	if head > n {
		panic(fmt.Sprintf("cast of %d elements with %d before the first vector", n, head))
	}
	vector := 16 / max(from.Size(), to.Size())
	launch.MustAlignAt(l, 0, head*from.Size(), vector*from.Size())
	launch.MustAlignAt(l, 1, head*to.Size(), vector*to.Size())
	src := launch.PointerArg(l, 0, 0, n*from.Size())
	if from == cpu.Uint8 && l.Uint32(5) == 1 {
		from = cpu.Bool
	}
	cpu.Cast(launch.PointerArg(l, 1, 0, n*to.Size()), src, n, to, from)
}

// launchStridedCast casts elements between any strides.
func (b *stridedPair) launchStridedCast(walk *cpu.Walk, to, from cpu.Type) error {
	aligned := uint32(0)
	if b.isAligned() {
		aligned = 1
	}
	return walk.Split(maxItems, func(part *cpu.Walk, _ int64, at cpu.Offset) error {
		return launch.QueueItems(b.dst.Device(), castWalkProgram, "quiver_cast_strided", part.Items, perThread,
			launch.In(b.src.buf, b.in+at.Data), launch.InOut(b.dst.buf, b.out+at.Value), launch.StructBytes(part), uint32(to), uint32(from), aligned)
	})
}

var castWalkProgram = launch.Program("elementwise/cast_strided", map[string]cudabuf.HostKernel{"quiver_cast_strided": func(l *cudabuf.HostLaunch) {
	walk, to, from := launch.StructArg[cpu.Walk](l, 2), cpu.Type(l.Uint32(3)), cpu.Type(l.Uint32(4))
	low, high := walk.ByteBounds(&walk.Data, from.Size())
	outLow, outHigh := walk.ByteBounds(&walk.Value, to.Size())
	if aligned := l.Uint32(5) != 0; aligned {
		launch.MustAlign(l, 0, from.Size(), walk.Data[:walk.Axes]...)
		launch.MustAlign(l, 1, to.Size(), walk.Value[:walk.Axes]...)
	}
	cpu.CastStrided(launch.PointerArg(l, 1, outLow, outHigh), launch.PointerArg(l, 0, low, high), &walk, to, from)
}})

var convertUnitProgram = launch.Program("elementwise/convert_unit", map[string]cudabuf.HostKernel{"quiver_convert_unit": func(l *cudabuf.HostLaunch) {
	n, c := l.Int64(2), launch.StructArg[tick.Conversion](l, 3)
	launch.MustAlign(l, 0, 8)
	launch.MustAlign(l, 1, 8)
	cpu.ConvertUnit(launch.PointerArg(l, 1, 0, 8*n), launch.PointerArg(l, 0, 0, 8*n), n, &c, (*uint32)(launch.PointerArg(l, 4, 0, 4)))
}})

// in returns the launch argument of a kernel that reads the array: the address of its
// first element.
func (a *NDBuffer) in() any { return a.at(0) }

// inOut is in for a kernel that writes the array.
func (a *NDBuffer) inOut() any { return a.atOut(0) }

// at is in for the address n bytes after the first element.
func (a *NDBuffer) at(n int64) any { return launch.In(a.buf, a.offset+n) }

// atOut is inOut for the address n bytes after the first element.
func (a *NDBuffer) atOut(n int64) any { return launch.InOut(a.buf, a.offset+n) }

// maxItems is the most items that a kernel walks per launch, because it counts them in
// 32 bits. Longer walks are cut.
var maxItems int64 = math.MaxInt32

// perThread is the number of items of a walk per thread.
const perThread = 2

// hostAt returns the address of a byte of a buffer, and false if the host cannot
// access it.
func hostAt(b arrowbuf.Buffer, offset int64) (unsafe.Pointer, bool) {
	raw, ok := arrowbuf.HostBytes(b)
	if !ok || offset >= int64(len(raw)) {
		return nil, false
	}
	return unsafe.Pointer(&raw[offset]), true
}

// hostAt returns the address of the first element, and false if the host cannot access
// it.
func (a *NDBuffer) hostAt() (unsafe.Pointer, bool) { return hostAt(a.buf, a.offset) }

// address returns the address of the first element, on the host if it can access the
// array, otherwise on the device.
func (a *NDBuffer) address() uint64 {
	if p, ok := a.hostAt(); ok {
		return uint64(uintptr(p))
	}
	return uint64(a.buf.Address()) + uint64(a.offset)
}

// hostSlice returns the elements of a contiguous array in host memory.
func hostSlice[T Element](a *NDBuffer) []T {
	raw, _ := a.HostBytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), a.Size())
}

// allocate returns memory that must be used on a GPU's default stream first. It may
// still be in use by earlier work of that stream, so results that are soon released
// reuse memory without waiting. Memory that the host or another stream writes first
// should come from the device's Alloc.
func allocate(device arrowbuf.Device, n int64) (arrowbuf.Buffer, error) {
	cuda, ok := device.(*cudabuf.Device) // a device that wraps one allocates by itself
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
