package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Order says in which order elements lie in memory, or are counted.
type Order byte

const (
	// OrderC: the last axis varies fastest. It is what the zero Order means.
	OrderC Order = 'C'
	// OrderF: the first axis varies fastest, as in Fortran.
	OrderF Order = 'F'
	// OrderA: F for an array that lies in F order and not in C order, else C.
	OrderA Order = 'A'
	// OrderK: the order in which the elements lie, as near as can be.
	OrderK Order = 'K'
)

// check answers ErrShape for what is no order.
func (o Order) check() error {
	switch o {
	case 0, OrderC, OrderF, OrderA, OrderK:
		return nil
	}
	return fmt.Errorf("order %q: want one of 'C', 'F', 'A' and 'K': %w", byte(o), ErrShape)
}

// fortran resolves every order but K for an array.
func (o Order) fortran(a *NDBuffer) bool {
	return o == OrderF || o == OrderA && a.isF() && !a.IsContiguous()
}

func (a *NDBuffer) isF() bool { return layout.IsF(a.dtype.Size(), a.shape, a.strides) }
