package ndview

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
)

// MaxAndArgMax returns the positions of [ArgMax] and the elements there, in two new arrays
// in C order that the caller must release. It reads the array once, and then one element
// per result.
//
// The elements are those of [Max] but for two cases. Of several NaNs, it is the first one
// with its own bits, and of zeros of both signs the first one. The options are those of
// ArgMax, without a DType. Errors are those of [Reduction.Of].
func MaxAndArgMax(a *NDBuffer, o ReduceOptions) (values, positions *NDBuffer, err error) {
	return ArgMax.withElements("MaxAndArgMax", a, o)
}

// MinAndArgMin is [MaxAndArgMax] for [Min] and [ArgMin].
func MinAndArgMin(a *NDBuffer, o ReduceOptions) (values, positions *NDBuffer, err error) {
	return ArgMin.withElements("MinAndArgMin", a, o)
}

// withElements returns the results of an ArgMin or ArgMax, and the elements there.
func (r Reduction) withElements(name string, a *NDBuffer, o ReduceOptions) (values, positions *NDBuffer, err error) {
	both, err := a.callForAll(name, func() ([]*NDBuffer, error) {
		if o.DType != (DType{}) {
			return nil, fmt.Errorf("got a DType of %s, want none: %w", o.DType, ErrDType)
		}
		if err := a.TryRetain(); err != nil {
			return nil, err
		}
		defer a.Release()
		values, positions, err := r.pick(a, o)
		return []*NDBuffer{values, positions}, err
	})
	if err != nil {
		return nil, nil, err
	}
	return both[0], both[1], nil
}

// pick is withElements for a retained array.
func (r Reduction) pick(a *NDBuffer, o ReduceOptions) (values, positions *NDBuffer, err error) {
	p, err := r.plan(a, o)
	if err != nil {
		return nil, nil, err
	}
	if values, err = Empty(a.Device(), a.dtype, p.axes.shape...); err != nil {
		return nil, nil, err
	}
	n, ok := p.nest(values)
	_, onHost := a.hostAt()
	if !ok || a.size > 0 && !onHost && a.addressBits()%uint64(a.dtype.Size()) != 0 {
		values.Release()
		return r.pickOfRows(a, &p)
	}
	if positions, err = Empty(a.Device(), Int64, p.axes.shape...); err != nil {
		values.Release()
		return nil, nil, err
	}
	if err = p.run(positions, a); err == nil && n.loops.Outputs > 0 {
		err = pickElements(&n, values, positions, a)
	}
	if err != nil {
		releaseAll([]*NDBuffer{values, positions})
		return nil, nil, err
	}
	return values, positions, nil
}

// pickOfRows is pick of an aligned copy with the reduced axes last, which has few loops.
func (r Reduction) pickOfRows(a *NDBuffer, p *reductionPlan) (values, positions *NDBuffer, err error) {
	rows, axes, err := a.rowsOf(p)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Release()
	flatValues, flatPositions, err := r.pick(rows, ReduceOptions{Axes: axes})
	if err != nil {
		return nil, nil, err
	}
	defer releaseAll([]*NDBuffer{flatValues, flatPositions})
	if values, err = flatValues.reshape(p.axes.shape...); err != nil {
		return nil, nil, err
	}
	if positions, err = flatPositions.reshape(p.axes.shape...); err != nil {
		values.Release()
		return nil, nil, err
	}
	return values, positions, nil
}

// rowsOf returns a contiguous copy with the reduced axes last, and these axes of it.
func (a *NDBuffer) rowsOf(p *reductionPlan) (rows *NDBuffer, axes []int, err error) {
	var kept, reduced []int
	axes = []int{}
	for axis, is := range p.axes.isReduced {
		if is {
			reduced = append(reduced, axis)
		} else {
			kept = append(kept, axis)
		}
	}
	for i := range reduced {
		axes = append(axes, len(kept)+i)
	}
	transposed, err := a.transpose(append(kept, reduced...)...)
	if err != nil {
		return nil, nil, err
	}
	defer transposed.Release()
	rows, err = transposed.inCOrder()
	return rows, axes, err
}

// pickElements writes the elements of a at positions to values.
func pickElements(n *reductionNest, values, positions, a *NDBuffer) error {
	size := a.dtype.Size()
	n.loops.OutSize = int32(size)
	at := n.to / size * Int64.Size()
	if src, ok := a.hostAt(); ok {
		dst, _ := values.hostAt()
		from, _ := positions.hostAt()
		reduce.Pick(&n.loops, unsafe.Add(src, n.from), unsafe.Add(dst, n.to), unsafe.Add(from, at), size)
		return nil
	}
	return launch.QueueItems(a.Device(), pickProgram, fmt.Sprintf("quiver_pick_%d", size), n.loops.Outputs, 1,
		a.at(n.from), values.atOut(n.to), positions.at(at), launch.StructBytes(&n.loops))
}

var pickProgram = launch.Program("reduce/pick", func() map[string]cudabuf.HostKernel {
	kernels := map[string]cudabuf.HostKernel{}
	for _, size := range []int64{1, 2, 4, 8, 16} {
		kernels[fmt.Sprintf("quiver_pick_%d", size)] = pickHostKernel(size)
	}
	return kernels
}())

// pickHostKernel returns the host kernel for elements of size bytes.
func pickHostKernel(size int64) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		p := launch.StructArg[reduce.Plan](l, 3)
		low, high, outLow, outHigh := p.ByteBounds(size)
		steps, outSteps := stepsOf(&p)
		launch.MustAlign(l, 0, size, steps...)
		launch.MustAlign(l, 1, size, outSteps...)
		launch.MustAlign(l, 2, 8)
		reduce.Pick(&p, launch.PointerArg(l, 0, low, high), launch.PointerArg(l, 1, outLow, outHigh),
			launch.PointerArg(l, 2, outLow/size*8, outHigh/size*8), size)
	}
}
