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

// dictionaryOf is the dictionary of an array.
func dictionaryOf(data arrow.ArrayData) (*array.Data, error) {
	dictionary, ok := data.Dictionary().(*array.Data)
	if !ok || dictionary == nil {
		return nil, fmt.Errorf("a dictionary array without its dictionary: %w", arrow.ErrInvalid)
	}
	return dictionary, nil
}

// most is the greatest index that an index type has.
func most(dtype arrow.DataType) uint64 {
	kind, size := indexKinds[dtype.ID()], dtype.(arrow.FixedWidthDataType).BitWidth()
	if kind[0] == 'u' {
		return math.MaxUint64 >> (64 - size)
	}
	return math.MaxInt64 >> (64 - size)
}

// joinDictionaries joins arrays of indices. Where their dictionaries differ, the
// indices become those of a dictionary that has all.
func (w *work) joinDictionaries(parts []arrow.ArrayData, t *arrow.DictionaryType, n int64, valid *memory.Buffer) (arrow.ArrayData, error) {
	u := unifier{work: w}
	for _, part := range parts {
		dictionary, err := dictionaryOf(part)
		if err == nil {
			err = u.add(dictionary)
		}
		if err != nil {
			return nil, fmt.Errorf("dictionary: %w", err)
		}
	}
	if len(u.all) == 1 {
		indices, err := w.joinFixed(parts, 1, int64(t.Bytes()))
		out := w.data(parts[0].DataType(), n, []*memory.Buffer{valid, indices})
		out.SetDictionary(u.all[0])
		return out, err
	}
	dictionary, err := u.union()
	if err != nil {
		return nil, fmt.Errorf("dictionary: %w", err)
	}
	if last := uint64(dictionary.Len() - 1); dictionary.Len() > 0 && last > most(t.IndexType) {
		return nil, fmt.Errorf("a dictionary of %d values for indices of type %s; cast to wider indices first: %w",
			dictionary.Len(), t.IndexType, arrowbuf.ErrOutOfRange)
	}
	indices := make([]*ndview.NDBuffer, len(parts))
	for k, part := range parts {
		if indices[k], err = w.recode(part, t, u.maps[u.which[k]]); err != nil {
			return nil, fmt.Errorf("indices: %w", err)
		}
	}
	joined, err := w.joinValues(indices)
	out := w.data(parts[0].DataType(), n, []*memory.Buffer{valid, joined})
	out.SetDictionary(dictionary)
	return out, err
}

// recode replaces indices i of an array by to[i].
func (w *work) recode(part arrow.ArrayData, t *arrow.DictionaryType, to []int64) (*ndview.NDBuffer, error) {
	s, bad, err := w.resolveAs(part, indexKinds[t.IndexType.ID()], int64(len(to)))
	if err != nil {
		return nil, err
	}
	if bad >= 0 {
		return nil, fmt.Errorf("that of element %d is outside a dictionary of %d values: %w", bad, len(to), arrow.ErrInvalid)
	}
	width := int64(t.Bytes())
	if len(to) == 0 {
		return w.array(ndview.Zeros(w.dev, dtypeOf(width), s.n))
	}
	wide, err := w.array(ndview.FromHost(w.dev, ndview.Int64, to, int64(len(to))))
	if err != nil {
		return nil, err
	}
	table, err := w.array(wide.AsType(dtypeOf(width), ndview.OrderC, ndview.CastUnsafe))
	if err != nil {
		return nil, err
	}
	return w.array(ndview.Take(table, s.at, 0, w.mode(s.n)))
}

// unifier makes one dictionary of several.
type unifier struct {
	*work
	all   []*array.Data // that differ
	host  []arrow.Array // the same, on the host
	which []int         // of all is the dictionary of each part
	maps  [][]int64     // for each of all, where its values are in the union
}

// add adds the dictionary of the next part.
func (u *unifier) add(dictionary *array.Data) (err error) {
	defer rescue(&err)
	for i, seen := range u.all {
		if seen == dictionary {
			u.which = append(u.which, i)
			return nil
		}
	}
	if len(u.all) == 1 && len(u.host) == 0 { // the first that may differ
		if err := u.look(u.all[0]); err != nil {
			return err
		}
	}
	if len(u.all) > 0 {
		if err := u.look(dictionary); err != nil {
			return err
		}
		last := len(u.host) - 1
		for i, seen := range u.host[:last] {
			if arrowbuf.BitwiseEqual(seen, u.host[last]) { // to the bit, as keys are
				u.which, u.host = append(u.which, i), u.host[:last]
				return nil
			}
		}
	}
	u.which = append(u.which, len(u.all))
	u.all = append(u.all, dictionary)
	return nil
}

// rescue makes an error of a panic of arrow-go's over values whose offsets nobody
// checked.
func rescue(err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("the values of a dictionary: %v: %w", failure, arrow.ErrInvalid)
	}
}

// look brings a dictionary to the host.
func (u *unifier) look(dictionary *array.Data) error {
	if n := dictionary.Len(); n > math.MaxInt32 {
		return fmt.Errorf("joining dictionaries, one of %d values: %w", n, arrowbuf.ErrOutOfRange)
	}
	arr, err := finish(dictionary)
	if err != nil {
		return err
	}
	u.hold(arr)
	host, err := arrowbuf.CopyArrayTo(arr, arrowbuf.CPU())
	if err != nil {
		return err
	}
	u.hold(host)
	u.host = append(u.host, host)
	return nil
}

// union joins the dictionaries, each value where it was first.
func (u *unifier) union() (union *array.Data, err error) {
	defer rescue(&err)
	places := map[string]int64{}
	var firsts []int64 // of all values one after the other
	at := int64(0)
	parts := make([]arrow.ArrayData, len(u.all))
	for i, values := range u.host {
		parts[i] = u.all[i]
		key, to := keys(values), make([]int64, values.Len())
		for k := range to {
			name, comparable := key(k)
			place, seen := places[name]
			if !seen || !comparable {
				place, firsts = int64(len(firsts)), append(firsts, at+int64(k))
				if comparable {
					places[name] = place
				}
			}
			to[k] = place
		}
		u.maps = append(u.maps, to)
		at += int64(values.Len())
	}
	joined, err := u.join(parts)
	if err != nil {
		return nil, err
	}
	if int64(len(firsts)) == at {
		return joined.(*array.Data), nil
	}
	chosen, err := u.array(ndview.FromHost(u.dev, ndview.Int64, firsts, int64(len(firsts))))
	if err != nil {
		return nil, err
	}
	return u.take(joined, selection{at: chosen, n: int64(len(firsts))})
}

// keys tells values of an array of the host apart: the same key, the same bits.
// Nested values are not compared.
func keys(values arrow.Array) func(i int) (key string, comparable bool) {
	const null = "\x00" // values have a byte before them
	if ext, ok := values.(array.ExtensionArray); ok {
		return keys(ext.Storage())
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
