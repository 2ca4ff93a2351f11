package columns

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// dictionaryOf returns the dictionary of an array.
func dictionaryOf(data arrow.ArrayData) (*array.Data, error) {
	dictionary, ok := data.Dictionary().(*array.Data)
	if !ok || dictionary == nil {
		return nil, fmt.Errorf("nil dictionary: %w", arrow.ErrInvalid)
	}
	return dictionary, nil
}

// maxIndex returns the greatest index that an index type can hold.
func maxIndex(dtype arrow.DataType) uint64 {
	kind, size := indexKinds[dtype.ID()], dtype.(arrow.FixedWidthDataType).BitWidth()
	if kind[0] == 'u' {
		return math.MaxUint64 >> (64 - size)
	}
	return math.MaxInt64 >> (64 - size)
}

// concatDictionaries joins arrays of indices. Different dictionaries are merged first,
// and the indices are remapped to the merged dictionary.
func (w *workspace) concatDictionaries(parts []arrow.ArrayData, t *arrow.DictionaryType, n int64, valid *memory.Buffer) (arrow.ArrayData, error) {
	u := unifier{workspace: w}
	for _, part := range parts {
		dictionary, err := dictionaryOf(part)
		if err == nil {
			err = u.add(dictionary)
		}
		if err != nil {
			return nil, fmt.Errorf("dictionary: %w", err)
		}
	}
	if len(u.distinct) == 1 {
		indices, err := w.concatFixed(parts, 1, int64(t.Bytes()))
		out := w.newData(parts[0].DataType(), n, []*memory.Buffer{valid, indices})
		out.SetDictionary(u.distinct[0])
		return out, err
	}
	dictionary, err := u.unify()
	if err != nil {
		return nil, fmt.Errorf("dictionary: %w", err)
	}
	if last := uint64(dictionary.Len() - 1); dictionary.Len() > 0 && last > maxIndex(t.IndexType) {
		return nil, fmt.Errorf("dictionary of %d values exceeds indices of type %s; cast to wider indices first: %w",
			dictionary.Len(), t.IndexType, arrowbuf.ErrOutOfRange)
	}
	indices := make([]*ndview.NDBuffer, len(parts))
	for k, part := range parts {
		if indices[k], err = w.remapIndices(part, t, u.remap[u.partDictionary[k]]); err != nil {
			return nil, fmt.Errorf("indices: %w", err)
		}
	}
	joined, err := w.concatValues(indices)
	out := w.newData(parts[0].DataType(), n, []*memory.Buffer{valid, joined})
	out.SetDictionary(dictionary)
	return out, err
}

// remapIndices replaces each index i of an array by to[i].
func (w *workspace) remapIndices(part arrow.ArrayData, t *arrow.DictionaryType, to []int64) (*ndview.NDBuffer, error) {
	s, bad, err := w.resolveIndexData(part, indexKinds[t.IndexType.ID()], int64(len(to)))
	if err != nil {
		return nil, err
	}
	if bad >= 0 {
		return nil, fmt.Errorf("index of element %d is outside a dictionary of %d values: %w", bad, len(to), arrow.ErrInvalid)
	}
	width := int64(t.Bytes())
	if len(to) == 0 {
		return w.ownArray(ndview.Zeros(w.dev, dtypeOf(width), s.n))
	}
	wide, err := w.ownArray(ndview.FromHost(w.dev, ndview.Int64, to, int64(len(to))))
	if err != nil {
		return nil, err
	}
	table, err := w.ownArray(wide.AsType(dtypeOf(width), ndview.OrderC, ndview.CastUnsafe))
	if err != nil {
		return nil, err
	}
	return w.ownArray(ndview.Take(table, s.indices, 0, w.takeMode(s.n)))
}

// unifier merges the dictionaries of several arrays.
type unifier struct {
	*workspace
	distinct       []*array.Data // distinct dictionaries
	onHost         []arrow.Array // copies of distinct on the host
	partDictionary []int         // index in distinct of each part's dictionary
	remap          [][]int64     // per distinct dictionary: the index of each value in the merged one
}

// add adds the dictionary of the next part.
func (u *unifier) add(dictionary *array.Data) (err error) {
	defer recoverInvalid(&err)
	for i, seen := range u.distinct {
		if seen == dictionary {
			u.partDictionary = append(u.partDictionary, i)
			return nil
		}
	}
	if len(u.distinct) == 1 && len(u.onHost) == 0 { // first comparison: the first dictionary is needed, too
		if err := u.copyToHost(u.distinct[0]); err != nil {
			return err
		}
	}
	if len(u.distinct) > 0 {
		if err := u.copyToHost(dictionary); err != nil {
			return err
		}
		last := len(u.onHost) - 1
		for i, seen := range u.onHost[:last] {
			if arrowbuf.BitwiseEqual(seen, u.onHost[last]) { // bitwise, as keyFunc compares
				u.partDictionary, u.onHost = append(u.partDictionary, i), u.onHost[:last]
				return nil
			}
		}
	}
	u.partDictionary = append(u.partDictionary, len(u.distinct))
	u.distinct = append(u.distinct, dictionary)
	return nil
}

// recoverInvalid converts a panic of arrow-go over unvalidated offsets into an error.
func recoverInvalid(err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("dictionary values: %v: %w", failure, arrow.ErrInvalid)
	}
}

// copyToHost copies a dictionary to the host and appends it to onHost.
func (u *unifier) copyToHost(dictionary *array.Data) error {
	if n := dictionary.Len(); n > math.MaxInt32 {
		return fmt.Errorf("dictionary of %d values is too large to merge: %w", n, arrowbuf.ErrOutOfRange)
	}
	arr, err := newArray(dictionary)
	if err != nil {
		return err
	}
	u.own(arr)
	host, err := arrowbuf.CopyArrayTo(arr, arrowbuf.CPU())
	if err != nil {
		return err
	}
	u.own(host)
	u.onHost = append(u.onHost, host)
	return nil
}

// unify returns the merged dictionary. Values keep the order of their first occurrence.
func (u *unifier) unify() (union *array.Data, err error) {
	defer recoverInvalid(&err)
	positions := map[string]int64{}
	var firsts []int64 // indices of first occurrences in the concatenation of all values
	at := int64(0)
	parts := make([]arrow.ArrayData, len(u.distinct))
	for i, values := range u.onHost {
		parts[i] = u.distinct[i]
		key, to := keyFunc(values), make([]int64, values.Len())
		for k := range to {
			name, comparable := key(k)
			position, seen := positions[name]
			if !seen || !comparable {
				position, firsts = int64(len(firsts)), append(firsts, at+int64(k))
				if comparable {
					positions[name] = position
				}
			}
			to[k] = position
		}
		u.remap = append(u.remap, to)
		at += int64(values.Len())
	}
	joined, err := u.concatData(parts)
	if err != nil {
		return nil, err
	}
	if int64(len(firsts)) == at {
		return joined.(*array.Data), nil
	}
	chosen, err := u.ownArray(ndview.FromHost(u.dev, ndview.Int64, firsts, int64(len(firsts))))
	if err != nil {
		return nil, err
	}
	return u.takeData(joined, selection{indices: chosen, n: int64(len(firsts))})
}

// keyFunc returns a function that maps value i of a host array to a key. Two values
// have the same key if their bits are equal. Nested values are not comparable.
func keyFunc(values arrow.Array) func(i int) (key string, comparable bool) {
	const null = "\x00" // keys of other values begin with \x01
	if ext, ok := values.(array.ExtensionArray); ok {
		return keyFunc(ext.Storage())
	}
	var of func(i int) string
	switch v := values.(type) {
	case array.StringLike:
		of = v.Value
	case interface{ Value(int) []byte }:
		of = func(i int) string { return string(v.Value(i)) }
	default:
		data, width := values.Data(), plainWidthOf(values.DataType())
		if width == 0 || data.Len() == 0 {
			return func(int) (string, bool) { return "", false }
		}
		bytes := data.Buffers()[1].Bytes()[data.Offset()*width:]
		of = func(i int) string { return string(bytes[i*width : (i+1)*width]) }
	}
	return func(i int) (string, bool) {
		if values.IsNull(i) {
			return null, true
		}
		return "\x01" + of(i), true
	}
}
