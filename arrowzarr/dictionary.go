package arrowzarr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// codesLayout returns the layout of the codes for a type of dictionary indices. Codes
// are signed, because -1 is a missing value. They have the width of a signed index, and
// the next width for an unsigned one.
func codesLayout(index arrow.DataType) (fixedLayout, error) {
	var dtype ndview.DType
	switch index.ID() {
	case arrow.INT8:
		dtype = ndview.Int8
	case arrow.INT16, arrow.UINT8:
		dtype = ndview.Int16
	case arrow.INT32, arrow.UINT16:
		dtype = ndview.Int32
	case arrow.INT64, arrow.UINT32, arrow.UINT64:
		dtype = ndview.Int64
	default:
		return fixedLayout{}, fmt.Errorf("dictionary indices of type %s, expected integers", index)
	}
	return fixedLayout{source: dtype, dtype: dtype, limbs: 1}, nil
}

// categories collects the distinct values of a column's dictionaries. A batch can have
// another dictionary than the last: in a stream they grow or are replaced, and each row
// group of a Parquet file has its own.
type categories struct {
	column         *column
	codeOf         *valueTable     // by the bytes of the value
	lastDictionary arrow.ArrayData // of which lastMap is the map
	lastMap        codeMap
	complete       bool  // all values of the input are known
	saved          int64 // how many of them a categoryDelta has
}

// codeMap maps the dictionary indices of a batch to codes, and a null value to noCode.
type codeMap []uint32

// noCode is greater than all codes, since a table has at most maxTableKeys.
const noCode = math.MaxUint32

// code returns the code of an index, or -1 for a null value.
func (m codeMap) code(index int64) (int64, error) {
	if index < 0 || index >= int64(len(m)) {
		return 0, fmt.Errorf("index %d into a dictionary of %d values: %w", index, len(m), arrowdata.ErrMalformed)
	}
	if m[index] == noCode {
		return -1, nil
	}
	return int64(m[index]), nil
}

// newCategories returns the categories of each dictionary column, and nil for each
// other column.
func newCategories(columns []*column, m *categoryMemory) []*categories {
	all := make([]*categories, len(columns))
	for i, c := range columns {
		if c.kind == kindDictionary {
			all[i] = &categories{column: c, codeOf: newValueTable(m)}
		}
	}
	return all
}

// mapDictionary returns the codes of the values of a batch's dictionary, and adds the
// new ones to the categories. Only one goroutine may call it, with the batches in
// order.
func (g *categories) mapDictionary(dictionary arrow.Array) (codeMap, error) {
	if g.lastDictionary != nil && sameData(g.lastDictionary, dictionary.Data()) {
		return g.lastMap, nil
	}
	limit := int64(maxTableKeys)
	if bits := g.column.layout.dtype.Size() * 8; bits <= 32 {
		limit = 1 << (bits - 1)
	}
	key, err := newKeyFunc(dictionary)
	if err != nil {
		return nil, err
	}
	mapping := make(codeMap, dictionary.Len())
	g.codeOf.mu.Lock()
	defer g.codeOf.mu.Unlock()
	g.codeOf.expect(min(int64(dictionary.Len()), limit))
	var hashes [64]uint64
	for i := range mapping {
		if i%len(hashes) == 0 {
			block := hashes[:min(len(mapping)-i, len(hashes))]
			for j := range block {
				if !dictionary.IsNull(i + j) { // a null may have no value to read
					block[j] = g.codeOf.hash(key(i + j))
				}
			}
			g.codeOf.fetch(block)
		}
		if dictionary.IsNull(i) {
			mapping[i] = noCode
			continue
		}
		k := key(i)
		code, place, err := g.codeOf.findHashed(k, hashes[i%len(hashes)])
		if err != nil {
			return nil, err
		}
		if code < 0 {
			if g.complete {
				return nil, errors.New("a value of a dictionary that the plan does not have: the input has changed")
			}
			if g.codeOf.len() >= limit {
				return nil, fmt.Errorf("the dictionaries of all batches have more than %d different values, the most that %s codes can distinguish", limit, g.column.layout.dtype)
			}
			if code, err = g.codeOf.add(k, place); err != nil {
				return nil, err
			}
		}
		mapping[i] = uint32(code)
	}
	if g.lastDictionary != nil {
		g.lastDictionary.Release()
	}
	g.lastDictionary = dictionary.Data()
	g.lastDictionary.Retain()
	g.lastMap = mapping
	return mapping, nil
}

// isUniqueIndex reports whether anndata can make an index of the values: they have no
// axes of their own, none is NaN or NaT, and no two are equal, as 0 and -0 are.
func (g *categories) isUniqueIndex() (bool, error) {
	values := arrowdata.StorageType(g.column.storage.(*arrow.DictionaryType).ValueType)
	if layout, ok := fixedLayoutOf(values); ok && len(layout.row) > 0 {
		return false, nil
	} else if ok && layout.fill == natMin && layout.source.Size() == 8 {
		nat, _, err := g.codeOf.find(binary.NativeEndian.AppendUint64(nil, natMin))
		return nat < 0, err
	} else if !arrow.IsFloating(values.ID()) {
		return true, nil
	}
	zeros := 0
	all := g.codeOf.reader()
	for range g.codeOf.len() {
		raw, err := all.next()
		if err != nil {
			return false, err
		}
		var bits, infinity uint64
		switch len(raw) {
		case 2:
			bits, infinity = uint64(binary.NativeEndian.Uint16(raw)&0x7fff), 0x7c00
		case 4:
			bits, infinity = uint64(binary.NativeEndian.Uint32(raw)&math.MaxInt32), 0x7f800000
		default:
			bits, infinity = binary.NativeEndian.Uint64(raw)&math.MaxInt64, 0x7ff<<52
		}
		if bits == 0 {
			zeros++
		}
		if bits > infinity || zeros > 1 {
			return false, nil
		}
	}
	return true, nil
}

// readValues reads the next n values as an array of a column of categories.
func (g *categories) readValues(column *column, all *keyReader, n int64, a assembler) (*chunkArrays, error) {
	raw := make([]byte, 0, n*g.codeOf.keys.length/max(g.codeOf.len(), 1)) // of average keys, with their lengths
	offsets := make([]int64, 1, n+1)
	for range n {
		key, err := all.next()
		if err != nil {
			return nil, err
		}
		raw = append(raw, key...)
		offsets = append(offsets, int64(len(raw)))
	}
	if column.kind == kindText || column.kind == kindBinary {
		values, err := element.NewVLen(offsets, raw, n)
		if err != nil {
			return nil, err
		}
		return &chunkArrays{values: values}, nil
	}
	if column.layout.dtype == ndview.Bool { // a byte each, as keys
		bits := make([]byte, bitutil.BytesForBits(int64(len(raw))))
		for i, b := range raw {
			bitutil.SetBitTo(bits, i, b != 0)
		}
		raw = bits
	}
	onHost := func(b *memory.Buffer) (*memory.Buffer, error) { return b, nil }
	data, err := column.fixedData(memory.NewBufferBytes(raw), int(n), nil, nil, onHost)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	values := array.MakeFromData(data)
	defer values.Release()
	return a.assemble(column, []columnSlice{{values: values, to: n}}, n)
}

// release releases the values.
func (g *categories) release() {
	g.codeOf.close()
	if g.lastDictionary != nil {
		g.lastDictionary.Release()
	}
}

// sameData reports whether two arrays view the same memory.
func sameData(a, b arrow.ArrayData) bool {
	if a == b {
		return true
	}
	if a.Len() != b.Len() || a.Offset() != b.Offset() || len(a.Buffers()) != len(b.Buffers()) {
		return false
	}
	for i, x := range a.Buffers() {
		if x != b.Buffers()[i] {
			return false
		}
	}
	return len(a.Children()) == 0 && len(b.Children()) == 0
}

// newKeyFunc returns a function that returns the bytes of value i. Values are equal if
// their bytes are.
func newKeyFunc(values arrow.Array) (func(i int) []byte, error) {
	if value, err := valueReader(values); err == nil {
		return value, nil
	}
	layout, ok := fixedLayoutOf(values.DataType())
	if !ok {
		return nil, fmt.Errorf("dictionary values of type %s have no Zarr form", values.DataType())
	}
	if values.Len() == 0 {
		return func(int) []byte { return nil }, nil
	}
	data, start, err := leaf(values.Data(), 0)
	if err != nil {
		return nil, err
	}
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		return nil, fmt.Errorf("dictionary of type %s without a buffer of values", values.DataType())
	}
	raw, n := data.Buffers()[1].Bytes(), layout.elements()
	if layout.dtype == ndview.Bool {
		return func(i int) []byte {
			key := make([]byte, n)
			for j := range key {
				if bitutil.BitIsSet(raw, int(start)+i*len(key)+j) {
					key[j] = 1
				}
			}
			return key
		}, nil
	}
	raw = raw[start*layout.limbs*layout.source.Size():]
	width := n * layout.source.Size()
	return func(i int) []byte { return raw[int64(i)*width : int64(i+1)*width] }, nil
}

// indexReader returns a function that returns dictionary index i.
func indexReader(indices arrow.Array) (func(i int) int64, error) {
	switch a := indices.(type) {
	case *array.Int8:
		return func(i int) int64 { return int64(a.Value(i)) }, nil
	case *array.Int16:
		return func(i int) int64 { return int64(a.Value(i)) }, nil
	case *array.Int32:
		return func(i int) int64 { return int64(a.Value(i)) }, nil
	case *array.Int64:
		return a.Value, nil
	case *array.Uint8:
		return func(i int) int64 { return int64(a.Value(i)) }, nil
	case *array.Uint16:
		return func(i int) int64 { return int64(a.Value(i)) }, nil
	case *array.Uint32:
		return func(i int) int64 { return int64(a.Value(i)) }, nil
	case *array.Uint64:
		return func(i int) int64 { return int64(a.Value(i)) }, nil // from 2^63 on it is negative, so out of range
	}
	return nil, fmt.Errorf("dictionary indices of type %s, expected integers", indices.DataType())
}

// assembleCodes joins the codes of slices of a dictionary column, on the host.
func assembleCodes(c *column, parts []columnSlice, rows int64) (*chunkArrays, error) {
	codes := make([]int64, 0, rows)
	for _, p := range parts {
		dictionary, ok := arrowdata.Unwrap(p.values).(*array.Dictionary)
		if !ok {
			return nil, fmt.Errorf("array of %T for type %s", p.values, p.values.DataType())
		}
		indices := dictionary.Indices()
		index, err := indexReader(indices)
		if err != nil {
			return nil, err
		}
		for i := p.from; i < p.to; i++ {
			if indices.IsNull(int(i)) {
				codes = append(codes, -1)
				continue
			}
			code, err := p.codes.code(index(int(i)))
			if err != nil {
				return nil, err
			}
			codes = append(codes, code)
		}
	}
	values, err := newCodes(codes, c.layout.dtype)
	if err != nil {
		return nil, err
	}
	return &chunkArrays{values: values}, nil
}

// newCodes returns an array of codes of a signed integer type. The codes must fit it.
func newCodes(codes []int64, dtype ndview.DType) (*ndview.NDBuffer, error) {
	n := int64(len(codes))
	switch dtype {
	case ndview.Int8:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convertCodes[int8](codes), n)
	case ndview.Int16:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convertCodes[int16](codes), n)
	case ndview.Int32:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convertCodes[int32](codes), n)
	default:
		return ndview.FromHost(arrowbuf.CPU(), dtype, codes, n)
	}
}

func convertCodes[T int8 | int16 | int32](codes []int64) []T {
	out := make([]T, len(codes))
	for i, c := range codes {
		out[i] = T(c)
	}
	return out
}
