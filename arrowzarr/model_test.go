package arrowzarr_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// contents is what an array of the output holds.
type contents struct {
	Type  string
	Shape []int64
	Bytes []byte   // of elements of fixed width, in C order
	Texts []string // of strings and byte strings
}

// ofType is no values of a type.
func ofType(t arrow.DataType) contents {
	c := contents{Type: zarrType(t)}
	if c.Type != "string" && c.Type != "bytes" {
		c.Bytes = []byte{}
	}
	return c
}

// expect says which arrays a column becomes, by their paths below it ("" for a
// column that is one array). It is written value by value against arrow-go's
// accessors, and shares nothing with the package that it judges.
func expect(t arrow.DataType, chunks []arrow.Array) map[string]contents {
	t, chunks = unwrapped(t, chunks)
	if d, ok := t.(*arrow.DictionaryType); ok {
		return expectCategorical(d, chunks)
	}
	if t.ID() == arrow.NULL {
		return expectNothing(chunks)
	}
	values := ofType(t)
	mask := contents{Type: "bool", Bytes: []byte{}}
	elements := contents{Type: "bool", Bytes: []byte{}}
	missing, gaps := false, false
	for _, chunk := range chunks {
		for i := range chunk.Len() {
			values.add(chunk, i)
			mask.Bytes = append(mask.Bytes, oneIf(chunk.IsNull(i)))
			missing = missing || chunk.IsNull(i)
			before := len(elements.Bytes)
			elements.Bytes = appendElementNulls(elements.Bytes, chunk, i, chunk.IsNull(i), false)
			for _, null := range elements.Bytes[before:] {
				gaps = gaps || null == 1
			}
		}
	}
	rows := int64(len(mask.Bytes))
	mask.Shape = []int64{rows}
	values.Shape = append([]int64{rows}, rowShape(t)...)
	elements.Shape = values.Shape
	if !missing && !gaps {
		return map[string]contents{"": values}
	}
	arrays := map[string]contents{"values": values}
	if missing {
		arrays["mask"] = mask
	}
	if gaps {
		arrays["element_mask"] = elements
	}
	return arrays
}

// expectNothing is what a column of type null becomes.
func expectNothing(chunks []arrow.Array) map[string]contents {
	rows := 0
	for _, c := range chunks {
		rows += c.Len()
	}
	shape := []int64{int64(rows)}
	return map[string]contents{
		"values": {Type: "bool", Shape: shape, Bytes: make([]byte, rows)},
		"mask":   {Type: "bool", Shape: shape, Bytes: bytes.Repeat([]byte{1}, rows)},
	}
}

// unwrapped takes an extension type as its storage.
func unwrapped(t arrow.DataType, chunks []arrow.Array) (arrow.DataType, []arrow.Array) {
	ext, ok := t.(arrow.ExtensionType)
	if !ok {
		return t, chunks
	}
	var inner []arrow.Array
	for _, c := range chunks {
		inner = append(inner, c.(array.ExtensionArray).Storage())
	}
	return unwrapped(ext.StorageType(), inner)
}

// expectCategorical gives each different value of the dictionaries a code, in
// the order in which they come.
func expectCategorical(t *arrow.DictionaryType, chunks []arrow.Array) map[string]contents {
	known := map[string]int64{}
	var codes []int64
	categories := ofType(t.ValueType)
	for _, chunk := range chunks {
		d := chunk.(*array.Dictionary)
		_, dictionary := unwrapped(t.ValueType, []arrow.Array{d.Dictionary()})
		values := dictionary[0]
		mapping := make([]int64, values.Len())
		for i := range mapping {
			if values.IsNull(i) {
				mapping[i] = -1
				continue
			}
			var one contents
			one.add(values, i)
			key := string(one.Bytes) + fmt.Sprint(one.Texts)
			if _, ok := known[key]; !ok {
				known[key] = int64(len(known))
				categories.add(values, i)
			}
			mapping[i] = known[key]
		}
		for i := range d.Len() {
			if d.IsNull(i) {
				codes = append(codes, -1)
			} else {
				codes = append(codes, mapping[d.GetValueIndex(i)])
			}
		}
	}
	categories.Shape = append([]int64{int64(len(known))}, rowShape(t.ValueType)...)
	codeType := map[arrow.Type]string{
		arrow.INT8: "int8", arrow.INT16: "int16", arrow.INT32: "int32", arrow.INT64: "int64",
		arrow.UINT8: "int16", arrow.UINT16: "int32", arrow.UINT32: "int64", arrow.UINT64: "int64",
	}[t.IndexType.ID()]
	packed := contents{Type: codeType, Shape: []int64{int64(len(codes))}, Bytes: []byte{}}
	for _, c := range codes {
		packed.Bytes = appendInt(packed.Bytes, codeType, c)
	}
	return map[string]contents{"codes": packed, "categories": categories}
}

func appendInt(b []byte, kind string, v int64) []byte {
	switch kind {
	case "int8":
		return append(b, byte(v))
	case "int16":
		return binary.LittleEndian.AppendUint16(b, uint16(v))
	case "int32":
		return binary.LittleEndian.AppendUint32(b, uint32(v))
	default:
		return binary.LittleEndian.AppendUint64(b, uint64(v))
	}
}

// add appends value i of an array, or the fill value where there is none.
func (c *contents) add(a arrow.Array, i int) {
	t := a.DataType()
	switch zarrType(t) {
	case "string", "bytes":
		if a.IsNull(i) {
			c.Texts = append(c.Texts, "")
		} else {
			c.Texts = append(c.Texts, textAt(a, i))
		}
	default:
		if a.IsNull(i) {
			c.Bytes = appendFill(c.Bytes, t)
		} else {
			c.Bytes = appendValue(c.Bytes, a, i)
		}
	}
}

func appendFill(b []byte, t arrow.DataType) []byte {
	if strings.HasSuffix(zarrType(t), "]") { // datetime64[us]
		return binary.LittleEndian.AppendUint64(b, 1<<63) // NaT
	}
	n := elementSize(t)
	for _, d := range rowShape(t) {
		n *= int(d)
	}
	return append(b, make([]byte, n)...)
}

// appendElementNulls tells of each element of a list whether it is missing. Of a
// missing row it says no; a missing list inside a row is one of missing elements.
func appendElementNulls(b []byte, a arrow.Array, i int, rowIsNull, listIsNull bool) []byte {
	list, ok := a.(*array.FixedSizeList)
	if !ok {
		return b
	}
	start, end := list.ValueOffsets(i)
	inner := list.ListValues()
	for j := int(start); j < int(end); j++ {
		missing := !rowIsNull && (listIsNull || inner.IsNull(j))
		if inner.DataType().ID() == arrow.FIXED_SIZE_LIST {
			b = appendElementNulls(b, inner, j, rowIsNull, missing)
		} else {
			b = append(b, oneIf(missing))
		}
	}
	return b
}

func appendValue(b []byte, a arrow.Array, i int) []byte {
	le := binary.LittleEndian
	switch a := a.(type) {
	case *array.Boolean:
		return append(b, oneIf(a.Value(i)))
	case *array.Int8:
		return append(b, byte(a.Value(i)))
	case *array.Uint8:
		return append(b, a.Value(i))
	case *array.Int16:
		return le.AppendUint16(b, uint16(a.Value(i)))
	case *array.Uint16:
		return le.AppendUint16(b, a.Value(i))
	case *array.Int32:
		return le.AppendUint32(b, uint32(a.Value(i)))
	case *array.Uint32:
		return le.AppendUint32(b, a.Value(i))
	case *array.Int64:
		return le.AppendUint64(b, uint64(a.Value(i)))
	case *array.Uint64:
		return le.AppendUint64(b, a.Value(i))
	case *array.Float16:
		return le.AppendUint16(b, a.Value(i).Uint16())
	case *array.Float32:
		return le.AppendUint32(b, math.Float32bits(a.Value(i)))
	case *array.Float64:
		return le.AppendUint64(b, math.Float64bits(a.Value(i)))
	case *array.Date32:
		return le.AppendUint64(b, uint64(int64(a.Value(i))))
	case *array.Date64:
		return le.AppendUint64(b, uint64(a.Value(i)))
	case *array.Time32:
		return le.AppendUint64(b, uint64(int64(a.Value(i))))
	case *array.Time64:
		return le.AppendUint64(b, uint64(a.Value(i)))
	case *array.Timestamp:
		return le.AppendUint64(b, uint64(a.Value(i)))
	case *array.Duration:
		return le.AppendUint64(b, uint64(a.Value(i)))
	case *array.Decimal32:
		return le.AppendUint32(b, uint32(a.Value(i)))
	case *array.Decimal64:
		return le.AppendUint64(b, uint64(a.Value(i)))
	case *array.Decimal128:
		return le.AppendUint64(le.AppendUint64(b, a.Value(i).LowBits()), uint64(a.Value(i).HighBits()))
	case *array.Decimal256:
		for _, limb := range a.Value(i).Array() {
			b = le.AppendUint64(b, limb)
		}
		return b
	case *array.FixedSizeBinary:
		return append(b, a.Value(i)...)
	case *array.FixedSizeList:
		start, end := a.ValueOffsets(i)
		row := contents{Bytes: b}
		for j := start; j < end; j++ {
			row.add(a.ListValues(), int(j))
		}
		return row.Bytes
	}
	panic(fmt.Sprintf("no expectation for %T", a))
}

func textAt(a arrow.Array, i int) string {
	switch a := a.(type) {
	case interface{ Value(int) string }:
		return a.Value(i)
	case interface{ Value(int) []byte }:
		return string(a.Value(i))
	}
	panic(fmt.Sprintf("no expectation for %T", a))
}

func oneIf(b bool) byte {
	if b {
		return 1
	}
	return 0
}
