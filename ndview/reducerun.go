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
	if a.places()%uint64(a.dtype.Size()) != 0 {
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
