package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

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
