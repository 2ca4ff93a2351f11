package ndview

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

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
