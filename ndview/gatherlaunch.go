package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

func report(l *cudabuf.HostLaunch, i int) cpu.Report {
	return cpu.Report{First: l.Int64(i), Flag: (*cpu.Flag)(launch.Reached(l, i+1, 0, 8))}
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
		return launch.Items(pos.Device(), foldProgram, "quiver_resolve_indices", part.Items, perThread,
			indices.at(at.Index), pos.atOut(8*first), launch.StructOf(part), launch.StructOf(f), first, flags.array.atOut(8*int64(flag)))
	})
}

var foldProgram = launch.Program("index/resolve", map[string]cudabuf.HostKernel{"quiver_resolve_indices": func(l *cudabuf.HostLaunch) {
	walk, f := launch.Parameters[cpu.Walk](l, 2), launch.Parameters[cpu.Folding](l, 3)
	low, high := walk.Reach(&walk.Index, int64(f.Size))
	launch.MustAlign(l, 1, 8)
	cpu.Fold(launch.Reached(l, 1, 0, 8*walk.Items), launch.Reached(l, 0, low, high), &walk, &f, report(l, 4))
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
		src, indices, to := launch.In(from, where.offset+at.Data), where.indices.at(at.Index), out.atOut(width*first)
		if gapless {
			return launch.Items(out.Device(), takeProgram, "quiver_take_"+kernel, part.Items, perThread,
				src, indices, to, part.Items, where.extent, first, flags.array.inOut())
		}
		return launch.Items(out.Device(), takeProgram, "quiver_gather_"+kernel, part.Items, perThread,
			src, indices, to, launch.StructOf(part), where.extent, where.step, first, flags.array.inOut())
	})
}

var takeProgram = launch.Program("index/take", takeTwins())

func takeTwins() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		for _, size := range []int64{4, 8} {
			kernel := fmt.Sprintf("%d_i%d", width, 8*size)
			twins["quiver_take_"+kernel] = func(l *cudabuf.HostLaunch) {
				n, extent := l.Int64(3), l.Int64(4)
				walk := cpu.Walk{Items: n, Axes: 1}
				walk.Extent[0], walk.Index[0] = n, size
				launch.MustAlign(l, 0, width)
				launch.MustAlign(l, 1, size)
				launch.MustAlign(l, 2, width)
				cpu.Gather(launch.Reached(l, 2, 0, width*n), launch.Reached(l, 0, 0, width*extent), launch.Reached(l, 1, 0, size*n),
					width, size, &walk, extent, width, report(l, 5))
			}
			twins["quiver_gather_"+kernel] = func(l *cudabuf.HostLaunch) {
				walk, extent, step := launch.Parameters[cpu.Walk](l, 3), l.Int64(4), l.Int64(5)
				low, high := walk.Reach(&walk.Data, width)
				indexLow, indexHigh := walk.Reach(&walk.Index, size)
				reach := (extent - 1) * step
				launch.MustAlign(l, 0, width, append(walk.Data[:walk.Axes:walk.Axes], step)...)
				launch.MustAlign(l, 1, size, walk.Index[:walk.Axes]...)
				launch.MustAlign(l, 2, width)
				cpu.Gather(launch.Reached(l, 2, 0, width*walk.Items), launch.Reached(l, 0, low+min(reach, 0), high+max(reach, 0)),
					launch.Reached(l, 1, indexLow, indexHigh), width, size, &walk, extent, step, report(l, 6))
			}
		}
	}
	return twins
}
