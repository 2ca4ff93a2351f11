package codec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Transpose permutes the axes of a chunk: axis i of the encoded array is axis Order[i]
// of the chunk (Zarr core 3.1, "transpose codec").
type Transpose struct {
	Order []int

	letter string // "C" or "F" of drafts in place of Order, otherwise empty
}

// Name returns "transpose".
func (Transpose) Name() string { return "transpose" }

// Configuration returns the order.
func (t Transpose) Configuration() any {
	if t.letter != "" {
		return metajson.Members{{Key: "order", Value: t.letter}}
	}
	return metajson.Members{{Key: "order", Value: metajson.NonNil(t.Order)}}
}

func parseTranspose(config *metajson.Object) (Codec, error) {
	raw, ok := config.Take("order")
	if !ok {
		return nil, errors.New(`key "order" is missing`)
	}
	if letter := string(raw); letter == `"C"` || letter == `"F"` {
		return Transpose{letter: letter[1:2]}, nil
	}
	var order []int64
	if err := metajson.Decode("order", raw, &order); err != nil {
		return nil, err
	}
	t := Transpose{Order: make([]int, len(order))}
	for i, axis := range order {
		t.Order[i] = int(axis)
	}
	return t, t.checkAxes(len(order))
}

func (t Transpose) checkAxes(axes int) error {
	seen := make([]bool, axes)
	for _, axis := range t.Order {
		if axis < 0 || axis >= axes || seen[axis] {
			return fmt.Errorf("transpose: order %v is not a permutation of %d axes", t.Order, axes)
		}
		seen[axis] = true
	}
	if len(t.Order) != axes {
		return fmt.Errorf("transpose: order %v, want a permutation of %d axes", t.Order, axes)
	}
	return nil
}

// axes returns the order for a number of axes, or an error if it is no permutation.
func (t Transpose) axes(n int) ([]int, error) {
	switch t.letter {
	case "C", "F":
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		if t.letter == "F" {
			slices.Reverse(order)
		}
		return order, nil
	}
	return t.Order, t.checkAxes(n)
}

// Transform returns the transform that copies. Leading transposes of a [List] are views
// instead.
func (t Transpose) Transform(in ChunkSpec) (Transform, error) {
	order, err := t.axes(len(in.Shape))
	if err != nil {
		return Transform{}, err
	}
	out, width := in, in.Type.Size()
	out.Shape = permuteShape(in.Shape, order)
	return Transform{Out: out,
		Encode: func(dst, src []byte) error {
			grid.Transpose(dst, src, in.Shape, order, width)
			return nil
		},
		Decode: func(dst, src []byte) error {
			grid.Transpose(dst, src, out.Shape, invertPermutation(order), width)
			return nil
		},
	}, nil
}

// permuteShape returns the shape with axis i taken from axis order[i].
func permuteShape(shape []int64, order []int) []int64 {
	out := make([]int64, len(order))
	for i, axis := range order {
		out[i] = shape[axis]
	}
	return out
}

// invertPermutation returns the inverse of order.
func invertPermutation(order []int) []int {
	out := make([]int, len(order))
	for i, axis := range order {
		out[axis] = i
	}
	return out
}
