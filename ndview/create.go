package ndview

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Options are the options of New.
type Options struct {
	// Order is the order in memory: OrderF, or C for any other, because no array
	// exists to imitate.
	Order Order
	// Fill is the value of the elements, see [NDBuffer.Fill]. If it is nil they are
	// undefined.
	Fill any
}

// New returns a contiguous array on a device. The caller owns its one reference.
func New(dev arrowbuf.Device, dtype DType, shape []int64, o Options) (_ *NDBuffer, err error) {
	defer nameError("New", &err)
	if err := o.Order.check(); err != nil {
		return nil, err
	}
	a, err := newArray(dev, allocate, dtype, shape, o.Order)
	if err == nil && o.Fill != nil {
		if err = a.Fill(o.Fill); err != nil {
			a.Release()
			return nil, err
		}
	}
	return a, err
}

// newArray returns an array in memory that alloc returns.
func newArray(dev arrowbuf.Device, alloc func(arrowbuf.Device, int64) (arrowbuf.Buffer, error),
	dtype DType, shape []int64, order Order) (*NDBuffer, error) {
	n, err := byteCount(dtype, shape)
	switch {
	case err != nil:
		return nil, err
	case dev == nil:
		return nil, fmt.Errorf("array of %s %v: %w", dtype, shape, errNilDevice)
	}
	strides := cStrides(dtype, shape)
	if order == OrderF {
		strides = layout.FStrides(dtype.Size(), shape)
	}
	buf, err := alloc(dev, n)
	if err != nil {
		return nil, fmt.Errorf("array of %s %v: %w", dtype, shape, err)
	}
	defer buf.Release()
	return FromBuffer(buf, dtype, 0, shape, strides)
}

// Full returns an array in C order on a device whose elements are all value, see
// [NDBuffer.Fill].
func Full(dev arrowbuf.Device, dtype DType, value any, shape ...int64) (_ *NDBuffer, err error) {
	defer nameError("Full", &err)
	if value == nil {
		return nil, fmt.Errorf("nil value: %w", ErrDType)
	}
	return New(dev, dtype, shape, Options{Fill: value})
}

// Empty returns an array in C order on a device. Its elements are undefined.
func Empty(dev arrowbuf.Device, dtype DType, shape ...int64) (_ *NDBuffer, err error) {
	defer nameError("Empty", &err)
	return New(dev, dtype, shape, Options{})
}

// Zeros returns an array in C order on a device whose bytes are all 0.
func Zeros(dev arrowbuf.Device, dtype DType, shape ...int64) (_ *NDBuffer, err error) {
	defer nameError("Zeros", &err)
	a, err := New(dev, dtype, shape, Options{})
	if err != nil {
		return nil, err
	}
	if err := a.Zero(); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}

// Fill writes one value, which [ScalarOf] accepts, to all elements, converted by
// [Scalar.Bytes]. The sign of zero is kept, and the bits of a NaN of the array's
// type.
func (a *NDBuffer) Fill(value any) (err error) {
	defer nameError("Fill", &err)
	if err := checkNil(a); err != nil {
		return err
	}
	s, err := ScalarOf(value)
	if err != nil {
		return err
	}
	element, err := s.Bytes(a.dtype)
	if err != nil {
		return err
	}
	return a.fillBits(element)
}

// Zero sets every byte of the elements to 0.
func (a *NDBuffer) Zero() error {
	if a == nil {
		return named("Zero", ErrNil)
	}
	return named("Zero", a.fillBits(make([]byte, a.dtype.Size())))
}

// fillBits writes the bytes of one element to all elements.
func (a *NDBuffer) fillBits(element []byte) error {
	release, err := retainToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	if a.Size() == 0 {
		return nil
	}
	n := layout.Collapse(a.shape, a.strides)
	contiguous := len(n.Shape) == 0 || len(n.Shape) == 1 && n.Strides[0][0] == a.dtype.Size()
	start := a.offset + n.Offsets[0]
	if to, ok := hostAt(a.buf, start); ok && contiguous {
		cpu.Fill(to, a.NBytes(), element, 0)
		return nil
	}
	if contiguous && 16%len(element) == 0 {
		return a.launchFill(start, element)
	}
	one, err := fromBytes(a.Device(), a.dtype, element)
	if err != nil {
		return err
	}
	defer one.Release()
	return a.copyBroadcast(one)
}

// launchFill fills contiguous memory that begins at an offset of the buffer.
func (a *NDBuffer) launchFill(start int64, element []byte) error {
	phase := (int64(a.buf.Address()) + start) % 16
	var pattern [16]byte
	for i := range pattern {
		pattern[i] = element[(int64(i)+16-phase)%int64(len(element))]
	}
	low, high := binary.LittleEndian.Uint64(pattern[:8]), binary.LittleEndian.Uint64(pattern[8:])
	return launch.QueueItems(a.Device(), fillProgram, "quiver_fill", a.NBytes()+phase, 16,
		launch.InOut(a.buf, start), a.NBytes(), uint32(phase), low, high)
}

var fillProgram = launch.Program("copy/fill", map[string]cudabuf.HostKernel{"quiver_fill": func(l *cudabuf.HostLaunch) {
	n := l.Int64(1)
	launch.MustAlignAt(l, 0, -int64(l.Uint32(2)), 16)
	pattern := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, l.Uint64(3)), l.Uint64(4))
	cpu.Fill(launch.PointerArg(l, 0, 0, n), n, pattern, int64(l.Uint32(2)))
}})

// Tril returns a copy in C order with the elements on and below a diagonal of the
// last two axes, and 0 elsewhere: element [.., i, j] is kept if j-i <= k. k is 0 for
// the main diagonal and negative below it. An array of one axis is repeated as the
// rows of a square, as in NumPy. It returns ErrShape for an array without axes, and
// ErrDType for elements that are not of 1, 2, 4, 8 or 16 bytes.
func (a *NDBuffer) Tril(k int64) (*NDBuffer, error) {
	return a.call("Tril", func() (*NDBuffer, error) { return a.triangle(k, false) })
}

// Triu is Tril for the elements on and above the diagonal: j-i >= k.
func (a *NDBuffer) Triu(k int64) (*NDBuffer, error) {
	return a.call("Triu", func() (*NDBuffer, error) { return a.triangle(k, true) })
}

// TrilInPlace is Tril in the array itself, which must have at least two axes.
func (a *NDBuffer) TrilInPlace(k int64) error {
	return named("TrilInPlace", a.triangleInPlace(k, false))
}

// TriuInPlace is Triu in the array itself, which must have at least two axes.
func (a *NDBuffer) TriuInPlace(k int64) error {
	return named("TriuInPlace", a.triangleInPlace(k, true))
}

func (a *NDBuffer) triangle(k int64, upper bool) (*NDBuffer, error) {
	if len(a.shape) == 1 {
		square, err := a.broadcastTo(a.shape[0], a.shape[0])
		if err != nil {
			return nil, err
		}
		defer square.Release()
		return square.triangle(k, upper)
	}
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	defer a.Release()
	if err := a.checkTriangle(); err != nil {
		return nil, err
	}
	from := a
	if !a.isMatrices() {
		dense, err := a.copy(OrderC)
		if err != nil {
			return nil, err
		}
		defer dense.Release()
		from = dense
	}
	out, err := Empty(a.Device(), a.dtype, a.shape...)
	if err != nil {
		return nil, err
	}
	if err := writeTriangle(out, from, k, upper); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

func (a *NDBuffer) triangleInPlace(k int64, upper bool) error {
	release, err := retainToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	if err := a.checkTriangle(); err != nil {
		return err
	}
	if a.isMatrices() {
		return writeTriangle(a, a, k, upper)
	}
	dense, err := a.triangle(k, upper)
	if err != nil {
		return err
	}
	defer dense.Release()
	return copyLayout(a, dense)
}

func (a *NDBuffer) checkTriangle() error {
	switch size := a.dtype.Size(); {
	case len(a.shape) < 2:
		return fmt.Errorf("a triangle of an array of %d axes, want 2 or more: %w", len(a.shape), ErrShape)
	case size > 16 || 16%size != 0:
		return fmt.Errorf("a triangle of %s, elements of %d bytes: want 1, 2, 4, 8 or 16: %w", a.dtype, size, ErrDType)
	}
	return nil
}

// isMatrices reports whether the matrices are contiguous and aligned, as the kernel
// requires.
func (a *NDBuffer) isMatrices() bool { return a.IsContiguous() && a.isSizeAligned() }

// writeTriangle writes the triangles of such matrices, and 0 elsewhere. out may be
// a.
func writeTriangle(out, a *NDBuffer, k int64, upper bool) error {
	if a.Size() == 0 {
		return nil
	}
	n, size := len(a.shape), a.dtype.Size()
	t := cpu.Triangle{Vectors: a.Size(), Rows: a.shape[n-2], Columns: a.shape[n-1], Vector: 1}
	// Diagonals outside the matrix are equal; the limits prevent overflow.
	t.Diagonal = max(-t.Rows, min(k, t.Columns))
	if upper {
		t.Upper = 1
	}
	if to, ok := out.hostAt(); ok {
		from, _ := a.hostAt()
		cpu.WriteTriangle(to, from, size, &t)
		return nil
	}
	if vector := 16 / size; t.Columns%vector == 0 && (out.address()|a.address())%16 == 0 {
		t.Vector = int32(vector)
		t.Vectors /= vector
	}
	return launch.QueueItems(out.Device(), triangleProgram, fmt.Sprintf("quiver_triangle_%d", size), t.Vectors, 1,
		a.in(), out.inOut(), launch.StructBytes(&t))
}

var triangleProgram = launch.Program("copy/triangle", func() map[string]cudabuf.HostKernel {
	hostKernels := map[string]cudabuf.HostKernel{}
	for _, size := range []int64{1, 2, 4, 8, 16} {
		hostKernels[fmt.Sprintf("quiver_triangle_%d", size)] = func(l *cudabuf.HostLaunch) {
			t := launch.StructArg[cpu.Triangle](l, 2)
			n := t.Vectors * int64(t.Vector) * size
			launch.MustAlign(l, 0, int64(t.Vector)*size)
			launch.MustAlign(l, 1, int64(t.Vector)*size)
			cpu.WriteTriangle(launch.PointerArg(l, 1, 0, n), launch.PointerArg(l, 0, 0, n), size, &t)
		}
	}
	return hostKernels
}())
