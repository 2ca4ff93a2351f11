package stridedcopy

import (
	"math"
	"math/bits"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// MaxAxes is how many axes a plan has, and MaxItems how many units. What has
// more is cut.
const (
	MaxAxes  = 16
	MaxItems = math.MaxInt32
)

// Axis adds a step of bytes for each Every items, of less than 2^31, by which Divide
// divides. The first axis adds one for each item. The sum of what the axes add is where
// an item is. The structs of this package have C's layout.
type Axis struct {
	Every, Dst, Src int64
	Divide
}

// axes count the items of axes k of a nest, the fastest first.
func axes(n layout.Nest, order []int) []Axis {
	out := make([]Axis, 0, len(order))
	every := int64(1)
	for i, k := range order {
		a := Axis{Every: every, Dst: n.Strides[0][k], Src: n.Strides[1][k]}
		if i > 0 { // the axis before has come back to its start then
			before := order[i-1]
			a.Dst -= n.Shape[before] * n.Strides[0][before]
			a.Src -= n.Shape[before] * n.Strides[1][before]
		}
		a.Divide = divide(every)
		out = append(out, a)
		every *= n.Shape[k]
	}
	return out
}

// Divide divides an item of less than 2^31: the quotient is item*Magic>>32>>Shift, or
// the item where there is no Magic.
type Divide struct{ Magic, Shift uint32 }

func divide(by int64) Divide {
	if by < 2 {
		return Divide{}
	}
	shift := uint32(bits.Len32(uint32(by - 1)))
	return Divide{uint32((uint64(1)<<(31+shift) + uint64(by) - 1) / uint64(by)), shift - 1}
}

// grow puts the axes that count so many items around a nest.
func grow(n layout.Nest, axes []Axis, items int64) layout.Nest {
	var dst, src, extent int64
	for i, a := range axes {
		dst, src = extent*dst+a.Dst, extent*src+a.Src
		extent = items / a.Every
		if i+1 < len(axes) {
			extent = axes[i+1].Every / a.Every
		}
		n.Shape = append([]int64{extent}, n.Shape...)
		n.Strides[0] = append([]int64{dst}, n.Strides[0]...)
		n.Strides[1] = append([]int64{src}, n.Strides[1]...)
	}
	return n
}

func newNest() layout.Nest {
	return layout.Nest{Strides: make([][]int64, 2), Offsets: make([]int64, 2)}
}
