package ndview

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// reduceSources are the operations in each of kernels/reduce/NAME.cu.
var reduceSources = map[string][]string{
	"sum": {"sum_u8", "sum_i8", "sum_u16", "sum_i16", "sum_u32", "sum_i32", "sum_u64", "sum_i64", "sum_f16", "sum_bf16",
		"sum_f32", "sum_f64"},
	"sum_rare": {"sum_c64", "sum_c128", "sum_ticks", "mean_u32", "mean_i32", "mean_u64", "mean_i64"},
	"prod": {"prod_u8", "prod_i8", "prod_u16", "prod_i16", "prod_u32", "prod_i32", "prod_u64", "prod_i64", "prod_f16",
		"prod_bf16", "prod_f32", "prod_f64", "prod_c64", "prod_c128"},
	"max": {"max_8", "max_16", "max_32", "max_64", "max_f16", "max_bf16", "max_f32", "max_f64", "max_c64", "max_c128"},
	"argmax": {"argmax_8", "argmax_16", "argmax_32", "argmax_64", "argmax_f16", "argmax_bf16", "argmax_f32", "argmax_f64",
		"argmax_c64", "argmax_c128"},
	"count": {"count_8", "count_16", "count_32", "count_64", "count_128", "count"},
}

// kernelKinds tells which kernels an operation has besides strided.
type kernelKinds struct{ rows, columns bool }

// reduceKernels are the operations that are common enough for more than strided.
var reduceKernels = func() map[string]kernelKinds {
	kinds := map[string]kernelKinds{}
	for _, source := range []string{"sum", "max", "argmax", "count"} {
		for _, name := range reduceSources[source] {
			kinds[name] = kernelKinds{rows: true, columns: true}
		}
	}
	for _, name := range []string{"sum_c64", "sum_c128", "sum_ticks", "mean_u64", "mean_i64", "count_128"} {
		kinds[name] = kernelKinds{rows: true}
	}
	for _, name := range []string{"max_c64", "max_c128", "argmax_c64", "argmax_c128"} {
		kinds[name] = kernelKinds{}
	}
	return kinds
}()

// reducePrograms are the programs of the operations.
var reducePrograms = func() map[string]*cudabuf.Program {
	programs := map[string]*cudabuf.Program{}
	for source, names := range reduceSources {
		twins := map[string]cudabuf.HostKernel{}
		p := launch.Program("reduce/"+source, twins)
		for _, name := range names {
			programs[name] = p
			twins["quiver_finish_"+name] = finishTwin(reduce.Reducers[name])
			for _, kind := range []string{"rows", "short_rows", "tiled_rows", "columns", "short_columns", "strided"} {
				do := reduceTwin(reduce.Reducers[name])
				twins["quiver_"+kind+"_"+name] = func(l *cudabuf.HostLaunch) {
					mustVector(l, kind, reduce.Reducers[name].Element)
					do(l)
				}
			}
		}
	}
	return programs
}()

// stepsOf are the steps of a plan in the array and in the results.
func stepsOf(p *reduce.Plan) (in, out []int64) {
	in = append(in, p.Stride)
	for _, axis := range p.Kept[:p.KeptAxes] {
		in, out = append(in, axis.In), append(out, axis.Out)
	}
	for _, axis := range p.Run[:p.RunAxes] {
		in = append(in, axis.In)
	}
	return in, out
}

// mustVector is launch.MustAlign for what a kernel of a kind takes by vectors.
func mustVector(l *cudabuf.HostLaunch, kind string, size int64) {
	p := launch.Parameters[reduce.Plan](l, 3)
	if kind == "short_rows" {
		launch.MustAlign(l, 0, 16)
		launch.MustAlign(l, 1, 16)
	}
	steps, outSteps := stepsOf(&p)
	steps[0] *= p.Folded
	if p.Parts.By > 1 {
		steps = append(steps, p.Part*p.Stride)
	}
	if kind == "short_columns" || kind == "columns" && p.Aligned != 0 {
		launch.MustAlign(l, 0, int64(p.Vector)*size, steps...)
	}
	if kind == "short_columns" || kind == "columns" && p.Dense != 0 && p.Partial == 0 {
		launch.MustAlign(l, 1, min(16, int64(p.Vector*p.OutSize)), outSteps...)
	}
}

// reduceTwin does the work of a kernel that reduces: of each split in turn.
func reduceTwin(f *reduce.Reducer) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		p := launch.Parameters[reduce.Plan](l, 3)
		p.Unvectored()
		low, high, outLow, outHigh := p.Reach(f.Element)
		steps, outSteps := stepsOf(&p)
		launch.MustAlign(l, 0, f.Element, steps...)
		in := launch.Reached(l, 0, low, high)
		if p.Partial == 0 {
			launch.MustAlign(l, 1, int64(p.OutSize), outSteps...)
			reduce.Results(&p, f, in, launch.Reached(l, 1, outLow, outHigh))
			return
		}
		splits, size := int64(l.Grid.Y), p.Outputs*f.Size
		accs := launch.Reached(l, 2, 0, splits*size)
		for s := range splits {
			reduce.Parts(&p, f, in, s, unsafe.Add(accs, s*size))
		}
	}
}

// finishTwin does the work of a kernel that merges.
func finishTwin(f *reduce.Reducer) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		p := launch.Parameters[reduce.Plan](l, 2)
		_, _, low, high := p.Reach(0)
		_, outSteps := stepsOf(&p)
		launch.MustAlign(l, 0, int64(p.OutSize), outSteps...)
		reduce.Merge(&p, f, launch.Reached(l, 1, 0, p.AllParts*p.Outputs*f.Size), launch.Reached(l, 0, low, high))
	}
}
