package element

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Items returns elements that are arrays of one axis, as codec.VLenArray stores them:
// the items of all elements without a copy, and offsets in items. Element i in C order
// has the items [offsets[i], offsets[i+1]), as in Arrow's list layout. It returns an
// error unless each element is whole items of the dtype. The caller must release the
// array, which shares the memory of v and must not be modified.
func (v *VLen) Items(dtype ndview.DType) (items *ndview.NDBuffer, offsets []int64, err error) {
	size := dtype.Size()
	if size < 1 {
		return nil, nil, fmt.Errorf("element.VLen.Items: items of dtype %s", dtype)
	}
	offsets = make([]int64, v.Len()+1)
	for i := range v.Len() {
		n := int64(len(v.At(i)))
		if n%size != 0 {
			return nil, nil, fmt.Errorf("element.VLen.Items: element %d has %d bytes, want a multiple of %d", i, n, size)
		}
		offsets[i+1] = offsets[i] + n/size
	}
	var first int64
	if v.offsets32 != nil {
		first = int64(v.offsets32[0])
	} else {
		first = v.offsets64[0]
	}
	buf := arrowbuf.WrapExternal(v.data[first:][:v.NBytes()], nil)
	defer buf.Release()
	items, err = ndview.FromBuffer(buf, dtype, 0, []int64{v.NBytes() / size}, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("element.VLen.Items: %w", err)
	}
	return items, offsets, nil
}

// PackItems is the inverse of [VLen.Items]: it copies the items of one axis, which may
// be on any device, into an array of the given shape, whose element i has the items
// [offsets[i], offsets[i+1]).
func PackItems(items *ndview.NDBuffer, offsets []int64, shape ...int64) (*VLen, error) {
	if items == nil {
		return nil, fmt.Errorf("element.PackItems: nil items")
	}
	if len(items.Shape()) != 1 {
		return nil, fmt.Errorf("element.PackItems: items of shape %v, want one axis", items.Shape())
	}
	data := make([]byte, items.NBytes())
	if err := items.CopyToHost(data); err != nil {
		return nil, fmt.Errorf("element.PackItems: %w", err)
	}
	bytes := make([]int64, len(offsets))
	for i, o := range offsets {
		if o < 0 || o > items.Shape()[0] {
			return nil, fmt.Errorf("element.PackItems: offset %d is %d, want 0 to %d", i, o, items.Shape()[0])
		}
		bytes[i] = o * items.DType().Size()
	}
	v, err := NewVLen(bytes, data, shape...)
	if err != nil {
		return nil, fmt.Errorf("element.PackItems: %w", err)
	}
	return v, nil
}
