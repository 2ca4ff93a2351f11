package blas

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
)

// MatMul returns NumPy's matmul(a, b): the product of the matrices in the last two axes,
// with the axes before them broadcast. A vector a is a row, a vector b a column, and
// that axis is not in the result. Operands of different dtypes are cast to the type of
// ndview.Promote. Of the options, only TF32 and Stream may be set. Otherwise it is [Gemm].
func MatMul(a, b *ndview.NDBuffer, o Options) (_ *ndview.NDBuffer, err error) {
	defer nameError("MatMul", &err)
	a, b, release, err := promoted(a, b, o)
	if err != nil {
		return nil, err
	}
	defer release()
	return multiply(matmulShapes, a, b, o)
}

// MatMulInto writes NumPy's matmul(a, b) to out, whose dtype is the common type of the
// operands, see [MatMul]. out may have any strides, and may overlap a and b.
func MatMulInto(out, a, b *ndview.NDBuffer, o Options) (err error) {
	defer nameError("MatMulInto", &err)
	a, b, release, err := promoted(a, b, o)
	if err != nil {
		return err
	}
	defer release()
	return multiplyInto(matmulShapes, out, a, b, o)
}

func matmulShapes(a, b *ndview.NDBuffer, o *Options) (*problem, error) {
	p, err := newProblem(a, b, o)
	if err != nil {
		return nil, err
	}
	if p.dropRow = a.NDim() == 1; p.dropRow {
		p.a = row(a)
	} else {
		p.a = matricesOf(a, NoTrans)
	}
	if p.dropColumn = b.NDim() == 1; p.dropColumn {
		p.b = column(b)
	} else {
		p.b = matricesOf(b, NoTrans)
	}
	return p, p.broadcast()
}

// promoted returns the operands in their common type. The caller must release them.
func promoted(a, b *ndview.NDBuffer, o Options) (_, _ *ndview.NDBuffer, release func(), err error) {
	release, err = retain(a, b)
	if err != nil {
		return nil, nil, nil, err
	}
	fail := func(err error) (_, _ *ndview.NDBuffer, _ func(), _ error) {
		release()
		return nil, nil, nil, err
	}
	switch {
	case a.NDim() == 0 || b.NDim() == 0:
		return fail(fmt.Errorf("got arrays of %d and %d axes, want at least 1: %w", a.NDim(), b.NDim(), ndview.ErrShape))
	case o.Alpha != nil || o.Beta != nil || o.C != nil || o.TransA != NoTrans || o.TransB != NoTrans:
		return fail(fmt.Errorf("Alpha, Beta, C, TransA or TransB is set: want only TF32 and Stream: %w", ErrOption))
	case a.DType() == b.DType():
		return a, b, release, nil
	}
	t, err := ndview.Promote(a.DType(), b.DType())
	if err != nil {
		return fail(err)
	}
	made := [2]*ndview.NDBuffer{}
	for i, x := range []*ndview.NDBuffer{a, b} {
		if x.DType() == t {
			x.Retain()
			made[i] = x
			continue
		}
		if o.Stream.Capturing() {
			err = errCapture
		} else {
			made[i], err = x.AsType(t, ndview.OrderK, ndview.CastSafe)
		}
		if err != nil {
			made[0].Release()
			return fail(err)
		}
	}
	release()
	return made[0], made[1], func() { made[0].Release(); made[1].Release() }, nil
}
