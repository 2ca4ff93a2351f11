package ndview

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

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

// at is an argument of a launch: a pointer some bytes behind the first element
// of an array that the kernel reads, and atOut of one that it writes.
func (a *NDBuffer) at(behind int64) any { return in(a.buf, a.offset+behind) }

func (a *NDBuffer) atOut(behind int64) any { return inOut(a.buf, a.offset+behind) }

func inOut(b arrowbuf.Buffer, offset int64) any {
	if b, ok := b.(*cudabuf.Buffer); ok {
		return cudabuf.InOut(b, offset)
	}
	return b // launch refuses it
}

// reached is what a kernel reaches of a pointer, [low, high) from it on.
func reached(l *cudabuf.TwinLaunch, i int, low, high int64) unsafe.Pointer {
	part := l.Memory(uintptr(int64(l.Pointer(i))+low), high-low)
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(part)), -low)
}

// mustAlign ends a twin where a GPU would: at pointer i, or steps from it, that are no
// multiples of the width of what the kernel moves at once.
func mustAlign(l *cudabuf.TwinLaunch, i int, width int64, steps ...int64) {
	mustAlignAt(l, i, 0, width, steps...)
}

// mustAlignAt is mustAlign so many bytes behind the pointer.
func mustAlignAt(l *cudabuf.TwinLaunch, i int, behind, width int64, steps ...int64) {
	all := int64(l.Pointer(i)) + behind
	for _, s := range steps {
		all |= s
	}
	if all&(width-1) != 0 {
		panic(fmt.Sprintf("argument %d at %#x, %d bytes behind it and with steps of %d, is not a multiple of %d", i, l.Pointer(i), behind, steps, width))
	}
}

func report(l *cudabuf.TwinLaunch, i int) cpu.Report {
	return cpu.Report{First: l.Int64(i), Flag: (*cpu.Flag)(reached(l, i+1, 0, 8))}
}

// fold resolves indices into pos.
func fold(pos, indices *NDBuffer, walk *cpu.Walk, f *cpu.Folding, flags *flags, flag int) error {
	if to, ok := pos.hostAt(); ok {
		from, _ := indices.hostAt()
		word, _ := hostAt(flags.array.buf, 8*int64(flag))
		cpu.Fold(to, from, walk, f, cpu.Report{Flag: (*cpu.Flag)(word)})
		return nil
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, first int64, at cpu.Offset) error {
		return launchItems(pos.Device(), foldProgram, "quiver_fold", part.Items, perThread,
			indices.at(at.Index), pos.atOut(8*first), structOf(part), structOf(f), first, flags.array.atOut(8*int64(flag)))
	})
}

var foldProgram = program("fold", map[string]cudabuf.Twin{"quiver_fold": func(l *cudabuf.TwinLaunch) {
	walk, f := parameters[cpu.Walk](l, 2), parameters[cpu.Folding](l, 3)
	low, high := walk.Reach(&walk.Index, int64(f.Size))
	mustAlign(l, 1, 8)
	cpu.Fold(reached(l, 1, 0, 8*walk.Items), reached(l, 0, low, high), &walk, &f, report(l, 4))
}})

// gatherUnits copies units of width bytes from places of a buffer to out.
func gatherUnits(out *NDBuffer, from arrowbuf.Buffer, where *places, width int64, walk *cpu.Walk, flags *flags) error {
	size := where.indices.dtype.Size()
	if to, ok := out.hostAt(); ok {
		src, _ := hostAt(from, where.offset)
		indices, _ := where.indices.hostAt()
		word, _ := flags.array.hostAt()
		cpu.Gather(to, src, indices, width, size, walk, where.extent, where.step, cpu.Report{Flag: (*cpu.Flag)(word)})
		return nil
	}
	kernel := fmt.Sprintf("%d_i%d", width, 8*size)
	gapless := walk.Axes == 1 && walk.Data[0] == 0 && walk.Index[0] == size && where.step == width
	if gapless {
		if done, err := takeByBuckets(out, from, where, width, walk.Items, flags); done || err != nil {
			return err
		}
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, first int64, at cpu.Offset) error {
		src, indices, to := in(from, where.offset+at.Data), where.indices.at(at.Index), out.atOut(width*first)
		if gapless {
			return launchItems(out.Device(), takeProgram, "quiver_take_"+kernel, part.Items, perThread,
				src, indices, to, part.Items, where.extent, first, flags.array.inOut())
		}
		return launchItems(out.Device(), takeProgram, "quiver_gather_"+kernel, part.Items, perThread,
			src, indices, to, structOf(part), where.extent, where.step, first, flags.array.inOut())
	})
}

var takeProgram = program("take", takeTwins())

func takeTwins() map[string]cudabuf.Twin {
	twins := map[string]cudabuf.Twin{}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		for _, size := range []int64{4, 8} {
			kernel := fmt.Sprintf("%d_i%d", width, 8*size)
			twins["quiver_take_"+kernel] = func(l *cudabuf.TwinLaunch) {
				n, extent := l.Int64(3), l.Int64(4)
				walk := cpu.Walk{Items: n, Axes: 1}
				walk.Extent[0], walk.Index[0] = n, size
				mustAlign(l, 0, width)
				mustAlign(l, 1, size)
				mustAlign(l, 2, width)
				cpu.Gather(reached(l, 2, 0, width*n), reached(l, 0, 0, width*extent), reached(l, 1, 0, size*n),
					width, size, &walk, extent, width, report(l, 5))
			}
			twins["quiver_gather_"+kernel] = func(l *cudabuf.TwinLaunch) {
				walk, extent, step := parameters[cpu.Walk](l, 3), l.Int64(4), l.Int64(5)
				low, high := walk.Reach(&walk.Data, width)
				indexLow, indexHigh := walk.Reach(&walk.Index, size)
				reach := (extent - 1) * step
				mustAlign(l, 0, width, append(walk.Data[:walk.Axes:walk.Axes], step)...)
				mustAlign(l, 1, size, walk.Index[:walk.Axes]...)
				mustAlign(l, 2, width)
				cpu.Gather(reached(l, 2, 0, width*walk.Items), reached(l, 0, low+min(reach, 0), high+max(reach, 0)),
					reached(l, 1, indexLow, indexHigh), width, size, &walk, extent, step, report(l, 6))
			}
		}
	}
	return twins
}

// hostSlice are the elements of a gapless array in the host's memory.
func hostSlice[T Element](a *NDBuffer) []T {
	raw, _ := a.HostBytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), a.Size())
}
