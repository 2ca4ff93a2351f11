package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Get copies what the keys take to a new array in C order. Beside those of Index,
// keys are arrays: a.Get(At(0), IntArray(rows), Mask(m)) is NumPy's
// a[0, rows, m]. Arrays of indices are broadcast together, a mask as the indices
// of its true elements; their axes are where the keys are that are arrays or
// numbers, or first if other keys are between those. An index outside its axis is
// arrowbuf.ErrOutOfRange, which names it; what does not fit is ErrShape.
func (a *NDBuffer) Get(keys ...Key) (*NDBuffer, error) {
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	chosen, err := hasAdvancedKey(keys)
	if err != nil {
		return nil, err
	}
	if !chosen {
		v, err := a.Index(keys...)
		if err != nil {
			return nil, err
		}
		defer v.Release()
		return v.inCOrder()
	}
	if mask := a.wholeMask(keys); mask != nil {
		t, err := scanMask(mask)
		if err != nil {
			return nil, err
		}
		defer t.release()
		return t.compact(a)
	}
	c, release, err := a.selectKeys(keys)
	defer release()
	if err != nil {
		return nil, err
	}
	return c.get()
}

// Set writes a value to what the keys take, as Get takes it: whatever Assign
// takes, cast as it casts, which broadcasts to the shape that Get would answer.
// Where an element is taken more than once, the last value in C order stays.
// Nothing is written if there is an error.
func (a *NDBuffer) Set(value any, keys ...Key) error {
	release, err := holdToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	chosen, err := hasAdvancedKey(keys)
	if err != nil {
		return err
	}
	if !chosen {
		v, err := a.Index(keys...)
		if err != nil {
			return err
		}
		defer v.Release()
		return v.Assign(value)
	}
	values, err := a.assignable(value)
	if err != nil {
		return err
	}
	defer values.Release()
	if mask := a.wholeMask(keys); mask != nil && values.isCompactable() && !MayShareMemory(a, mask) {
		return a.setByMask(mask, values)
	}
	c, release, err := a.selectKeys(keys)
	defer release()
	if err != nil {
		return err
	}
	return c.set(values)
}

// hasAdvancedKey tells whether a key is an array.
func hasAdvancedKey(keys []Key) (bool, error) {
	chosen := false
	for i, k := range keys {
		switch {
		case k.advanced == nil:
			continue
		case k.advanced.array == nil && k.advanced.list == nil:
			return false, fmt.Errorf("key %d: an array is expected, not nil: %w", i+1, ErrDType)
		}
		chosen = true
	}
	return chosen, nil
}

// wholeMask is the mask that is the only key and has the array's shape, where the
// elements at which it is true are moved without lists of places; else nil.
func (a *NDBuffer) wholeMask(keys []Key) *NDBuffer {
	if len(keys) != 1 || !keys[0].advanced.mask || !a.isCompactable() {
		return nil
	}
	mask := keys[0].advanced.array
	if mask.dtype != Bool || mask.Device() != a.Device() || len(mask.shape) == 0 || !slices.Equal(mask.shape, a.shape) {
		return nil
	}
	return mask
}

func (a *NDBuffer) setByMask(mask, values *NDBuffer) error {
	values, err := (&selection{array: a}).valuesToWrite(values)
	if err != nil {
		return err
	}
	defer values.Release()
	t, err := scanMask(mask)
	if err != nil {
		return err
	}
	defer t.release()
	if _, err := assignStrides(values, []int64{t.count}); err != nil {
		return fmt.Errorf("setting the %d elements at which a mask is true: %w", t.count, err)
	}
	return t.expand(a, values)
}

// selectionBuilder is a selection by keys while it is put together.
type selectionBuilder struct {
	selection
	view          layout.Run // of the array, with one axis for each that a key takes
	nextAxis      int        // of the view, the next
	unnamedAxes   int        // axes of the array that no key names
	basic         layout.Run // what is not chosen by arrays
	owned         []*NDBuffer
	sawAdvanced   bool // a key that is an array, or a number, came
	sawBasicAfter bool // and then one that is not
	separated     bool // and then one again
}

// selectKeys makes a selection of what keys take, some of which are arrays. A number
// beside arrays is an array too in NumPy: it tells where the axes of the indices
// are in the result. release gives back what choose made.
func (a *NDBuffer) selectKeys(keys []Key) (c *selectionBuilder, release func(), err error) {
	c = &selectionBuilder{selection: selection{array: a}, unnamedAxes: len(a.shape)}
	release = func() { releaseAll(c.owned) }
	basic := make([]layout.Key, 0, len(keys))
	masks := 0
	for _, k := range keys {
		basic = append(basic, k.wholeAxes()...)
		switch {
		case k.advanced != nil && k.advanced.mask:
			masks++
			c.unnamedAxes -= len(k.advanced.array.shape)
		case k.advanced != nil || k.basic.Kind == layout.KeySpan || k.basic.Kind == layout.KeyAt:
			c.unnamedAxes--
		}
	}
	if c.view, err = a.run().Index(basic); err != nil {
		return c, release, err
	}
	c.offset = c.view.Offset
	c.distinct = masks == 1
	for _, k := range keys {
		if err := c.addKey(k); err != nil {
			return c, release, err
		}
	}
	for c.nextAxis < len(c.view.Shape) {
		c.addBasicAxis()
	}
	return c, release, c.broadcastIndices()
}

// wholeAxes are the keys of a view that keeps every axis that the key takes. A mask
// without axes chooses from one of extent 1.
func (k Key) wholeAxes() []layout.Key {
	switch {
	case k.advanced != nil && k.advanced.mask && len(k.advanced.array.shape) == 0:
		return []layout.Key{NewAxis.basic}
	case k.advanced != nil && k.advanced.mask:
		return slices.Repeat([]layout.Key{All.basic}, len(k.advanced.array.shape))
	case k.advanced != nil || k.basic.Kind == layout.KeyAt:
		return []layout.Key{All.basic}
	default:
		return []layout.Key{k.basic}
	}
}

// addBasicAxis makes the view's next axis one of the result.
func (c *selectionBuilder) addBasicAxis() {
	c.basic.Shape = append(c.basic.Shape, c.view.Shape[c.nextAxis])
	c.basic.Strides = append(c.basic.Strides, c.view.Strides[c.nextAxis])
	c.nextAxis++
}

// addKey adds what a key takes.
func (c *selectionBuilder) addKey(k Key) error {
	if k.advanced == nil && k.basic.Kind != layout.KeyAt {
		c.sawBasicAfter = c.sawAdvanced
		if k.basic.Kind != layout.KeyEllipsis {
			c.addBasicAxis()
			return nil
		}
		for range c.unnamedAxes {
			c.addBasicAxis()
		}
		return nil
	}
	if !c.sawAdvanced {
		c.sawAdvanced, c.indexAxis = true, len(c.basic.Shape)
	}
	c.separated = c.separated || c.sawBasicAfter
	switch {
	case k.advanced == nil:
		place, err := layout.Place(k.basic.At, c.view.Shape[c.nextAxis])
		if err != nil {
			return fmt.Errorf("axis %d: %w", c.nextAxis, err)
		}
		c.offset += place * c.view.Strides[c.nextAxis]
		c.nextAxis++
		return nil
	case k.advanced.mask:
		return c.addMask(k.advanced.array)
	default:
		return c.addIndices(k.advanced)
	}
}

func (c *selectionBuilder) addIndices(k *advancedKey) error {
	indices := k.array
	if indices == nil {
		var err error
		if indices, err = FromHost(c.array.Device(), Int64, k.list, int64(len(k.list))); err != nil {
			return err
		}
	} else if err := indices.hold(); err != nil {
		return err
	}
	c.owned = append(c.owned, indices)
	if err := checkIndices(c.array, indices); err != nil {
		return err
	}
	c.addIndexedAxes(indices, c.view.Shape[c.nextAxis], c.view.Strides[c.nextAxis], 1)
	return nil
}

// addIndexedAxes lets indices choose from the view's next axes, which are one axis for them.
func (c *selectionBuilder) addIndexedAxes(indices *NDBuffer, extent, stride int64, axes int) {
	c.axes = append(c.axes, indexedAxis{axis: c.nextAxis, extent: extent, stride: stride, indices: indices})
	c.nextAxis += axes
}

// addMask adds what a mask takes: by the places of its true elements where its
// axes are one run of the array, else by what they are along each axis.
func (c *selectionBuilder) addMask(mask *NDBuffer) error {
	n := len(mask.shape)
	shape, strides := c.view.Shape[c.nextAxis:c.nextAxis+max(n, 1)], c.view.Strides[c.nextAxis:c.nextAxis+max(n, 1)]
	if n > 0 && !slices.Equal(shape, mask.shape) {
		return fmt.Errorf("a mask of shape %v for axes of shape %v: %w", mask.shape, shape, ErrShape)
	}
	if mask.Device() != c.array.Device() {
		return fmt.Errorf("a mask on %s for an array on %s: %w", mask.Device(), c.array.Device(), arrowbuf.ErrDevice)
	}
	places, err := maskPositions(mask)
	if err != nil {
		return err
	}
	c.owned = append(c.owned, places)
	nest := layout.Collapse(shape, layout.C(1, shape), strides)
	if len(nest.Shape) <= 1 {
		stride := int64(0)
		if len(nest.Shape) == 1 {
			stride = nest.Strides[1][0]
		}
		c.addIndexedAxes(places, product(shape), stride, len(shape))
		return nil
	}
	all, err := unravelPositions(places, mask.shape)
	if err != nil {
		return err
	}
	c.owned = append(c.owned, all)
	for k := range n {
		along, err := all.Index(At(int64(k)))
		if err != nil {
			return err
		}
		c.owned = append(c.owned, along)
		c.addIndexedAxes(along, shape[k], strides[k], 1)
	}
	return nil
}

// broadcastIndices brings all indices to one shape, and that to its place in the result.
func (c *selectionBuilder) broadcastIndices() error {
	shapes := make([][]int64, len(c.axes))
	for i, p := range c.axes {
		shapes[i] = p.indices.shape
	}
	var err error
	if c.indexShape, err = layout.Broadcast(shapes...); err != nil {
		return err
	}
	for i := range c.axes {
		p := &c.axes[i]
		if p.strides, err = layout.Stretch(p.indices.shape, p.indices.strides, c.indexShape); err != nil {
			return err
		}
	}
	if c.separated {
		c.indexAxis = 0
	}
	c.shape = slices.Insert(slices.Clone(c.basic.Shape), c.indexAxis, c.indexShape...)
	c.strides = slices.Insert(slices.Clone(c.basic.Strides), c.indexAxis, make([]int64, len(c.indexShape))...)
	c.distinct = c.distinct && len(c.axes) == 1
	return nil
}

// selection is what arrays of indices choose of an array's elements. Along axes
// [at, at+len(varied)) of its shape the indices vary, along the others the array
// does.
type selection struct {
	array      *NDBuffer
	offset     int64 // where the first element is if all indices are 0
	shape      []int64
	strides    []int64 // of the array along the shape, 0 where the indices vary
	indexAxis  int
	indexShape []int64       // the shape that the indices broadcast to
	axes       []indexedAxis // one at least
	mode       Mode
	distinct   bool // no element is chosen twice
}

// indexedAxis is an axis along which indices choose.
type indexedAxis struct {
	axis           int // as the caller counts, for messages
	extent, stride int64
	indices        *NDBuffer
	strides        []int64 // of the indices along the varied shape
}

// checkIndices tells whether an array can be indices of a.
func checkIndices(a, indices *NDBuffer) error {
	if indices.dtype.Kind() != KindInt && indices.dtype.Kind() != KindUint {
		return fmt.Errorf("indices of dtype %s: integers are expected: %w", indices.dtype, ErrDType)
	}
	if indices.Device() != a.Device() {
		return fmt.Errorf("indices on %s for an array on %s: %w", indices.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	return nil
}

// get copies the chosen elements to a new array in C order.
func (s *selection) get() (*NDBuffer, error) {
	out, err := Empty(s.array.Device(), s.array.dtype, s.shape...)
	if err != nil {
		return nil, err
	}
	if err := s.copyTo(out); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

func (s *selection) copyTo(out *NDBuffer) error {
	if product(s.indexShape) == 0 {
		return nil
	}
	flags, err := newBadIndexFlags(s)
	if err != nil {
		return err
	}
	defer flags.array.Release()
	if where, ok := s.directPositions(); ok && out.Size() > 0 {
		if err := s.gather(out, where, flags); err != nil {
			return err
		}
		return flags.firstError()
	}
	where, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer where.indices.Release()
	if out.Size() == 0 {
		return nil
	}
	return s.gather(out, where, flags)
}

// alongShape are strides along the varied shape as strides along the whole.
func (s *selection) alongShape(strides []int64) []int64 {
	all := make([]int64, len(s.shape))
	copy(all[s.indexAxis:], strides)
	return all
}

// gather copies what is at places to out, flagging the bad ones; neither is
// empty.
func (s *selection) gather(out *NDBuffer, where *positions, flags *badIndexFlags) error {
	align := s.array.address() + uint64(where.offset-s.array.offset)
	align |= uint64(where.step) | out.address()
	walk, width, err := cpu.NewUnitWalk(out.dtype.Size(), align, s.shape, s.strides, s.alongShape(where.strides), nil)
	if err != nil {
		return fmt.Errorf("gathering from strides %v: %w", s.strides, err)
	}
	if len(flags.walks) == 1 {
		flags.walks[0] = walk
	}
	return gatherUnits(out, s.array.buf, where, width, walk, flags)
}

// set writes values, which broadcast to the selection's shape, to the chosen
// elements. Where an element is chosen more than once, the last value in C order
// stays. Nothing is written where an index is bad.
func (s *selection) set(values *NDBuffer) error {
	values, err := s.valuesToWrite(values)
	if err != nil {
		return err
	}
	defer values.Release()
	strides, err := assignStrides(values, s.shape)
	if err != nil {
		return err
	}
	if product(s.indexShape) == 0 {
		return nil
	}
	flags, err := newBadIndexFlags(s)
	if err != nil {
		return err
	}
	defer flags.array.Release()
	where, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer where.indices.Release()
	if product(s.shape) == 0 {
		return nil
	}
	apart := s.distinct || !slices.ContainsFunc(strides[s.indexAxis:s.indexAxis+len(s.indexShape)], func(d int64) bool { return d != 0 })
	if !apart {
		if apart, err = where.discardRepeats(); err != nil {
			return err
		}
	}
	return s.scatter(values, strides, where, apart)
}

// valuesToWrite are the values to write, which the caller releases: a copy of those
// that lie where they are to be written.
func (s *selection) valuesToWrite(values *NDBuffer) (*NDBuffer, error) {
	if values.dtype != s.array.dtype {
		return nil, fmt.Errorf("writing %s to elements of %s: %w", values.dtype, s.array.dtype, ErrDType)
	}
	if values.Device() != s.array.Device() {
		return nil, fmt.Errorf("writing values on %s to an array on %s: %w", values.Device(), s.array.Device(), arrowbuf.ErrDevice)
	}
	if MayShareMemory(s.array, values) {
		return values.inCOrder()
	}
	values.Retain()
	return values, nil
}

// assignStrides are the strides with which an array is assigned to a shape, to which it
// broadcasts; its leading axes of extent 1 are dropped if it has more.
func assignStrides(a *NDBuffer, shape []int64) ([]int64, error) {
	from, strides := a.shape, a.strides
	for len(from) > len(shape) && from[0] == 1 {
		from, strides = from[1:], strides[1:]
	}
	return layout.Stretch(from, strides, shape)
}

// scatter writes values to places, not all of them if they are not apart.
func (s *selection) scatter(values *NDBuffer, strides []int64, where *positions, apart bool) error {
	to := s.array
	align := to.address() + uint64(where.offset-to.offset)
	align |= uint64(where.step) | values.address()
	walk, width, err := cpu.NewUnitWalk(to.dtype.Size(), align, s.shape, s.strides, s.alongShape(where.strides), strides)
	if err != nil {
		return fmt.Errorf("scattering to strides %v: %w", s.strides, err)
	}
	return scatterUnits(to.buf, where, values, width, walk, apart)
}
