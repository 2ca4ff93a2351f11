package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// Tril is a copy in C order of what lies on and below a diagonal of the last two
// axes, and 0 elsewhere: element [.., i, j] is kept if j-i <= k. k is 0 for the
// main diagonal, negative for one below it. Of one axis the elements are the rows
// of a square, as in NumPy; without an axis the error is ErrShape, and ErrDType
// for elements of other sizes than 1, 2, 4, 8 and 16 bytes.
func (a *NDBuffer) Tril(k int64) (*NDBuffer, error) { return a.triangle(k, false) }

// Triu is Tril for what lies on and above the diagonal: j-i >= k.
func (a *NDBuffer) Triu(k int64) (*NDBuffer, error) { return a.triangle(k, true) }

// TrilInPlace is Tril in the array itself, which has two axes at least.
func (a *NDBuffer) TrilInPlace(k int64) error { return a.cutTriangle(k, false) }

// TriuInPlace is Triu in the array itself, which has two axes at least.
func (a *NDBuffer) TriuInPlace(k int64) error { return a.cutTriangle(k, true) }

func (a *NDBuffer) triangle(k int64, upper bool) (*NDBuffer, error) {
	if len(a.shape) == 1 {
		square, err := a.BroadcastTo(a.shape[0], a.shape[0])
		if err != nil {
			return nil, err
		}
		defer square.Release()
		return square.triangle(k, upper)
	}
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	if err := a.checkTriangle(); err != nil {
		return nil, err
	}
	from := a
	if !a.isMatrices() {
		dense, err := a.Copy(OrderC)
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

func (a *NDBuffer) cutTriangle(k int64, upper bool) error {
	release, err := holdToWrite(a)
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
		return fmt.Errorf("a triangle of an array of %d axes, of 2 or more: %w", len(a.shape), ErrShape)
	case size > 16 || 16%size != 0:
		return fmt.Errorf("a triangle of %s, elements of %d bytes: want 1, 2, 4, 8 or 16: %w", a.dtype, size, ErrDType)
	}
	return nil
}

// isMatrices tells whether the matrices lie as the kernel takes them: one after the
// other, of whole elements.
func (a *NDBuffer) isMatrices() bool { return a.IsContiguous() && a.aligned() }

// writeTriangle writes what is kept of such matrices, and 0 elsewhere. out
// may be a itself.
func writeTriangle(out, a *NDBuffer, k int64, upper bool) error {
	if a.Size() == 0 {
		return nil
	}
	n, size := len(a.shape), a.dtype.Size()
	t := cpu.Triangle{Vectors: a.Size(), Rows: a.shape[n-2], Columns: a.shape[n-1], Vector: 1}
	// Beyond the matrix one diagonal is as another, and sums do not wrap.
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
	return launch.Items(out.Device(), triangleProgram, fmt.Sprintf("quiver_triangle_%d", size), t.Vectors, 1,
		a.in(), out.inOut(), launch.StructOf(&t))
}

var triangleProgram = launch.Program("copy/triangle", func() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{}
	for _, size := range []int64{1, 2, 4, 8, 16} {
		twins[fmt.Sprintf("quiver_triangle_%d", size)] = func(l *cudabuf.HostLaunch) {
			t := launch.Parameters[cpu.Triangle](l, 2)
			n := t.Vectors * int64(t.Vector) * size
			launch.MustAlign(l, 0, int64(t.Vector)*size)
			launch.MustAlign(l, 1, int64(t.Vector)*size)
			cpu.WriteTriangle(launch.Reached(l, 1, 0, n), launch.Reached(l, 0, 0, n), size, &t)
		}
	}
	return twins
}())
