package ndview

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// run reduces a to out, which share no memory and are held.
func (w *reducing) run(out, a *NDBuffer) error {
	p, from, to, ok := w.nest(out)
	switch {
	case !ok:
		return w.runApart(out, a)
	case p.Outputs == 0:
		return nil
	}
	if a.size == 0 {
		from = 0 // nothing is read there, and turned axes would begin elsewhere
	}
	p.Neutral, p.Finish, p.OutSize = repeated(w.op.neutral, a.dtype.Size()), w.op.tell, int32(w.op.out.Size())
	if dst, ok := out.hostAt(); ok {
		src, _ := a.hostAt()
		reduce.Results(p, reduce.Reducers[w.op.name], unsafe.Add(src, from), unsafe.Add(dst, to))
		return nil
	}
	return w.launch(p, out, a, from, to)
}

// repeated is the vector of 16 bytes of an element.
func repeated(element [2]uint64, size int64) [2]uint64 {
	if size == 16 {
		return element
	}
	bits := element[0]
	for have := 8 * size; have < 64; have *= 2 {
		bits |= bits << have
	}
	return [2]uint64{bits, bits}
}

// nest plans the loops: as few axes as there can be, kept ones and reduced ones.
// from and to are where the nest begins in a and out. It is not ok if more axes are
// left than a plan has.
func (w *reducing) nest(out *NDBuffer) (p *reduce.Plan, from, to int64, ok bool) {
	keptOut := make([]int64, len(w.kept))
	for i, at := range w.keptAt {
		keptOut[i] = out.strides[at]
	}
	kept := layout.Collapse(w.kept, w.keptIn, keptOut)
	var steps layout.Nest
	if w.op.numbered {
		// The first operand is a count, which keeps the axes in order, forwards.
		shape, in := w.steps, w.stepsIn
		if w.op.inMemory {
			order := layout.Walked(shape, in)
			shape, in = permuted(shape, order), permuted(in, order)
		}
		steps = layout.Collapse(shape, layout.C(1, shape), in)
		steps.Strides[0], steps.Offsets[0] = steps.Strides[1], steps.Offsets[1]
	} else {
		steps = layout.Collapse(w.steps, w.stepsIn)
	}
	if len(kept.Shape) > reduce.MaxAxes || len(steps.Shape) > reduce.MaxAxes+1 {
		return nil, 0, 0, false
	}
	p = &reduce.Plan{Outputs: product(kept.Shape), KeptAxes: int32(len(kept.Shape)), Length: 1}
	for i := range kept.Shape {
		at := len(kept.Shape) - 1 - i
		p.Kept[i] = reduce.Axis{Extent: reduce.NewDivisor(max(kept.Shape[at], 1)), In: kept.Strides[0][at], Out: kept.Strides[1][at]}
	}
	if n := len(steps.Shape); n > 0 {
		p.Length, p.Stride = steps.Shape[n-1], steps.Strides[0][n-1]
		p.RunAxes = int32(n - 1)
		for i := range n - 1 {
			p.Run[i] = reduce.Axis{Extent: reduce.NewDivisor(steps.Shape[n-2-i]), In: steps.Strides[0][n-2-i]}
		}
	}
	return p, kept.Offsets[0] + steps.Offsets[0], kept.Offsets[1], true
}

// permuted is s in another order.
func permuted[T any](s []T, at []int) []T {
	out := make([]T, len(at))
	for i, k := range at {
		out[i] = s[k]
	}
	return out
}

// launch queues the kernels.
func (w *reducing) launch(p *reduce.Plan, out, a *NDBuffer, from, to int64) error {
	dev, ok := a.Device().(*cudabuf.Device)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", a.Device(), arrowbuf.ErrDevice)
	}
	if a.addressBits()%uint64(a.dtype.Size()) != 0 {
		return w.runCopied(out, a)
	}
	elements := *p // as finish sees them
	base := a.buf.Address() + uintptr(a.offset+from)
	g := w.lay(p, dev, base, out.buf.Address()+uintptr(out.offset+to), a.dtype.Size())
	grid, block := cudabuf.Dim3{X: uint32(g.blocks), Y: uint32(g.splits)}, cudabuf.Dim3{X: launch.Threads}
	kernel := "quiver_" + g.kernel + "_" + w.op.name
	program := reducePrograms[w.op.name]
	if g.splits == 1 && w.op.plain {
		return launch.Queue(dev, program, kernel, grid, block, a.at(from), out.atOut(to), uintptr(0), launch.StructOf(p))
	}
	accs, err := allocate(dev, g.splits*p.Outputs*w.op.accumulator)
	if err != nil {
		return fmt.Errorf("accumulators of a reduction: %w", err)
	}
	defer accs.Release()
	p.Partial = 1
	if err := launch.Queue(dev, program, kernel, grid, block, a.at(from), out.atOut(to), accs, launch.StructOf(p)); err != nil {
		return err
	}
	elements.AllParts, elements.Folded = g.splits, 1
	elements.Lanes = 8 - lanesOf(g.splits, 8)
	if p.Outputs > 64 { // neighbours are read at once
		elements.Lanes = max(elements.Lanes, 5)
	}
	grid = cudabuf.Dim3{X: uint32(ceilDiv(p.Outputs, 1<<elements.Lanes))}
	return launch.Queue(dev, reducePrograms[w.op.finish], "quiver_finish_"+w.op.finish, grid, block, out.atOut(to), accs, launch.StructOf(&elements))
}

// runCopied is run by way of a copy of a, whose axes lie in memory as those of a do:
// steps may be counted so.
func (w *reducing) runCopied(out, a *NDBuffer) error {
	aligned, err := a.Copy(OrderK)
	if err != nil {
		return err
	}
	defer aligned.Release()
	again := *w
	again.keptIn, again.stepsIn = nil, nil
	for i, stride := range aligned.strides {
		if w.reduced[i] {
			again.stepsIn = append(again.stepsIn, stride)
		} else {
			again.keptIn = append(again.keptIn, stride)
		}
	}
	return again.run(out, aligned)
}

// reduceSources are the operations in each of kernels/reduce_NAME.cu.
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
		p := launch.Program("reduce_"+source, twins)
		for _, name := range names {
			programs[name] = p
			twins["quiver_finish_"+name] = finishTwin(reduce.Reducers[name])
			for _, kind := range []string{"rows", "slim", "tiles", "columns", "few", "strided"} {
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
	if kind == "slim" {
		launch.MustAlign(l, 0, 16)
		launch.MustAlign(l, 1, 16)
	}
	steps, outSteps := stepsOf(&p)
	steps[0] *= p.Folded
	if p.Parts.By > 1 {
		steps = append(steps, p.Part*p.Stride)
	}
	if kind == "few" || kind == "columns" && p.Aligned != 0 {
		launch.MustAlign(l, 0, int64(p.Vector)*size, steps...)
	}
	if kind == "few" || kind == "columns" && p.Dense != 0 && p.Partial == 0 {
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

// runApart reduces a copy of a in which the axes that are reduced come last, so that
// they are one, and those that are kept another.
func (w *reducing) runApart(out, a *NDBuffer) error {
	var order, last, reduced []int
	for i, r := range w.reduced {
		if r {
			last, reduced = append(last, i), append(reduced, len(w.kept)+len(reduced))
		} else {
			order = append(order, i)
		}
	}
	if w.op.inMemory {
		last = permuted(last, layout.Walked(w.steps, w.stepsIn))
	}
	turned, err := a.Transpose(append(order, last...)...)
	if err != nil {
		return err
	}
	defer turned.Release()
	lined, err := turned.inCOrder()
	if err != nil {
		return err
	}
	defer lined.Release()
	result, err := w.by.Of(lined, ReduceOptions{Axes: reduced, DType: w.want})
	if err != nil {
		return err
	}
	defer result.Release()
	shaped, err := result.Reshape(out.shape...)
	if err != nil {
		return err
	}
	defer shaped.Release()
	return out.CopyFrom(shaped)
}
