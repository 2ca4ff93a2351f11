package arrowzarr_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// contents is the contents of an array of the output.
type contents struct {
	Type  string
	Shape []int64
	Bytes []byte   // the elements of fixed width, in C order
	Texts []string // the strings or byte strings
}

// ofType returns the contents of an empty array of a type.
func ofType(t arrow.DataType) contents {
	c := contents{Type: zarrType(t)}
	if c.Type != "string" && c.Type != "bytes" {
		c.Bytes = []byte{}
	}
	return c
}

// expect returns the arrays that a column becomes, by their paths below it ("" for a
// column that is one array). It reads each value with arrow-go's accessors, and shares
// no code with the package under test.
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

// expectNothing returns the arrays of a column of type null.
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

// unwrapped returns the storage of an extension type and of its arrays.
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

// expectCategorical returns the arrays of a dictionary column. Distinct values have
// codes in the order in which they appear.
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

// add appends value i of an array, or the fill value if it is null.
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

// appendElementNulls appends, for each element of a list, whether it is missing. The
// elements of a missing row are not missing; those of a missing list in a row are.
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
	case *array.MonthInterval:
		return binary.LittleEndian.AppendUint32(b, uint32(a.Value(i)))
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

// zarrType returns the data type of an Arrow type in Zarr, with the unit of times. It
// panics for types that have none.
func zarrType(t arrow.DataType) string {
	unit := func(u arrow.TimeUnit) string { return u.String() }
	switch t := t.(type) {
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		return "string"
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		return "bytes"
	case *arrow.NullType, *arrow.BooleanType:
		return "bool"
	case *arrow.FixedSizeBinaryType:
		return "uint8"
	case *arrow.Date32Type:
		return "datetime64[D]"
	case *arrow.Date64Type:
		return "datetime64[ms]"
	case *arrow.TimestampType:
		return fmt.Sprintf("datetime64[%s]", unit(t.Unit))
	case *arrow.Time32Type:
		return fmt.Sprintf("timedelta64[%s]", unit(t.Unit))
	case *arrow.Time64Type:
		return fmt.Sprintf("timedelta64[%s]", unit(t.Unit))
	case *arrow.DurationType:
		return fmt.Sprintf("timedelta64[%s]", unit(t.Unit))
	case *arrow.Decimal32Type:
		return "int32"
	case *arrow.Decimal64Type:
		return "int64"
	case *arrow.Decimal128Type, *arrow.Decimal256Type:
		return "uint64"
	case *arrow.FixedSizeListType:
		return zarrType(t.Elem())
	case arrow.ExtensionType:
		return zarrType(t.StorageType())
	}
	names := map[arrow.Type]string{
		arrow.INT8: "int8", arrow.INT16: "int16", arrow.INT32: "int32", arrow.INT64: "int64",
		arrow.UINT8: "uint8", arrow.UINT16: "uint16", arrow.UINT32: "uint32", arrow.UINT64: "uint64",
		arrow.FLOAT16: "float16", arrow.FLOAT32: "float32", arrow.FLOAT64: "float64",
		arrow.INTERVAL_MONTHS: "int32",
	}
	if name, ok := names[t.ID()]; ok {
		return name
	}
	panic(fmt.Sprintf("no expectation for %s", t))
}

// rowShape returns the shape after the first axis.
func rowShape(t arrow.DataType) []int64 {
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		return []int64{int64(t.ByteWidth)}
	case *arrow.Decimal128Type:
		return []int64{2}
	case *arrow.Decimal256Type:
		return []int64{4}
	case *arrow.FixedSizeListType:
		return append([]int64{int64(t.Len())}, rowShape(t.Elem())...)
	case arrow.ExtensionType:
		return rowShape(t.StorageType())
	}
	return nil
}

// elementSize returns the number of bytes of an element in Zarr.
func elementSize(t arrow.DataType) int {
	switch zarrType(t) {
	case "bool", "int8", "uint8":
		return 1
	case "int16", "uint16", "float16":
		return 2
	case "int32", "uint32", "float32":
		return 4
	default:
		return 8
	}
}

// openRoot opens an output.
func openRoot(tb testing.TB, output string) *zarr.Group {
	tb.Helper()
	root, err := zarr.OpenGroup(tb.Context(), store.NewLocal(output), "")
	require.NoError(tb, err)
	return root
}

// requireTable checks that an output has exactly the columns of a table.
func requireTable(tb testing.TB, want tabletest.Table, output string) {
	tb.Helper()
	root := openRoot(tb, output)
	nodes := map[string]bool{}
	names := root.Metadata().Attributes["arrow_columns"].([]any)
	require.Len(tb, names, want.Schema.NumFields())
	for i, field := range want.Schema.Fields() {
		name := names[i].(string)
		nodes[name] = true
		attributes := attributesOf(tb, root, name)
		if name != field.Name {
			assert.Equal(tb, field.Name, attributes["arrow_name"])
		}
		switch {
		case attributes["encoding-type"] == "awkward-array":
			assert.Contains(tb, attributes["form"], "class", "column %q", name)
		case field.Type.ID() != arrow.RUN_END_ENCODED:
			requireColumn(tb, root, name, expect(field.Type, want.Column(i)))
		}
	}
	if root.Metadata().Attributes["_index"] == "_index" {
		nodes["_index"] = true
	}
	children, err := root.Children(tb.Context())
	require.NoError(tb, err)
	for _, c := range children {
		assert.Contains(tb, nodes, c.Name, "a node that is no column")
	}
	assert.Len(tb, children, len(nodes))
}

// requireColumn checks the arrays of a column of an output.
func requireColumn(tb testing.TB, root *zarr.Group, name string, want map[string]contents) {
	tb.Helper()
	got := readColumn(tb, root, name)
	// The element mask of missing rows is undefined. A column has an element mask if
	// an element of a row that is not missing is missing; otherwise it may have one.
	if elements, ok := got["element_mask"]; ok && want["values"].Type != "" {
		if mask, ok := got["mask"]; ok {
			clearRows(elements.Bytes, mask.Bytes)
		}
		if _, ok := want["element_mask"]; !ok {
			assert.NotContains(tb, elements.Bytes, byte(1), "%s: missing elements", name)
			delete(got, "element_mask")
		}
	}
	require.Equal(tb, keys(want), keys(got), "arrays of column %q", name)
	for at, w := range want {
		requireContents(tb, w, got[at], name, at)
	}
}

// requireContents is require.Equal with shorter messages.
func requireContents(tb testing.TB, want, got contents, name, at string) {
	tb.Helper()
	require.Equal(tb, want.Type, got.Type, "column %q, array %q: type", name, at)
	require.Equal(tb, want.Shape, got.Shape, "column %q, array %q: shape", name, at)
	require.Equal(tb, want.Texts, got.Texts, "column %q, array %q", name, at)
	require.Len(tb, got.Bytes, len(want.Bytes), "column %q, array %q", name, at)
	for i, b := range want.Bytes {
		if got.Bytes[i] != b {
			i = i / 8 * 8
			end := min(i+64, len(want.Bytes))
			require.Equal(tb, want.Bytes[i:end], got.Bytes[i:end], "column %q, array %q: bytes from %d on", name, at, i)
		}
	}
}

func keys(arrays map[string]contents) map[string]bool {
	found := map[string]bool{}
	for k := range arrays {
		found[k] = true
	}
	return found
}

func clearRows(elements, rows []byte) {
	for i, missing := range rows {
		if width := len(elements) / len(rows); missing == 1 {
			clear(elements[i*width : (i+1)*width])
		}
	}
}

// readColumn reads the arrays of a column, by their paths below it.
func readColumn(tb testing.TB, root *zarr.Group, name string) map[string]contents {
	tb.Helper()
	arrays := map[string]contents{}
	if node := root.Metadata().Consolidated[name]; assert.NotNil(tb, node, "no node %q", name) {
		if _, ok := node.(*zarr.ArrayMetadata); ok {
			return map[string]contents{"": readArray(tb, root, name)}
		}
	}
	for at, node := range root.Metadata().Consolidated {
		if below, ok := strings.CutPrefix(at, name+"/"); ok {
			require.IsType(tb, &zarr.ArrayMetadata{}, node)
			arrays[below] = readArray(tb, root, at)
		}
	}
	return arrays
}

func readArray(tb testing.TB, root *zarr.Group, at string) contents {
	tb.Helper()
	a, err := root.OpenArray(tb.Context(), at)
	require.NoError(tb, err)
	values, err := a.Read(tb.Context(), zarr.Prototype{}, 1)
	require.NoError(tb, err, "reading %q", at)
	defer values.Release()
	c := contents{Type: a.Metadata().DataType.String(), Shape: values.Shape()}
	switch v := values.(type) {
	case *ndview.NDBuffer:
		c.Type = v.DType().String()
		c.Bytes = make([]byte, v.NBytes())
		require.NoError(tb, v.CopyToHost(c.Bytes))
	case *element.VLen:
		for _, e := range v.Elements() {
			c.Texts = append(c.Texts, string(e))
		}
	}
	return c
}

// documents returns the metadata documents below a directory, by path.
func documents(tb testing.TB, root string) map[string]string {
	tb.Helper()
	found := map[string]string{}
	require.NoError(tb, filepath.WalkDir(root, func(at string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "zarr.json" {
			return err
		}
		raw, err := os.ReadFile(at)
		rel, _ := filepath.Rel(root, filepath.Dir(at))
		found[path.Clean(filepath.ToSlash(rel))] = string(raw)
		return err
	}))
	return found
}

// readTable reads an input with only arrow-go.
func readTable(tb testing.TB, path string) tabletest.Table {
	tb.Helper()
	content, err := os.ReadFile(path)
	require.NoError(tb, err)
	switch {
	case bytes.HasPrefix(content, []byte("ARROW1")):
		r, err := ipc.NewFileReader(bytes.NewReader(content))
		require.NoError(tb, err)
		t := tabletest.Table{Schema: r.Schema()}
		for i := range r.NumRecords() {
			b, err := r.RecordBatchAt(i)
			require.NoError(tb, err)
			t.Batches = append(t.Batches, b)
		}
		return t
	case bytes.HasPrefix(content, []byte("PAR1")):
		r, err := file.NewParquetReader(bytes.NewReader(content))
		require.NoError(tb, err)
		arrows, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(tb, err)
		whole, err := arrows.ReadTable(context.Background())
		require.NoError(tb, err)
		t := tabletest.Table{Schema: whole.Schema()}
		for batches := array.NewTableReader(whole, whole.NumRows()); batches.Next(); {
			b := batches.RecordBatch()
			b.Retain()
			t.Batches = append(t.Batches, b)
		}
		return t
	}
	r, err := ipc.NewReader(bytes.NewReader(content))
	require.NoError(tb, err)
	t := tabletest.Table{Schema: r.Schema()}
	for r.Next() {
		b := r.RecordBatch()
		b.Retain()
		t.Batches = append(t.Batches, b)
	}
	require.NoError(tb, r.Err())
	return t
}

// recorder is a testing.TB for a child process, which has no test. It keeps the failures,
// and FailNow panics with it.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Context() context.Context { return context.Background() }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow() { panic(r) }
