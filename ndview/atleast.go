package ndview

import "slices"

// AtLeast1D is a view of an array with one axis at least: one element as an axis
// of one.
func AtLeast1D(a *NDBuffer) (*NDBuffer, error) {
	if len(a.shape) == 0 {
		return a.withAxes(0)
	}
	return a.withAxes()
}

// AtLeast2D is a view of an array with two axes at least: one axis of n becomes
// the shape [1, n].
func AtLeast2D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.withAxes(0, 0)
	case 1:
		return a.withAxes(0)
	default:
		return a.withAxes()
	}
}

// AtLeast3D is a view of an array with three axes at least: one axis of n becomes
// the shape [1, n, 1], two of m and n become [m, n, 1].
func AtLeast3D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.withAxes(0, 0, 0)
	case 1:
		return a.withAxes(0, 2)
	case 2:
		return a.withAxes(2)
	default:
		return a.withAxes()
	}
}

// withAxes is a view with axes of extent 1, inserted one after the other.
func (a *NDBuffer) withAxes(places ...int) (*NDBuffer, error) {
	shape, strides := slices.Clone(a.shape), slices.Clone(a.strides)
	for _, at := range places {
		shape, strides = slices.Insert(shape, at, 1), slices.Insert(strides, at, 0)
	}
	return a.view(a.dtype, a.offset, shape, strides)
}
