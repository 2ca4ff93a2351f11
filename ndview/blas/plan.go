package blas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// matrices is a stack of matrices over the memory of an array. The last two axes are rows
// and columns. Strides are in bytes.
type matrices struct {
	buf            arrowbuf.Buffer
	offset         int64
	shape, strides []int64
	conj           bool // elements are conjugated when they are read
}

// matricesOf returns an array of at least two axes as matrices, transposed if asked for.
func matricesOf(a *ndview.NDBuffer, t Trans) matrices {
	m := matrices{buf: a.Buffer(), offset: a.Offset(), shape: a.Shape(), strides: a.Strides(), conj: t == ConjTranspose}
	if t != NoTrans {
		n := a.NDim()
		m.shape, m.strides = append([]int64(nil), m.shape...), append([]int64(nil), m.strides...)
		m.shape[n-2], m.shape[n-1] = m.shape[n-1], m.shape[n-2]
		m.strides[n-2], m.strides[n-1] = m.strides[n-1], m.strides[n-2]
	}
	return m
}

// column returns a vector as a matrix of one column, row as one of one row.
func column(x *ndview.NDBuffer) matrices {
	return matrices{buf: x.Buffer(), offset: x.Offset(), shape: []int64{x.Shape()[0], 1}, strides: []int64{x.Strides()[0], 0}}
}

func row(x *ndview.NDBuffer) matrices {
	return matrices{buf: x.Buffer(), offset: x.Offset(), shape: []int64{1, x.Shape()[0]}, strides: []int64{0, x.Strides()[0]}}
}

func (m *matrices) leading() []int64 { return m.shape[:len(m.shape)-2] }
func (m *matrices) rows() int64      { return m.shape[len(m.shape)-2] }
func (m *matrices) cols() int64      { return m.shape[len(m.shape)-1] }

// aligned reports whether the address of each element is a multiple of the size, as
// cuBLAS and kernels need.
func (m *matrices) aligned(size int64) bool {
	bits := int64(m.buf.Address()) + m.offset
	for i, s := range m.strides {
		if m.shape[i] > 1 {
			bits |= s
		}
	}
	return bits&(size-1) == 0
}

// matrix is the layout of one matrix, with strides in elements.
type matrix struct {
	rows, cols           int64
	rowStride, colStride int64
	conj                 bool
}

// one returns the layout of one matrix of a stack.
func (m *matrices) one(size int64) matrix {
	n := len(m.shape)
	return matrix{m.shape[n-2], m.shape[n-1], m.strides[n-2] / size, m.strides[n-1] / size, m.conj}
}

func (m matrix) transposed() matrix {
	return matrix{m.cols, m.rows, m.colStride, m.rowStride, m.conj}
}

// form is how column-major memory is read as a matrix: as the matrix itself or as its
// transpose, with the distance of its columns in elements.
type form struct {
	op int32
	ld int64
}

// Values of cublasOperation_t.
const (
	opN int32 = 0
	opT int32 = 1
	opC int32 = 2
)

// form returns the form of a matrix, and whether it has one. A conjugated matrix must be
// a transpose.
func (m matrix) form() (form, bool) {
	if ld, ok := m.columnMajor(); ok && !m.conj {
		return form{opN, ld}, true
	}
	op := opT
	if m.conj {
		op = opC
	}
	ld, ok := m.transposed().columnMajor()
	return form{op, ld}, ok
}

// columnMajor returns the distance of the columns of a column-major matrix, and whether
// the matrix is one.
func (m matrix) columnMajor() (ld int64, ok bool) {
	switch {
	case m.rows > 1 && m.rowStride != 1:
		return 0, false
	case m.cols <= 1:
		return max(1, m.rows), true
	}
	return m.colStride, m.colStride >= max(1, m.rows)
}

// forms are the forms of the operands of a product. If swapped is set, they are those of
// the transposed product, which is what cuBLAS computes for a result in C order.
type forms struct {
	swapped bool
	a, b    form // the first and the second operand of the product that is computed
	ldc     int64
}

// formsOf returns the forms of a product, and whether it has any.
func formsOf(a, b, c matrix) (f forms, ok bool) {
	for _, f.swapped = range []bool{true, false} {
		x, y, z := a, b, c
		if f.swapped {
			x, y, z = b.transposed(), a.transposed(), c.transposed()
		}
		var okA, okB, okC bool
		f.a, okA = x.form()
		f.b, okB = y.form()
		f.ldc, okC = z.columnMajor()
		if okA && okB && okC {
			return f, true
		}
	}
	return f, false
}

// product is C = alpha op(A) op(B) + beta C for each of a batch of column-major matrices,
// as cuBLAS defines cublasGemmStridedBatchedEx. Sizes and strides count elements. Its
// layout is that of struct Product of kernels/blas/product.cuh.
type product struct {
	m, n, k                   int64
	lda, ldb, ldc             int64
	strideA, strideB, strideC int64
	batch                     int64
	alpha, beta               [2]uint64 // as one element; of halves as a float32
	opA, opB                  int32
	readC                     int32 // beta is not 0
	split                     int32 // the blocks of a kernel add to a result
}

// operand is where the first element of an operand lies.
type operand struct {
	buf    arrowbuf.Buffer
	offset int64 // bytes
}

// matricesOfResult returns a result as matrices.
func (p *problem) matricesOfResult(out *ndview.NDBuffer) matrices {
	c := matrices{buf: out.Buffer(), offset: out.Offset(), shape: p.shape, strides: out.Strides()}
	if !p.dropRow && !p.dropColumn {
		return c
	}
	c.strides = slices.Clone(c.strides)
	if p.dropRow { // of extent 1
		c.strides = slices.Insert(c.strides, len(p.shape)-2, 0)
	}
	if p.dropColumn {
		c.strides = append(c.strides, 0)
	}
	return c
}

// usable reports whether products can be written to an array directly.
func (p *problem) usable(out *ndview.NDBuffer) bool {
	c := p.matricesOfResult(out)
	for i, s := range c.strides {
		if s == 0 && c.shape[i] > 1 { // an element has several indices
			return false
		}
	}
	one := c.one(p.dtype.Size())
	_, columns := one.columnMajor()
	_, rows := one.transposed().columnMajor()
	return c.aligned(p.dtype.Size()) && (columns || rows)
}

// run computes the product into an array that usable accepts.
func (p *problem) run(out *ndview.NDBuffer, beta scalar) error {
	alpha, err := p.alpha()
	if err != nil || out.Size() == 0 {
		return err
	}
	e, err := newExecutor(out.Device(), p)
	if err != nil {
		return err
	}
	c := p.matricesOfResult(out)
	x := product{k: p.a.cols(), alpha: alpha.bits, beta: beta.bits}
	if !beta.zero {
		x.readC = 1
	}
	if alpha.zero {
		x.k = 0
	}
	if x.k == 0 { // operands that are not read, and have any layout
		n, strides := len(c.shape), []int64{p.dtype.Size(), p.dtype.Size()}
		a := matrices{buf: c.buf, offset: c.offset, shape: []int64{c.shape[n-2], 0}, strides: strides}
		b := matrices{buf: c.buf, offset: c.offset, shape: []int64{0, c.shape[n-1]}, strides: strides}
		return p.runStacks(e, a, b, c, x)
	}
	a, releaseA, err := p.readable(p.a)
	if err != nil {
		return err
	}
	defer func() { releaseA() }()
	b, releaseB, err := p.readable(p.b)
	if err != nil {
		return err
	}
	defer func() { releaseB() }()
	size := p.dtype.Size()
	if _, ok := formsOf(a.one(size), b.one(size), c.one(size)); !ok && a.conj {
		if a, releaseA, err = p.replace(a, releaseA); err != nil {
			return err
		}
	}
	if _, ok := formsOf(a.one(size), b.one(size), c.one(size)); !ok && b.conj {
		if b, releaseB, err = p.replace(b, releaseB); err != nil {
			return err
		}
	}
	return p.runStacks(e, a, b, c, x)
}

// readable returns matrices that have a form, or a copy of them. Only a conjugated operand
// may then lack a form in one orientation of the product.
func (p *problem) readable(m matrices) (_ matrices, release func(), err error) {
	m.conj = m.conj && p.number.complex
	one := m.one(p.dtype.Size())
	one.conj = false
	if _, ok := one.form(); ok && m.aligned(p.dtype.Size()) {
		return m, func() {}, nil
	}
	return p.copied(m)
}

// replace releases matrices and returns a copy that is conjugated already.
func (p *problem) replace(m matrices, release func()) (matrices, func(), error) {
	made, releaseMade, err := p.copied(m)
	if err != nil {
		return m, release, err
	}
	release()
	return made, releaseMade, nil
}

// copied returns a copy of matrices in C order, conjugated if they are.
func (p *problem) copied(m matrices) (_ matrices, release func(), err error) {
	if err := p.mayCopy("an operand"); err != nil {
		return m, nil, err
	}
	view, err := ndview.FromBuffer(m.buf, p.dtype, m.offset, m.shape, m.strides)
	if err != nil {
		return m, nil, err
	}
	defer view.Release()
	dense, err := ndview.Empty(view.Device(), p.dtype, m.shape...)
	if err != nil {
		return m, nil, err
	}
	if m.conj {
		err = ndview.Conjugate.Into(dense, view)
	} else {
		err = dense.CopyFrom(view)
	}
	if err != nil {
		dense.Release()
		return m, nil, err
	}
	return matricesOf(dense, NoTrans), dense.Release, nil
}

// runStacks computes the products of stacks of matrices, whose leading axes broadcast, with
// few calls of the executor.
func (p *problem) runStacks(e executor, a, b, c matrices, x product) error {
	size, lead := p.dtype.Size(), len(c.shape)-2
	nest := oneMatrix()
	if lead > 0 {
		nest = layout.Collapse(c.shape[:lead], c.strides[:lead], a.leadingStrides(c.shape[:lead]), b.leadingStrides(c.shape[:lead]))
	}
	atC, atA, atB := operand{c.buf, c.offset + nest.Offsets[0]}, operand{a.buf, a.offset + nest.Offsets[1]}, operand{b.buf, b.offset + nest.Offsets[2]}
	for _, strides := range nest.Strides {
		for i := range strides {
			strides[i] /= size
		}
	}
	f, ok := joinStacks(&nest, a.one(size), b.one(size), c.one(size), &x)
	if !ok {
		return fmt.Errorf("the layout of the operands: %w", errors.ErrUnsupported)
	}
	if f.swapped {
		atA, atB = atB, atA
		nest.Strides[1], nest.Strides[2] = nest.Strides[2], nest.Strides[1]
	}
	x.opA, x.lda, x.opB, x.ldb, x.ldc = f.a.op, f.a.ld, f.b.op, f.b.ld, f.ldc

	// One axis is the batch of a call, the longest that cuBLAS accepts.
	x.batch = 1
	inner := -1
	for i, d := range nest.Shape {
		if d > x.batch && nest.Strides[1][i] >= 0 && nest.Strides[2][i] >= 0 {
			x.batch, inner = d, i
		}
	}
	if inner >= 0 {
		x.strideC, x.strideA, x.strideB = nest.Strides[0][inner], nest.Strides[1][inner], nest.Strides[2][inner]
	}
	index := make([]int64, len(nest.Shape))
	for {
		at := [3]int64{}
		for i, j := range index {
			for s := range at {
				at[s] += j * nest.Strides[s][i] * size
			}
		}
		err := e.multiply(&x, operand{atA.buf, atA.offset + at[1]}, operand{atB.buf, atB.offset + at[2]}, operand{atC.buf, atC.offset + at[0]})
		if err != nil {
			return err
		}
		if !next(index, nest.Shape, inner) {
			return nil
		}
	}
}

// oneMatrix returns the nest of arrays without leading axes.
func oneMatrix() layout.Nest {
	return layout.Nest{Strides: make([][]int64, 3), Offsets: make([]int64, 3)}
}

// next increments an index, without one axis. It returns false after the last index.
func next(index, shape []int64, without int) bool {
	for i := range index {
		if i == without {
			continue
		}
		if index[i]++; index[i] < shape[i] {
			return true
		}
		index[i] = 0
	}
	return false
}

// leadingStrides returns the strides along the leading axes of a result, 0 where the
// matrices are broadcast.
func (m *matrices) leadingStrides(shape []int64) []int64 {
	strides := make([]int64, len(shape))
	own := m.leading()
	for i, d := range own {
		if at := i + len(shape) - len(own); d == shape[at] {
			strides[at] = m.strides[i]
		}
	}
	return strides
}

// joinStacks sets the sizes of the product and returns its forms. A stack of matrices that
// is multiplied by one matrix is one tall or wide matrix if its rows or columns are
// evenly spaced, so that axis of the nest is removed.
func joinStacks(nest *layout.Nest, a, b, c matrix, x *product) (forms, bool) {
	for i := 0; i < len(nest.Shape); i++ {
		d, strideC, strideA, strideB := nest.Shape[i], nest.Strides[0][i], nest.Strides[1][i], nest.Strides[2][i]
		ja, jb, jc := a, b, c
		var ok bool
		switch {
		case x.k == 0 || strideA != 0 && strideB != 0:
		case strideB == 0:
			ok = ja.joinRows(d, strideA) && jc.joinRows(d, strideC)
		default:
			tb, tc := b.transposed(), c.transposed()
			ok = tb.joinRows(d, strideB) && tc.joinRows(d, strideC)
			jb, jc = tb.transposed(), tc.transposed()
		}
		if ok {
			_, ok = formsOf(ja, jb, jc)
		}
		if !ok {
			continue
		}
		a, b, c = ja, jb, jc
		nest.Shape = slices.Delete(nest.Shape, i, i+1)
		for s := range nest.Strides {
			nest.Strides[s] = slices.Delete(nest.Strides[s], i, i+1)
		}
		i = -1
	}
	f, ok := formsOf(a, b, c)
	x.m, x.n = c.rows, c.cols
	if f.swapped {
		x.m, x.n = c.cols, c.rows
	}
	return f, ok
}

// joinRows makes n matrices, a stride apart, one matrix of n times the rows. It returns
// false if the rows are not evenly spaced.
func (m *matrix) joinRows(n, stride int64) bool {
	if m.rows > 1 && stride != m.rows*m.rowStride {
		return false
	}
	if m.rows <= 1 {
		m.rowStride = stride
	}
	m.rows *= n
	return true
}

// scalar is a factor in the type in which products are computed.
type scalar struct {
	bits [2]uint64
	zero bool
}

// alpha and beta convert the factors. nil means 1 and 0.
func (p *problem) alpha() (scalar, error) {
	if p.o.Alpha == nil {
		return scalar{bits: p.number.one}, nil
	}
	return p.scalar("Alpha", p.o.Alpha)
}

func (p *problem) beta() (scalar, error) {
	if p.o.Beta == nil {
		return scalar{zero: true}, nil
	}
	return p.scalar("Beta", p.o.Beta)
}

// scalar converts a factor.
func (p *problem) scalar(name string, v any) (s scalar, err error) {
	number, err := ndview.ScalarOf(v)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	from, to := number.Natural(), p.number.scalar
	switch {
	case from.Kind() == ndview.KindComplex && !p.number.complex,
		from.IsFloat() && !to.IsFloat() && !p.number.complex,
		!from.IsNumeric() && from != ndview.Bool:
		return s, fmt.Errorf("%s: got a %s for arrays of %s: %w", name, from, p.dtype, ndview.ErrDType)
	}
	raw, err := number.Bytes(to)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	var bits [16]byte
	copy(bits[:], raw)
	s.bits = [2]uint64{binary.LittleEndian.Uint64(bits[:8]), binary.LittleEndian.Uint64(bits[8:])}
	// The bits of -0 are not 0.
	zero, err := number.Bytes(ndview.Complex128)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	re, im := math.Float64frombits(binary.NativeEndian.Uint64(zero)), math.Float64frombits(binary.NativeEndian.Uint64(zero[8:]))
	s.zero = s.bits == [2]uint64{} || re == 0 && im == 0
	return s, nil
}
