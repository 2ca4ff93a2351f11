package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Flags are what NumPy calls an array's flags. They are worked out anew for
// every array, so a view has its own.
type Flags struct {
	CContiguous bool // elements lie in C order without gaps, as no elements do
	FContiguous bool // elements lie in Fortran order without gaps, as no elements do
	Aligned     bool // every element's address is a multiple of what its type wants
	Writeable   bool // what writes to the array does not answer ErrReadOnly
	OwnData     bool // the array is no view of another: Base is nil
}

// Flags tells how the elements lie and what may be done to them.
func (a *NDBuffer) Flags() Flags {
	return Flags{
		CContiguous: a.IsContiguous(),
		FContiguous: a.isF(),
		Aligned:     a.isAligned(),
		Writeable:   a.checkWriteable() == nil,
		OwnData:     a.base == nil,
	}
}

// FNC is NumPy's: F order and not C order.
func (f Flags) FNC() bool { return f.FContiguous && !f.CContiguous }

// FORC is NumPy's: F order or C order.
func (f Flags) FORC() bool { return f.FContiguous || f.CContiguous }

// Behaved is NumPy's: aligned and writeable.
func (f Flags) Behaved() bool { return f.Aligned && f.Writeable }

// CArray is NumPy's: behaved and in C order.
func (f Flags) CArray() bool { return f.Behaved() && f.CContiguous }

// FArray is what NumPy's documents say: behaved and in F order and not C order.
func (f Flags) FArray() bool { return f.Behaved() && f.FNC() }

// String lists the flags as NumPy does.
func (f Flags) String() string {
	return fmt.Sprintf("C_CONTIGUOUS : %t\nF_CONTIGUOUS : %t\nOWNDATA : %t\nWRITEABLE : %t\nALIGNED : %t",
		f.CContiguous, f.FContiguous, f.OwnData, f.Writeable, f.Aligned)
}

func (a *NDBuffer) isAligned() bool {
	places := int64(a.buf.Address()) + a.offset
	for i, d := range a.shape {
		if d == 0 {
			return true
		}
		if d > 1 {
			places |= a.strides[i]
		}
	}
	return places%a.dtype.alignment() == 0
}

// mayChange tells whether memory may be written to.
func mayChange(buf arrowbuf.Buffer) bool {
	b, ok := buf.(interface{ Mutable() bool })
	return !ok || b.Mutable()
}

// checkWriteable answers ErrReadOnly for an array that must not be written to.
func (a *NDBuffer) checkWriteable() error {
	if a.readOnly {
		return fmt.Errorf("writing to an array of %s %v: %w", a.dtype, a.shape, ErrReadOnly)
	}
	return nil
}
