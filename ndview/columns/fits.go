package columns

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
)

// Integers of an array that came from elsewhere may be anything. Before they are
// made narrower one pass looks for the extremes; only where those do not fit, which
// nulls are free to, another one looks for the element.

// extreme is the Min or Max of unsigned integers, which are some.
func (w *work) extreme(of ndview.Reduction, a *ndview.NDBuffer) (uint64, error) {
	one, err := w.array(of.Of(a, ndview.ReduceOptions{}))
	if err != nil {
		return 0, err
	}
	return w.unsigned(one)
}

// unsigned is the value of an array of one.
func (w *work) unsigned(one *ndview.NDBuffer) (uint64, error) {
	raw := make([]byte, one.NBytes(), 8)
	if err := one.CopyToHost(raw); err != nil {
		return 0, err
	}
	switch len(raw) {
	case 1:
		return uint64(raw[0]), nil
	case 2:
		return uint64(binary.NativeEndian.Uint16(raw)), nil
	case 4:
		return uint64(binary.NativeEndian.Uint32(raw)), nil
	default:
		return binary.NativeEndian.Uint64(raw), nil
	}
}

// checkIndices returns an error for an index outside a dictionary, which may be any
// where an element is null.
func (w *work) checkIndices(data arrow.ArrayData, indices *ndview.NDBuffer, t *arrow.DictionaryType, values int64) error {
	if indices.Size() == 0 {
		return nil
	}
	greatest, err := w.extreme(ndview.Max, indices)
	if err != nil || greatest < uint64(values) {
		return err
	}
	kind := indexKinds[t.IndexType.ID()]
	_, bad, err := w.resolveAs(data, kind, values)
	if err != nil || bad < 0 {
		return err
	}
	one, err := w.array(indices.Slice(0, bad, bad+1))
	if err != nil {
		return err
	}
	index, err := w.unsigned(one)
	if err != nil {
		return err
	}
	shown := fmt.Sprint(index)
	if kind[0] == 'i' {
		unused := 64 - 8*t.Bytes()
		shown = fmt.Sprint(int64(index<<unused) >> unused)
	}
	return fmt.Errorf("index %s, of element %d, is outside a dictionary of %d values: %w", shown, bad, values, arrow.ErrInvalid)
}

// checkWithin returns an error for offsets or sizes that are not in [least, most],
// if one of an element that counts is not.
func (w *work) checkWithin(all []*ndview.NDBuffer, least, most int64, find func() (pieces, error)) error {
	for _, a := range all {
		if a.Size() == 0 {
			continue
		}
		greatest, err := w.extreme(ndview.Max, a)
		if err != nil {
			return err
		}
		smallest := uint64(least)
		if least > 0 {
			if smallest, err = w.extreme(ndview.Min, a); err != nil {
				return err
			}
		}
		if greatest > uint64(most) || smallest < uint64(least) {
			_, err := find()
			return err
		}
	}
	return nil
}
