package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// choice is a selection by keys while it is put together.
type choice struct {
	selection
	view    layout.Run // of the array, with one axis for each that a key takes
	axis    int        // of the view, the next
	left    int        // axes of the array that no key names
	plain   layout.Run // what is not chosen by arrays
	arrays  []*NDBuffer
	started bool // a key that is an array, or a number, came
	ended   bool // and then one that is not
	apart   bool // and then one again
}

// choose makes a selection of what keys take, some of which are arrays. A number
// beside arrays is an array too in NumPy: it tells where the axes of the indices
// are in the result. release gives back what choose made.
func (a *NDBuffer) choose(keys []Key) (c *choice, release func(), err error) {
	c = &choice{selection: selection{from: a}, left: len(a.shape)}
	release = func() { releaseAll(c.arrays) }
	basic := make([]layout.Key, 0, len(keys))
	masks := 0
	for _, k := range keys {
		basic = append(basic, k.axes()...)
		switch {
		case k.chosen != nil && k.chosen.mask:
			masks++
			c.left -= len(k.chosen.array.shape)
		case k.chosen != nil || k.basic.Kind == layout.KeySpan || k.basic.Kind == layout.KeyAt:
			c.left--
		}
	}
	if c.view, err = a.run().Index(basic); err != nil {
		return c, release, err
	}
	c.offset = c.view.Offset
	c.unique = masks == 1
	for _, k := range keys {
		if err := c.add(k); err != nil {
			return c, release, err
		}
	}
	for c.axis < len(c.view.Shape) {
		c.keep()
	}
	return c, release, c.finish()
}

// axes are the keys of a view that keeps every axis that the key takes. A mask
// without axes chooses from one of extent 1.
func (k Key) axes() []layout.Key {
	switch {
	case k.chosen != nil && k.chosen.mask && len(k.chosen.array.shape) == 0:
		return []layout.Key{NewAxis.basic}
	case k.chosen != nil && k.chosen.mask:
		return slices.Repeat([]layout.Key{All.basic}, len(k.chosen.array.shape))
	case k.chosen != nil || k.basic.Kind == layout.KeyAt:
		return []layout.Key{All.basic}
	default:
		return []layout.Key{k.basic}
	}
}

// keep makes the view's next axis one of the result.
func (c *choice) keep() {
	c.plain.Shape = append(c.plain.Shape, c.view.Shape[c.axis])
	c.plain.Strides = append(c.plain.Strides, c.view.Strides[c.axis])
	c.axis++
}

// add adds what a key takes.
func (c *choice) add(k Key) error {
	if k.chosen == nil && k.basic.Kind != layout.KeyAt {
		c.ended = c.started
		if k.basic.Kind != layout.KeyEllipsis {
			c.keep()
			return nil
		}
		for range c.left {
			c.keep()
		}
		return nil
	}
	if !c.started {
		c.started, c.at = true, len(c.plain.Shape)
	}
	c.apart = c.apart || c.ended
	switch {
	case k.chosen == nil:
		place, err := layout.Place(k.basic.At, c.view.Shape[c.axis])
		if err != nil {
			return fmt.Errorf("axis %d: %w", c.axis, err)
		}
		c.offset += place * c.view.Strides[c.axis]
		c.axis++
		return nil
	case k.chosen.mask:
		return c.addMask(k.chosen.array)
	default:
		return c.addIndices(k.chosen)
	}
}

func (c *choice) addIndices(k *chosen) error {
	indices := k.array
	if indices == nil {
		var err error
		if indices, err = FromHost(c.from.Device(), Int64, k.list, int64(len(k.list))); err != nil {
			return err
		}
	} else if err := indices.hold(); err != nil {
		return err
	}
	c.arrays = append(c.arrays, indices)
	if err := checkIndices(c.from, indices); err != nil {
		return err
	}
	c.pick(indices, c.view.Shape[c.axis], c.view.Strides[c.axis], 1)
	return nil
}

// pick lets indices choose from the view's next axes, which are one axis for them.
func (c *choice) pick(indices *NDBuffer, extent, stride int64, axes int) {
	c.picked = append(c.picked, picked{axis: c.axis, extent: extent, stride: stride, indices: indices})
	c.axis += axes
}

// addMask adds what a mask takes: by the places of its true elements where its
// axes are one run of the array, else by what they are along each axis.
func (c *choice) addMask(mask *NDBuffer) error {
	n := len(mask.shape)
	shape, strides := c.view.Shape[c.axis:c.axis+max(n, 1)], c.view.Strides[c.axis:c.axis+max(n, 1)]
	if n > 0 && !slices.Equal(shape, mask.shape) {
		return fmt.Errorf("a mask of shape %v for axes of shape %v: %w", mask.shape, shape, ErrShape)
	}
	if mask.Device() != c.from.Device() {
		return fmt.Errorf("a mask on %s for an array on %s: %w", mask.Device(), c.from.Device(), arrowbuf.ErrDevice)
	}
	places, err := truePlaces(mask)
	if err != nil {
		return err
	}
	c.arrays = append(c.arrays, places)
	nest := layout.Collapse(shape, layout.C(1, shape), strides)
	if len(nest.Shape) <= 1 {
		stride := int64(0)
		if len(nest.Shape) == 1 {
			stride = nest.Strides[1][0]
		}
		c.pick(places, product(shape), stride, len(shape))
		return nil
	}
	all, err := unravel(places, mask.shape)
	if err != nil {
		return err
	}
	c.arrays = append(c.arrays, all)
	for k := range n {
		along, err := all.Index(At(int64(k)))
		if err != nil {
			return err
		}
		c.arrays = append(c.arrays, along)
		c.pick(along, shape[k], strides[k], 1)
	}
	return nil
}

// finish brings all indices to one shape, and that to its place in the result.
func (c *choice) finish() error {
	shapes := make([][]int64, len(c.picked))
	for i, p := range c.picked {
		shapes[i] = p.indices.shape
	}
	var err error
	if c.varied, err = layout.Broadcast(shapes...); err != nil {
		return err
	}
	for i := range c.picked {
		p := &c.picked[i]
		if p.strides, err = layout.Stretch(p.indices.shape, p.indices.strides, c.varied); err != nil {
			return err
		}
	}
	if c.apart {
		c.at = 0
	}
	c.shape = slices.Insert(slices.Clone(c.plain.Shape), c.at, c.varied...)
	c.strides = slices.Insert(slices.Clone(c.plain.Strides), c.at, make([]int64, len(c.varied))...)
	c.unique = c.unique && len(c.picked) == 1
	return nil
}
