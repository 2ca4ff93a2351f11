package ndview

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// fits32 tells whether 32 bits count all elements, and reach all their bytes.
func fits32(size int64, shape, strides []int64) bool {
	low, high, ok := layout.Extent(size, 0, shape, strides)
	return ok && product(shape) <= math.MaxInt32 && high-low <= math.MaxInt32
}

// loops appends extents, and the strides of each array, to a struct of C.
func loops(words []byte, n layout.Nest) []byte {
	for _, values := range append([][]int64{n.Shape}, n.Strides...) {
		for _, v := range values {
			words = binary.NativeEndian.AppendUint64(words, uint64(v))
		}
	}
	return words
}

// walkForm names what of operands a source depends on: how many loops walk them,
// and of a single loop which arrays stand still (0) or lie without gaps (1).
func walkForm(n layout.Nest, sizes []int64, small bool) string {
	form := []byte{byte(len(n.Shape)), 'L'}
	if small {
		form[1] = 'S'
	}
	if len(n.Shape) == 1 {
		for i, size := range sizes {
			switch n.Strides[i][0] {
			case 0:
				form = append(form, '0')
			case size:
				form = append(form, '1')
			default:
				form = append(form, '-')
			}
		}
	}
	return string(form) + "/"
}

// atLeastOne gives a nest of no loops one of a single turn.
func atLeastOne(n layout.Nest) layout.Nest {
	if len(n.Shape) > 0 {
		return n
	}
	n.Shape = []int64{1}
	for i := range n.Strides {
		n.Strides[i] = []int64{0}
	}
	return n
}

// together is the shape that the operands take together, and the strides of the
// arrays as they are walked so, those that are written first.
func together(args []KernelArg, o *operands) (shape []int64, strides [][]int64, sizes []int64, err error) {
	var shapes [][]int64
	for _, a := range o.arrays {
		if a != nil {
			shapes = append(shapes, a.shape)
		}
	}
	if shape, err = layout.Broadcast(shapes...); err != nil {
		return nil, nil, nil, err
	}
	for i, a := range o.arrays {
		if a == nil {
			continue
		}
		if args[i].Write && !slices.Equal(a.shape, shape) {
			return nil, nil, nil, fmt.Errorf("argument %s of shape %v is written with elements of shape %v: %w", args[i].Name, a.shape, shape, ErrShape)
		}
		stretched, err := layout.Stretch(a.shape, a.strides, shape)
		if err != nil {
			return nil, nil, nil, err
		}
		strides, sizes = append(strides, stretched), append(sizes, a.dtype.Size())
	}
	if len(strides) == 0 {
		return nil, nil, nil, errors.New("there is no array among the operands")
	}
	return shape, strides, sizes, nil
}

// reduced is the shape that operands take together, apart: the axes that stay
// and those that are reduced.
type reduced struct {
	named   []bool  // which axes are reduced
	kept    []int64 // extents
	gone    []int64
	inPlace []int64 // of all axes, 1 where reduced
}

func (k *ReductionKernel) reduced(o *operands, axes []int) (r reduced, err error) {
	shape, _, _, err := together(k.args, o)
	if err != nil {
		return r, err
	}
	if axes == nil {
		axes = forwards(len(shape))
	}
	if r.named, err = layout.Axes(axes, len(shape)); err != nil {
		return r, err
	}
	r.kept, r.gone, r.inPlace = []int64{}, []int64{}, slices.Clone(shape)
	for i, extent := range shape {
		if r.named[i] {
			r.gone, r.inPlace[i] = append(r.gone, extent), 1
		} else {
			r.kept = append(r.kept, extent)
		}
	}
	return r, nil
}

// keptStrides are those of the axes that stay, of a result that has all axes or
// only those.
func (r reduced) keptStrides(strides []int64, all bool) []int64 {
	if !all {
		return strides
	}
	kept, _ := r.apart(strides)
	return kept
}

// apart are the strides along the axes that stay, and along the others.
func (r reduced) apart(strides []int64) (kept, gone []int64) {
	kept, gone = []int64{}, []int64{}
	for i, stride := range strides {
		if r.named[i] {
			gone = append(gone, stride)
		} else {
			kept = append(kept, stride)
		}
	}
	return kept, gone
}
