package ndview

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// run reduces a to out. They share no memory, and the caller retains both.
func (p *reductionPlan) run(out, a *NDBuffer) error {
	n, ok := p.nest(out)
	switch {
	case !ok:
		return p.runTransposed(out, a)
	case n.loops.Outputs == 0:
		return nil
	}
	if a.size == 0 {
		n.from = 0 // no element is read, and a reversed axis would begin outside of the buffer
	}
	n.loops.Neutral, n.loops.Finish = vectorOfElement(p.op.neutral, a.dtype.Size()), p.op.parameters
	n.loops.OutSize = int32(p.op.out.Size())
	if dst, ok := out.hostAt(); ok {
		src, _ := a.hostAt()
		reduce.Run(&n.loops, reduce.Reducers[p.op.name], unsafe.Add(src, n.from), unsafe.Add(dst, n.to))
		return nil
	}
	return p.launch(&n, out, a)
}

// vectorOfElement returns the vector of 16 bytes that repeats an element.
func vectorOfElement(element [2]uint64, size int64) [2]uint64 {
	if size == 16 {
		return element
	}
	bits := element[0]
	for have := 8 * size; have < 64; have *= 2 {
		bits |= bits << have
	}
	return [2]uint64{bits, bits}
}

// reductionNest is the loops of a reduction. from and to are the bytes from the first
// elements of the array and of the result to where the loops begin.
type reductionNest struct {
	loops    reduce.Plan
	from, to int64
}

// nest merges axes and returns the loops. ok is false if more axes are left than a
// reduce.Plan has.
func (p *reductionPlan) nest(out *NDBuffer) (n reductionNest, ok bool) {
	s := &p.axes
	outStrides := make([]int64, len(s.kept))
	for i, axis := range s.keptOut {
		outStrides[i] = out.strides[axis]
	}
	kept := layout.Collapse(s.kept, s.keptStrides, outStrides)
	var reduced layout.Nest
	if p.op.isOrdered {
		// Collapse keeps the order of a first operand in C order, and its directions.
		shape, strides := s.reduced, s.reducedStrides
		if p.op.inMemoryOrder {
			order := layout.IterationOrder(shape, strides)
			shape, strides = permuted(shape, order), permuted(strides, order)
		}
		reduced = layout.Collapse(shape, layout.CStrides(1, shape), strides)
		reduced.Strides[0], reduced.Offsets[0] = reduced.Strides[1], reduced.Offsets[1]
	} else {
		reduced = layout.Collapse(s.reduced, s.reducedStrides)
	}
	if len(kept.Shape) > reduce.MaxAxes || len(reduced.Shape) > reduce.MaxAxes+1 {
		return n, false
	}
	n.loops = reduce.Plan{Outputs: product(kept.Shape), KeptAxes: int32(len(kept.Shape)), Length: 1}
	for i := range kept.Shape {
		at := len(kept.Shape) - 1 - i
		n.loops.Kept[i] = reduce.Axis{Extent: reduce.NewDivisor(max(kept.Shape[at], 1)), In: kept.Strides[0][at], Out: kept.Strides[1][at]}
	}
	if axes := len(reduced.Shape); axes > 0 {
		n.loops.Length, n.loops.Stride = reduced.Shape[axes-1], reduced.Strides[0][axes-1]
		n.loops.RunAxes = int32(axes - 1)
		for i := range axes - 1 {
			n.loops.Run[i] = reduce.Axis{Extent: reduce.NewDivisor(reduced.Shape[axes-2-i]), In: reduced.Strides[0][axes-2-i]}
		}
	}
	n.from, n.to = kept.Offsets[0]+reduced.Offsets[0], kept.Offsets[1]
	return n, true
}

// permuted returns the elements of s in another order.
func permuted[T any](s []T, order []int) []T {
	out := make([]T, len(order))
	for i, k := range order {
		out[i] = s[k]
	}
	return out
}

// launch enqueues the kernels: one that reduces, and one that merges accumulators if
// several blocks reduce each result, or if the first does not write results itself.
func (p *reductionPlan) launch(n *reductionNest, out, a *NDBuffer) error {
	dev, ok := arrowbuf.As[*cudabuf.Device](a.Device())
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", a.Device(), arrowbuf.ErrDevice)
	}
	if a.addressBits()%uint64(a.dtype.Size()) != 0 {
		return p.runAligned(out, a)
	}
	base, to := a.buf.Address()+uintptr(a.offset+n.from), out.buf.Address()+uintptr(out.offset+n.to)
	g, loops := planLaunch(&p.op, &n.loops, dev, base, to, a.dtype.Size())
	blocks, threads := cudabuf.Dim3{X: uint32(g.blocks), Y: uint32(g.splits)}, cudabuf.Dim3{X: launch.Threads}
	kernel := "quiver_" + g.kernel + "_" + p.op.name
	program := reducePrograms[p.op.name]
	if g.splits == 1 && p.op.writesOut {
		return launch.Queue(dev, program, kernel, blocks, threads, a.at(n.from), out.atOut(n.to), uintptr(0), launch.StructBytes(&loops))
	}
	accumulators, err := allocate(dev, g.splits*loops.Outputs*p.op.accumulator)
	if err != nil {
		return fmt.Errorf("accumulators of a reduction: %w", err)
	}
	defer accumulators.Release()
	loops.Partial = 1
	if err := launch.Queue(dev, program, kernel, blocks, threads, a.at(n.from), out.atOut(n.to), accumulators, launch.StructBytes(&loops)); err != nil {
		return err
	}
	merge := n.loops
	merge.AllParts, merge.Folded = g.splits, 1
	merge.Lanes = 8 - floorLog2(g.splits, 8)
	if merge.Outputs > 64 { // neighbours are read at once
		merge.Lanes = max(merge.Lanes, 5)
	}
	blocks = cudabuf.Dim3{X: uint32(ceilDiv(merge.Outputs, 1<<merge.Lanes))}
	return launch.Queue(dev, reducePrograms[p.op.finish], "quiver_finish_"+p.op.finish, blocks, threads, out.atOut(n.to), accumulators, launch.StructBytes(&merge))
}

// runAligned reduces an aligned copy of a with the same memory order, on which the
// result may depend.
func (p *reductionPlan) runAligned(out, a *NDBuffer) error {
	aligned, err := a.copy(OrderK)
	if err != nil {
		return err
	}
	defer aligned.Release()
	again := reductionPlan{op: p.op, axes: splitAxes(aligned, p.axes.isReduced, p.axes.keepDims)}
	return again.run(out, aligned)
}

// runTransposed reduces a contiguous copy of a with the reduced axes last, which is one
// row per result.
func (p *reductionPlan) runTransposed(out, a *NDBuffer) error {
	var kept, reduced []int
	for axis, is := range p.axes.isReduced {
		if is {
			reduced = append(reduced, axis)
		} else {
			kept = append(kept, axis)
		}
	}
	if p.op.inMemoryOrder {
		reduced = permuted(reduced, layout.IterationOrder(p.axes.reduced, p.axes.reducedStrides))
	}
	transposed, err := a.transpose(append(kept, reduced...)...)
	if err != nil {
		return err
	}
	defer transposed.Release()
	rows, err := transposed.inCOrder()
	if err != nil {
		return err
	}
	defer rows.Release()
	isReduced := make([]bool, len(a.shape))
	for i := len(kept); i < len(isReduced); i++ {
		isReduced[i] = true
	}
	again := reductionPlan{op: p.op, axes: splitAxes(rows, isReduced, false)}
	result, err := Empty(a.Device(), p.op.out, again.axes.shape...)
	if err != nil {
		return err
	}
	defer result.Release()
	if err := again.run(result, rows); err != nil {
		return err
	}
	shaped, err := result.reshape(out.shape...)
	if err != nil {
		return err
	}
	defer shaped.Release()
	return out.CopyFrom(shaped)
}

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

// kernelKinds are the kernels that an operation has besides strided.
type kernelKinds struct{ rows, columns bool }

// reduceKernels are the operations that are common enough for more kernels than strided.
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

// reducePrograms are the programs of the operations by name.
var reducePrograms = func() map[string]*cudabuf.Program {
	programs := map[string]*cudabuf.Program{}
	for source, names := range reduceSources {
		hostKernels := map[string]cudabuf.HostKernel{}
		p := launch.Program("reduce/"+source, hostKernels)
		for _, name := range names {
			programs[name] = p
			hostKernels["quiver_finish_"+name] = mergeHostKernel(reduce.Reducers[name])
			for _, kind := range []string{"rows", "short_rows", "tiled_rows", "columns", "short_columns", "strided"} {
				run := reduceHostKernel(reduce.Reducers[name])
				hostKernels["quiver_"+kind+"_"+name] = func(l *cudabuf.HostLaunch) {
					mustAlignVectors(l, kind, reduce.Reducers[name].Element)
					run(l)
				}
			}
		}
	}
	return programs
}()

// stepsOf returns the strides of a plan in the array and in the results.
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

// mustAlignVectors is launch.MustAlign for the vectors of a kernel.
func mustAlignVectors(l *cudabuf.HostLaunch, kind string, size int64) {
	p := launch.StructArg[reduce.Plan](l, 3)
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

// reduceHostKernel returns the host kernel of kernels that reduce. It runs the splits one
// after the other.
func reduceHostKernel(f *reduce.Reducer) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		p := launch.StructArg[reduce.Plan](l, 3)
		p.ConvertToElements()
		low, high, outLow, outHigh := p.ByteBounds(f.Element)
		steps, outSteps := stepsOf(&p)
		launch.MustAlign(l, 0, f.Element, steps...)
		in := launch.PointerArg(l, 0, low, high)
		if p.Partial == 0 {
			launch.MustAlign(l, 1, int64(p.OutSize), outSteps...)
			reduce.Run(&p, f, in, launch.PointerArg(l, 1, outLow, outHigh))
			return
		}
		splits, size := int64(l.Grid.Y), p.Outputs*f.Size
		accs := launch.PointerArg(l, 2, 0, splits*size)
		for s := range splits {
			reduce.RunSplit(&p, f, in, s, unsafe.Add(accs, s*size))
		}
	}
}

// mergeHostKernel returns the host kernel of kernels that merge accumulators.
func mergeHostKernel(f *reduce.Reducer) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		p := launch.StructArg[reduce.Plan](l, 2)
		_, _, low, high := p.ByteBounds(0)
		_, outSteps := stepsOf(&p)
		launch.MustAlign(l, 0, int64(p.OutSize), outSteps...)
		reduce.Merge(&p, f, launch.PointerArg(l, 1, 0, p.AllParts*p.Outputs*f.Size), launch.PointerArg(l, 0, low, high))
	}
}
