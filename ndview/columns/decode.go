package columns

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Decode returns the values that a dictionary array or a run-end encoded one
// stands for: an array of the type of the values on the same device, which the
// caller releases. An index outside the dictionary is arrow.ErrInvalid, another
// type arrow.ErrNotImplemented; for the rest see [Take].
func Decode(arr arrow.Array) (arrow.Array, error) {
	if arr == nil {
		return nil, fmt.Errorf("decoding an array: %w", errAbsent)
	}
	w := &work{dev: arrowbuf.DeviceOf(arr)}
	defer w.end()
	made, err := w.decode(arr)
	if err != nil {
		return nil, fmt.Errorf("decoding an array of type %s: %w", arr.DataType(), err)
	}
	return made, nil
}

func (w *work) decode(arr arrow.Array) (arrow.Array, error) {
	moved, err := w.bring(arr)
	if err != nil {
		return nil, err
	}
	values, s, err := w.encoded(moved.Data())
	if err != nil {
		return nil, err
	}
	data, err := w.take(values, s)
	if err != nil {
		return nil, err
	}
	return finish(data)
}

// encoded are the values of an encoded array, and which of them its elements are.
func (w *work) encoded(data arrow.ArrayData) (values arrow.ArrayData, s selection, err error) {
	switch t := storageOf(data.DataType()).(type) {
	case *arrow.DictionaryType:
		dictionary, err := dictionaryOf(data)
		if err != nil {
			return nil, s, err
		}
		s, bad, err := w.resolveAs(data, indexKinds[t.IndexType.ID()], int64(dictionary.Len()))
		if err == nil && bad >= 0 {
			err = fmt.Errorf("the index of element %d is outside a dictionary of %d values: %w", bad, dictionary.Len(), arrow.ErrInvalid)
		}
		return dictionary, s, err
	case *arrow.RunEndEncodedType:
		r, err := runs(data, t)
		if err != nil {
			return nil, s, err
		}
		s, err = w.find(r, int64(data.Offset()), int64(data.Len()), nil)
		return r.values, s, err
	default:
		return nil, s, fmt.Errorf("neither a dictionary nor run-end encoded: %w", arrow.ErrNotImplemented)
	}
}
