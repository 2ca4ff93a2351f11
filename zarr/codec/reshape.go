package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Reshape changes the shape of a chunk and keeps the C order of its elements
// (zarr-extensions, "reshape").
type Reshape struct {
	// Shape is the shape of encoded chunks.
	Shape []ReshapeExtent
}

// ReshapeExtent is the extent of an axis of encoded chunks.
type ReshapeExtent struct {
	// Size is the extent if Axes is empty; -1 once means the rest.
	Size int64
	// Axes are ascending axes of decoded chunks, whose extents are multiplied.
	Axes []int
}

// MarshalJSON writes a size or a list of axes.
func (e ReshapeExtent) MarshalJSON() ([]byte, error) {
	if e.Axes != nil {
		return json.Marshal(e.Axes)
	}
	return json.Marshal(e.Size)
}

// Name returns "reshape".
func (Reshape) Name() string { return "reshape" }

// Configuration returns the shape.
func (c Reshape) Configuration() any {
	return metajson.Members{{Key: "shape", Value: metajson.NonNil(c.Shape)}}
}

func parseReshape(config *metajson.Object) (Codec, error) {
	var entries []json.RawMessage
	if err := config.DecodeRequired("shape", &entries); err != nil {
		return nil, err
	}
	c := Reshape{Shape: make([]ReshapeExtent, len(entries))}
	for i, raw := range entries {
		var axes []int64
		if err := metajson.Decode("shape", raw, &c.Shape[i].Size); err == nil {
			continue
		}
		if err := metajson.Decode("shape", raw, &axes); err != nil {
			return nil, err
		}
		c.Shape[i].Axes = make([]int, len(axes))
		for j, axis := range axes {
			c.Shape[i].Axes[j] = int(axis)
		}
	}
	return c, c.check()
}

func (c Reshape) check() error {
	rest, last := false, -1
	for _, e := range c.Shape {
		if e.Axes == nil {
			if e.Size < -1 || e.Size == 0 || e.Size == -1 && rest {
				return fmt.Errorf("reshape: size %d, want positive sizes and -1 at most once", e.Size)
			}
			rest = rest || e.Size == -1
		}
		for _, axis := range e.Axes {
			if axis <= last {
				return fmt.Errorf("reshape: axis %d after %d, want ascending axes", axis, last)
			}
			last = axis
		}
	}
	return nil
}

// Transform returns the transform of chunks of any fixed width.
func (c Reshape) Transform(in ChunkSpec) (Transform, error) {
	if err := c.check(); err != nil {
		return Transform{}, err
	}
	shape, err := c.resolve(in.Shape)
	if err != nil {
		return Transform{}, err
	}
	if err := c.checkAxes(in.Shape, shape); err != nil {
		return Transform{}, err
	}
	return reshaped(in, shape), nil
}

// reshaped returns the transform of chunks to another shape of as many elements.
func reshaped(in ChunkSpec, shape []int64) Transform {
	out := in
	out.Shape = shape
	move := func(dst, src []byte) error { copy(dst, src); return nil }
	return Transform{Out: out, Encode: move, Decode: move}
}

// resolve returns the shape of encoded chunks.
func (c Reshape) resolve(in []int64) ([]int64, error) {
	shape, known, rest := make([]int64, len(c.Shape)), int64(1), -1
	for i, e := range c.Shape {
		shape[i] = e.Size
		if e.Axes != nil {
			shape[i] = 1
		}
		for _, axis := range e.Axes {
			if axis >= len(in) {
				return nil, fmt.Errorf("axis %d of %d", axis, len(in))
			}
			shape[i] *= in[axis]
		}
		if shape[i] == -1 {
			rest = i
			continue
		}
		high, product := bits.Mul64(uint64(known), uint64(shape[i]))
		if high != 0 || product > math.MaxInt64 {
			return nil, errors.New("shape has 2^63 or more elements")
		}
		known = int64(product)
	}
	n := grid.Size(in)
	if rest >= 0 && n%known == 0 {
		shape[rest] = n / known
		known = n
	}
	if known != n {
		return nil, fmt.Errorf("%d elements do not fit shape %v", n, shape)
	}
	return shape, nil
}

// checkAxes returns an error unless each list of axes covers the same elements before
// and after.
func (c Reshape) checkAxes(in, out []int64) error {
	for i, e := range c.Shape {
		if len(e.Axes) == 0 {
			continue
		}
		first, last := e.Axes[0], e.Axes[len(e.Axes)-1]
		if grid.Size(out[:i]) != grid.Size(in[:first]) || grid.Size(out[i+1:]) != grid.Size(in[last+1:]) {
			return fmt.Errorf("axes %v of shape %v are not axis %d of shape %v", e.Axes, in, i, out)
		}
	}
	return nil
}

// Squeeze drops the axes along which a chunk has one element (zarrs, "zarrs.squeeze").
// A chunk of one element becomes one axis.
type Squeeze struct{}

// Name returns "zarrs.squeeze".
func (Squeeze) Name() string { return "zarrs.squeeze" }

// Configuration returns an empty object, which zarrs requires.
func (Squeeze) Configuration() any { return metajson.Members{} }

// Transform returns the transform of chunks of any fixed width.
func (Squeeze) Transform(in ChunkSpec) (Transform, error) {
	shape := slices.DeleteFunc(slices.Clone(in.Shape), func(n int64) bool { return n == 1 })
	if len(shape) == 0 {
		shape = []int64{1}
	}
	return reshaped(in, shape), nil
}
