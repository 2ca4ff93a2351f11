package arrowzarr

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// nodeCategories are the distinct values of a dictionary inside a nested column. The
// values themselves are written at once, so only their keys are kept.
type nodeCategories struct {
	codeOf *valueTable
	saved  int64           // how many of them a categoryDelta has
	last   arrow.ArrayData // the dictionary that codes is of; may be nil
	codes  codeMap
}

// appendDictionary appends the codes of a dictionary array, and the values that are new.
func (w *nodeWriter) appendDictionary(a arrow.Array, from, to int64) error {
	d, ok := a.(*array.Dictionary)
	if !ok {
		return fmt.Errorf("array of %T: %w", a, arrowdata.ErrMalformed)
	}
	if err := w.mapDictionary(d.Dictionary()); err != nil {
		return err
	}
	codes, indices := w.categories.codes, d.Indices()
	index, err := indexReader(indices)
	if err != nil {
		return err
	}
	block := make([]byte, 0, (to-from)*w.index.width)
	for i := from; i < to; i++ {
		code := int64(-1)
		if !indices.IsNull(int(i)) {
			if code, err = codes.code(index(int(i))); err != nil {
				return err
			}
		}
		w.missing = w.missing || code < 0
		if w.node.wide {
			block = binary.LittleEndian.AppendUint64(block, uint64(code))
		} else {
			block = binary.LittleEndian.AppendUint32(block, uint32(code))
		}
	}
	return w.index.append(block)
}

// mapDictionary sets the codes of a dictionary's values, and appends the new ones.
func (w *nodeWriter) mapDictionary(values arrow.Array) error {
	g := w.categories
	if g.last != nil && sameData(g.last, values.Data()) {
		return nil
	}
	codes := make(codeMap, values.Len())
	var fresh []int64
	var key []byte
	g.codeOf.mu.Lock()
	defer g.codeOf.mu.Unlock()
	for i := range codes {
		if isNullValue(values, i) {
			codes[i] = noCode
			continue
		}
		var err error
		if key, err = appendValueKey(key[:0], values, i); err != nil {
			return err
		}
		code, place, err := g.codeOf.find(key)
		if err != nil {
			return err
		}
		if code < 0 {
			most := int64(maxTableKeys)
			if !w.node.wide {
				most = math.MaxInt32
			}
			if g.codeOf.len() >= most {
				return fmt.Errorf("dictionaries of more than %d different values", most)
			}
			if code, err = g.codeOf.add(key, place); err != nil {
				return err
			}
			fresh = append(fresh, int64(i))
		}
		codes[i] = uint32(code)
	}
	if err := w.children[0].appendPicked(values, fresh); err != nil {
		return err
	}
	if g.last != nil {
		g.last.Release()
	}
	g.last, g.codes = values.Data(), codes
	g.last.Retain()
	return nil
}
