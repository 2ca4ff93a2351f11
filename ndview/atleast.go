package ndview

// AtLeast1D is a view of an array with one axis at least: one element as an axis
// of one.
func AtLeast1D(a *NDBuffer) (*NDBuffer, error) {
	if len(a.shape) == 0 {
		return a.ExpandDims(0)
	}
	return a.ExpandDims()
}

// AtLeast2D is a view of an array with two axes at least: one axis of n becomes
// the shape [1, n].
func AtLeast2D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.ExpandDims(0, 1)
	case 1:
		return a.ExpandDims(0)
	default:
		return a.ExpandDims()
	}
}

// AtLeast3D is a view of an array with three axes at least: one axis of n becomes
// the shape [1, n, 1], two of m and n become [m, n, 1].
func AtLeast3D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.ExpandDims(0, 1, 2)
	case 1:
		return a.ExpandDims(0, 2)
	case 2:
		return a.ExpandDims(2)
	default:
		return a.ExpandDims()
	}
}
