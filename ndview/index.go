package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Get copies the elements that the keys select to a new array in C order, on the
// device of a. The caller must release it. Keys may be arrays, unlike those of
// Index: a.Get(At(0), IntArray(rows), Mask(m)) is NumPy's a[0, rows, m].
//
// As in NumPy, arrays of indices are broadcast together; a mask stands for the
// indices of its true elements. Their axes in the result replace those of the keys
// that are arrays or numbers. They come first if other keys separate those.
//
// Get returns arrowbuf.ErrOutOfRange for an index outside its axis, which the error
// names, and ErrShape for keys that do not fit the shape. A nil array, indices that
// are not integers and a mask that is not of dtype Bool are ErrDType; an array on
// another device is arrowbuf.ErrDevice.
func (a *NDBuffer) Get(keys ...Key) (*NDBuffer, error) {
	return a.call("Get", func() (*NDBuffer, error) { return a.get(keys...) })
}

func (a *NDBuffer) get(keys ...Key) (*NDBuffer, error) {
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	defer a.Release()
	advanced, err := hasAdvancedKey(keys)
	if err != nil {
		return nil, err
	}
	if !advanced {
		v, err := a.index(keys...)
		if err != nil {
			return nil, err
		}
		defer v.Release()
		return v.inCOrder()
	}
	if mask := a.wholeMask(keys); mask != nil {
		scan, err := scanMask(mask)
		if err != nil {
			return nil, err
		}
		defer scan.release()
		return scan.compact(a)
	}
	s, release, err := a.selectKeys(keys)
	defer release()
	if err != nil {
		return nil, err
	}
	return s.get()
}

// Set writes a value to the elements that the keys select, see Get. The value is
// converted as by Assign and broadcast to the shape of Get's result. It is read
// before anything is written. If an element is selected more than once, the last
// value in C order wins. The errors are those of Get and Assign; nothing is written
// if a key or the value is invalid.
func (a *NDBuffer) Set(value any, keys ...Key) (err error) {
	defer nameError("Set", &err)
	if err := checkNil(a); err != nil {
		return err
	}
	release, err := retainToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	advanced, err := hasAdvancedKey(keys)
	if err != nil {
		return err
	}
	if !advanced {
		v, err := a.index(keys...)
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
	s, release, err := a.selectKeys(keys)
	defer release()
	if err != nil {
		return err
	}
	return s.set(values)
}

// hasAdvancedKey reports whether a key is an array, NumPy's advanced indexing. It
// returns ErrDType for a nil array.
func hasAdvancedKey(keys []Key) (found bool, err error) {
	for i, k := range keys {
		switch {
		case k.advanced == nil:
			continue
		case k.advanced.array == nil && k.advanced.list == nil:
			return false, fmt.Errorf("key %d: nil array: %w", i+1, ErrDType)
		}
		found = true
	}
	return found, nil
}

// wholeMask returns the mask if it is the only key and has the shape of a, and if
// elements can be compacted without a list of positions. Otherwise it returns nil.
func (a *NDBuffer) wholeMask(keys []Key) *NDBuffer {
	if len(keys) != 1 || !keys[0].advanced.isMask || !a.isCompactable() {
		return nil
	}
	mask := keys[0].advanced.array
	if mask.dtype != Bool || mask.Device() != a.Device() || len(mask.shape) == 0 || !slices.Equal(mask.shape, a.shape) {
		return nil
	}
	return mask
}

// setByMask writes values to the elements at which the mask is true.
func (a *NDBuffer) setByMask(mask, values *NDBuffer) error {
	values, err := (&selection{array: a}).valuesToWrite(values)
	if err != nil {
		return err
	}
	defer values.Release()
	scan, err := scanMask(mask)
	if err != nil {
		return err
	}
	defer scan.release()
	if _, err := assignStrides(values, []int64{scan.count}); err != nil {
		return fmt.Errorf("setting the %d true elements of a mask: %w", scan.count, err)
	}
	return scan.expand(a, values)
}

// selectionBuilder turns keys into a selection, one key after the other.
type selectionBuilder struct {
	selection
	view          layout.Run  // the array by its basic keys; other keys select whole axes
	nextAxis      int         // of the view, for the next key
	unnamedAxes   int         // axes of the array without a key
	basic         layout.Run  // axes of the view that no array indexes
	owned         []*NDBuffer // index arrays to release
	sawAdvanced   bool        // an array or a number was added
	sawBasicAfter bool        // a basic key followed it
	separated     bool        // an array or a number followed that
}

// selectKeys returns the selection of keys, at least one of which is an array. A
// number beside arrays counts as an array, as in NumPy: it affects the position of
// the index axes in the result. The caller must call release, even after an error.
func (a *NDBuffer) selectKeys(keys []Key) (s *selection, release func(), err error) {
	b := &selectionBuilder{selection: selection{array: a}, unnamedAxes: len(a.shape)}
	release = func() { releaseAll(b.owned) }
	basic := make([]layout.Key, 0, len(keys))
	masks := 0
	for _, k := range keys {
		basic = append(basic, k.wholeAxes()...)
		switch {
		case k.advanced != nil && k.advanced.isMask:
			masks++
			b.unnamedAxes -= len(k.advanced.array.shape)
		case k.advanced != nil || k.basic.Kind == layout.KeySlice || k.basic.Kind == layout.KeyIndex:
			b.unnamedAxes--
		}
	}
	if b.view, err = a.run().Index(basic); err != nil {
		return nil, release, err
	}
	b.offset = b.view.Offset
	b.distinct = masks == 1
	for _, k := range keys {
		if err := b.addKey(k); err != nil {
			return nil, release, err
		}
	}
	for b.nextAxis < len(b.view.Shape) {
		b.addBasicAxis()
	}
	return &b.selection, release, b.broadcastIndices()
}

// wholeAxes returns the basic keys that select the axes of k, whole if an array or a
// number selects from them. A mask without axes gets a new axis of extent 1.
func (k Key) wholeAxes() []layout.Key {
	switch {
	case k.advanced != nil && k.advanced.isMask && len(k.advanced.array.shape) == 0:
		return []layout.Key{NewAxis.basic}
	case k.advanced != nil && k.advanced.isMask:
		return slices.Repeat([]layout.Key{All.basic}, len(k.advanced.array.shape))
	case k.advanced != nil || k.basic.Kind == layout.KeyIndex:
		return []layout.Key{All.basic}
	default:
		return []layout.Key{k.basic}
	}
}

// addBasicAxis adds the view's next axis to those of the result.
func (b *selectionBuilder) addBasicAxis() {
	b.basic.Shape = append(b.basic.Shape, b.view.Shape[b.nextAxis])
	b.basic.Strides = append(b.basic.Strides, b.view.Strides[b.nextAxis])
	b.nextAxis++
}

// addKey adds the axes of the view that k selects from.
func (b *selectionBuilder) addKey(k Key) error {
	if k.advanced == nil && k.basic.Kind != layout.KeyIndex {
		b.sawBasicAfter = b.sawAdvanced
		if k.basic.Kind != layout.KeyEllipsis {
			b.addBasicAxis()
			return nil
		}
		for range b.unnamedAxes {
			b.addBasicAxis()
		}
		return nil
	}
	if !b.sawAdvanced {
		b.sawAdvanced, b.indexAxis = true, len(b.basic.Shape)
	}
	b.separated = b.separated || b.sawBasicAfter
	switch {
	case k.advanced == nil:
		index, err := layout.NormalizeIndex(k.basic.At, b.view.Shape[b.nextAxis])
		if err != nil {
			return fmt.Errorf("axis %d: %w", b.nextAxis, err)
		}
		b.offset += index * b.view.Strides[b.nextAxis]
		b.nextAxis++
		return nil
	case k.advanced.isMask:
		return b.addMask(k.advanced.array)
	default:
		return b.addIndices(k.advanced)
	}
}

// addIndices adds an axis that an array or a list of indices selects from.
func (b *selectionBuilder) addIndices(k *advancedKey) error {
	indices := k.array
	if indices == nil {
		var err error
		if indices, err = FromHost(b.array.Device(), Int64, k.list, int64(len(k.list))); err != nil {
			return err
		}
	} else if err := indices.TryRetain(); err != nil {
		return err
	}
	b.owned = append(b.owned, indices)
	if err := checkIndices(b.array, indices); err != nil {
		return err
	}
	b.addIndexedAxes(indices, b.view.Shape[b.nextAxis], b.view.Strides[b.nextAxis], 1)
	return nil
}

// addIndexedAxes adds the view's next axes as one axis with indices.
func (b *selectionBuilder) addIndexedAxes(indices *NDBuffer, extent, stride int64, axes int) {
	b.axes = append(b.axes, indexedAxis{number: b.nextAxis, extent: extent, stride: stride, indices: indices})
	b.nextAxis += axes
}

// addMask adds the axes that a mask selects from. They become one indexed axis if
// one stride covers them all, otherwise one each.
func (b *selectionBuilder) addMask(mask *NDBuffer) error {
	n := len(mask.shape)
	shape, strides := b.view.Shape[b.nextAxis:b.nextAxis+max(n, 1)], b.view.Strides[b.nextAxis:b.nextAxis+max(n, 1)]
	if n > 0 && !slices.Equal(shape, mask.shape) {
		return fmt.Errorf("mask of shape %v for axes of shape %v: %w", mask.shape, shape, ErrShape)
	}
	if mask.Device() != b.array.Device() {
		return fmt.Errorf("mask on %s for an array on %s: %w", mask.Device(), b.array.Device(), arrowbuf.ErrDevice)
	}
	pos, err := maskPositions(mask)
	if err != nil {
		return err
	}
	b.owned = append(b.owned, pos)
	nest := layout.Collapse(shape, layout.CStrides(1, shape), strides)
	if len(nest.Shape) <= 1 {
		stride := int64(0)
		if len(nest.Shape) == 1 {
			stride = nest.Strides[1][0]
		}
		b.addIndexedAxes(pos, product(shape), stride, len(shape))
		return nil
	}
	indices, err := unravelPositions(pos, mask.shape)
	if err != nil {
		return err
	}
	b.owned = append(b.owned, indices)
	for k := range n {
		row, err := indices.index(At(int64(k)))
		if err != nil {
			return err
		}
		b.owned = append(b.owned, row)
		b.addIndexedAxes(row, shape[k], strides[k], 1)
	}
	return nil
}

// broadcastIndices broadcasts all indices to one shape and inserts it into the shape
// of the result.
func (b *selectionBuilder) broadcastIndices() error {
	shapes := make([][]int64, len(b.axes))
	for i, axis := range b.axes {
		shapes[i] = axis.indices.shape
	}
	var err error
	if b.indexShape, err = layout.Broadcast(shapes...); err != nil {
		return err
	}
	for i := range b.axes {
		axis := &b.axes[i]
		if axis.strides, err = layout.BroadcastStrides(axis.indices.shape, axis.indices.strides, b.indexShape); err != nil {
			return err
		}
	}
	if b.separated {
		b.indexAxis = 0
	}
	b.shape = slices.Insert(slices.Clone(b.basic.Shape), b.indexAxis, b.indexShape...)
	b.strides = slices.Insert(slices.Clone(b.basic.Strides), b.indexAxis, make([]int64, len(b.indexShape))...)
	b.distinct = b.distinct && len(b.axes) == 1
	return nil
}

// selection is a set of elements of an array that arrays of indices select. The
// indices vary along the axes [indexAxis, indexAxis+len(indexShape)) of the shape.
type selection struct {
	array      *NDBuffer
	offset     int64 // in bytes, of the first element if all indices are 0
	shape      []int64
	strides    []int64 // of the array along the shape, 0 along the index axes
	indexAxis  int
	indexShape []int64       // to which the indices broadcast
	axes       []indexedAxis // at least one
	mode       Mode
	distinct   bool // no element is selected twice
}

// indexedAxis is an axis of an array from which indices select.
type indexedAxis struct {
	number         int // as the caller counts axes, for errors
	extent, stride int64
	indices        *NDBuffer
	strides        []int64 // of the indices along the index shape
}

// checkIndices returns an error unless indices can select from a.
func checkIndices(a, indices *NDBuffer) error {
	if indices.dtype.Kind() != KindInt && indices.dtype.Kind() != KindUint {
		return fmt.Errorf("indices of dtype %s, want integers: %w", indices.dtype, ErrDType)
	}
	if indices.Device() != a.Device() {
		return fmt.Errorf("indices on %s for an array on %s: %w", indices.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	return nil
}

// get copies the selected elements to a new array in C order.
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

// copyTo copies the selected elements to out, which has the selection's shape.
func (s *selection) copyTo(out *NDBuffer) error {
	if product(s.indexShape) == 0 {
		return nil
	}
	flags, err := newBadIndexFlags(s)
	if err != nil {
		return err
	}
	defer flags.words.Release()
	if pos, ok := s.directPositions(); ok && out.Size() > 0 {
		if err := s.gather(out, pos, flags); err != nil {
			return err
		}
		return flags.firstError()
	}
	pos, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer pos.indices.Release()
	if out.Size() == 0 {
		return nil
	}
	return s.gather(out, pos, flags)
}

// alongShape returns strides along the index shape as strides along the shape.
func (s *selection) alongShape(strides []int64) []int64 {
	all := make([]int64, len(s.shape))
	copy(all[s.indexAxis:], strides)
	return all
}

// gather copies the elements at positions to out and flags bad indices. Neither may
// be empty.
func (s *selection) gather(out *NDBuffer, pos *positions, flags *badIndexFlags) error {
	align := s.array.address() + uint64(pos.offset-s.array.offset)
	align |= uint64(pos.step) | out.address()
	walk, width, err := cpu.NewUnitWalk(out.dtype.Size(), align, s.shape, s.strides, s.alongShape(pos.strides), nil)
	if err != nil {
		return fmt.Errorf("gathering from strides %v: %w", s.strides, err)
	}
	if len(flags.walks) == 1 {
		flags.walks[0] = walk
	}
	return gatherUnits(out, s.array.buf, pos, width, walk, flags)
}

// set writes values, which broadcast to the selection's shape, to the selected
// elements. If an element is selected more than once, the last value in C order
// wins. Nothing is written if an index is bad.
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
	defer flags.words.Release()
	pos, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer pos.indices.Release()
	if product(s.shape) == 0 {
		return nil
	}
	// If the values do not vary with the indices, repeats write the same value.
	alongIndices := strides[s.indexAxis : s.indexAxis+len(s.indexShape)]
	distinct := s.distinct || !slices.ContainsFunc(alongIndices, func(stride int64) bool { return stride != 0 })
	if !distinct {
		if distinct, err = pos.discardRepeats(); err != nil {
			return err
		}
	}
	return s.scatter(values, strides, pos, distinct)
}

// valuesToWrite checks values and returns them with a reference for the caller. It
// returns a copy if they share memory with the array.
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

// assignStrides returns the strides that broadcast a to a shape. Surplus leading axes
// of extent 1 are dropped, as NumPy does in assignments.
func assignStrides(a *NDBuffer, shape []int64) ([]int64, error) {
	from, strides := a.shape, a.strides
	for len(from) > len(shape) && from[0] == 1 {
		from, strides = from[1:], strides[1:]
	}
	return layout.BroadcastStrides(from, strides, shape)
}

// scatter writes values with the given strides to positions. distinct promises that
// equal positions receive equal values.
func (s *selection) scatter(values *NDBuffer, strides []int64, pos *positions, distinct bool) error {
	to := s.array
	align := to.address() + uint64(pos.offset-to.offset)
	align |= uint64(pos.step) | values.address()
	walk, width, err := cpu.NewUnitWalk(to.dtype.Size(), align, s.shape, s.strides, s.alongShape(pos.strides), strides)
	if err != nil {
		return fmt.Errorf("scattering to strides %v: %w", s.strides, err)
	}
	return scatterUnits(to.buf, pos, values, width, walk, distinct)
}
