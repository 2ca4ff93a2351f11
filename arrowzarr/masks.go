package arrowzarr

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// mask unpacks the parts' validity bitmaps, inverted; nil where all is valid.
func (a *assembler) mask(parts []part, rows int64) (*ndview.NDBuffer, error) {
	if !slices.ContainsFunc(parts, func(p part) bool { return p.values.NullN() != 0 }) {
		return nil, nil
	}
	return a.newMask(parts, []int64{rows}, func(dst *ndview.NDBuffer, p part) error {
		data := p.values.Data()
		return a.unpackMissing(dst, data, int64(data.Offset())+p.from)
	})
}

// elementMask has the shape of the values. A list that is missing inside a list
// is a list of missing elements.
func (a *assembler) elementMask(l fixedLayout, parts []part, rows int64) (*ndview.NDBuffer, error) {
	return a.newMask(parts, append([]int64{rows}, l.row...), func(dst *ndview.NDBuffer, p part) error {
		data, at, err := leaf(p.values.Data(), p.from)
		if err != nil {
			return err
		}
		if err := a.unpackMissing(dst, data, at); err != nil {
			return err
		}
		_, _, err = descend(p.values.Data(), p.from, func(lists arrow.ArrayData, at, perRow int64) error {
			if lists.NullN() == 0 || dst.Size() == 0 {
				return nil
			}
			return a.markLists(dst, lists, at, p.rows()*perRow)
		})
		return err
	})
}

// markLists sets the elements of missing lists in the mask of a part's elements.
func (a *assembler) markLists(elements *ndview.NDBuffer, lists arrow.ArrayData, at, n int64) error {
	missing, err := ndview.Empty(a.device, ndview.Bool, n)
	if err != nil {
		return failed(PartDevice, err)
	}
	defer missing.Release()
	if err := a.unpackMissing(missing, lists, at); err != nil {
		return err
	}
	byList, err := elements.Reshape(n, elements.Size()/n)
	if err != nil {
		return err
	}
	defer byList.Release()
	const allTrue = 0x0101010101010101
	return a.run(byList.NBytes(), func() error { return byList.FillWhere(missing, allTrue) })
}

// newMask makes a mask and fills it part by part.
func (a *assembler) newMask(parts []part, shape []int64, fill func(dst *ndview.NDBuffer, p part) error) (*ndview.NDBuffer, error) {
	mask, err := ndview.Empty(a.device, ndview.Bool, shape...)
	if err != nil {
		return nil, failed(PartDevice, err)
	}
	if err := eachPart(mask, parts, fill); err != nil {
		mask.Release()
		return nil, err
	}
	return mask, nil
}

// unpackMissing writes which elements from a position on are missing.
func (a *assembler) unpackMissing(dst *ndview.NDBuffer, data arrow.ArrayData, at int64) error {
	if data.NullN() == 0 || len(data.Buffers()) == 0 || data.Buffers()[0] == nil || data.Buffers()[0].Len() == 0 {
		return a.run(dst.NBytes(), dst.Zero)
	}
	bits, err := arrowbuf.BufferOf(data.Buffers()[0])
	if err != nil {
		return err
	}
	defer bits.Release()
	return a.run(dst.NBytes(), func() error { return dst.UnpackBits(bits, at, true) })
}

// hasMissingElements tells whether elements of lists may be missing.
func hasMissingElements(parts []part) (bool, error) {
	found := false
	for _, p := range parts {
		if _, isList := storage(p.values.DataType()).(*arrow.FixedSizeListType); !isList {
			return false, nil
		}
		data, _, err := descend(p.values.Data(), p.from, func(lists arrow.ArrayData, _, _ int64) error {
			found = found || lists.NullN() != 0
			return nil
		})
		if err != nil {
			return false, err
		}
		found = found || data.NullN() != 0
	}
	return found, nil
}

func (a *assembler) fillElements(values, mask *ndview.NDBuffer, fill uint64) error {
	flatValues, err := values.Reshape(values.Size())
	if err != nil {
		return err
	}
	defer flatValues.Release()
	flatMask, err := mask.Reshape(mask.Size())
	if err != nil {
		return err
	}
	defer flatMask.Release()
	return a.run(values.NBytes(), func() error { return flatValues.FillWhere(flatMask, fill) })
}
