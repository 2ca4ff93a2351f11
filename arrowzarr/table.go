package arrowzarr

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// zarrTable reads a group of columns as Arrow record batches: one that Convert wrote, or
// any group of arrays of one length.
type zarrTable struct {
	schema  *arrow.Schema
	rows    int64
	columns []*tableColumn
}

// tableColumn reads rows of one column.
type tableColumn struct {
	plan *column
	zarrReader
	dictionary   arrow.Array           // the categories, once they are read
	dictionaries map[*node]arrow.Array // those of dictionaries inside
}

// zarrReader opens and reads the arrays of a column.
type zarrReader struct {
	group  *zarr.Group
	path   string
	jobs   int
	arrays map[string]*zarr.Array // by name below the column; nil if the array does not exist
}

// openTable opens the table in a store.
func openTable(ctx context.Context, s store.Store, jobs int) (*zarrTable, error) {
	group, err := zarr.OpenGroup(ctx, s, "")
	if err != nil {
		return nil, err
	}
	attributes := group.Metadata().Attributes
	if text, ok := attributes[attrSchema].(string); ok {
		return openConverted(group, text, jobs)
	}
	return openForeign(ctx, group, jobs)
}

// openConverted opens a table that Convert wrote.
func openConverted(group *zarr.Group, schemaText string, jobs int) (*zarrTable, error) {
	schema, err := parseSchema(schemaText)
	if err != nil {
		return nil, fmt.Errorf("attribute %s: %w", attrSchema, err)
	}
	chosen, err := chooseColumns(schema, Options{})
	if err != nil {
		return nil, err
	}
	plans := chosen.plans
	attributes := group.Metadata().Attributes
	t := &zarrTable{schema: schema, rows: rowCount(attributes)}
	if t.rows < 0 {
		return nil, fmt.Errorf("attribute %s: %v, expected a number of rows: %w", attrRows, attributes[attrRows], errMalformed)
	}
	names, _ := attributes[attrColumns].([]any)
	if len(names) != len(plans) {
		return nil, fmt.Errorf("attribute %s has %d names, and the schema %d fields: %w", attrColumns, len(names), len(plans), errMalformed)
	}
	for i, plan := range plans {
		name, ok := names[i].(string)
		if !ok || zarr.CheckName(name) != nil {
			return nil, fmt.Errorf("attribute %s: %v, expected the name of a node: %w", attrColumns, names[i], errMalformed)
		}
		plan.name = name
		t.columns = append(t.columns, newTableColumn(group, plan, jobs))
	}
	return t, nil
}

func newTableColumn(group *zarr.Group, plan *column, jobs int) *tableColumn {
	return &tableColumn{plan: plan, zarrReader: zarrReader{group: group, path: plan.name, jobs: jobs, arrays: map[string]*zarr.Array{}}}
}

// parseSchema returns the schema of a base64 text.
func parseSchema(text string) (schema *arrow.Schema, err error) {
	message, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	err = catchPanic(func() error {
		r, err := ipc.NewReader(bytes.NewReader(message))
		if err != nil {
			return err
		}
		defer r.Release()
		schema = r.Schema()
		return nil
	})
	return schema, err
}

// openForeign opens a group that another program wrote. Each array of it is a column;
// groups are those of anndata: nullable values and categoricals.
func openForeign(ctx context.Context, group *zarr.Group, jobs int) (*zarrTable, error) {
	children, err := group.Children(ctx)
	if err != nil {
		return nil, err
	}
	if order, ok := group.Metadata().Attributes[attrOrder].([]any); ok {
		children = inColumnOrder(children, order)
	}
	t := &zarrTable{rows: -1}
	var fields []arrow.Field
	for _, child := range children {
		field := arrow.Field{Name: child.Name}
		var rows int64
		switch node := child.Node.(type) {
		case *zarr.ArrayMetadata:
			field.Type, err = arrowTypeOf(node, node.DataType)
			rows = firstAxisLen(node.Shape)
			if len(node.Shape) == 0 {
				err = errors.New("an array without axes is no column")
			}
		case *zarr.GroupMetadata:
			field.Type, rows, err = foreignGroup(ctx, group, child.Name)
			field.Nullable = true
		default:
			err = errors.New("the node cannot be read")
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", child.Name, err)
		}
		if t.rows >= 0 && rows != t.rows {
			return nil, fmt.Errorf("column %q has %d rows, where column %q has %d", child.Name, rows, fields[0].Name, t.rows)
		}
		t.rows = rows
		if id := field.Type.ID(); id == arrow.TIMESTAMP || id == arrow.DURATION || id == arrow.DATE32 {
			field.Nullable = true // NaT
		}
		plan, err := planColumn(field)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
		t.columns = append(t.columns, newTableColumn(group, plan, jobs))
	}
	t.rows = max(t.rows, 0)
	t.schema = arrow.NewSchema(fields, nil)
	return t, nil
}

// inColumnOrder returns the children that an order names, in that order, and then the
// others.
func inColumnOrder(children []zarr.Child, order []any) []zarr.Child {
	position := func(c zarr.Child) int {
		if i := slices.Index(order, any(c.Name)); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(children, func(a, b zarr.Child) int { return position(a) - position(b) })
	return children
}

// foreignGroup returns the type and the rows of a group of anndata's.
func foreignGroup(ctx context.Context, group *zarr.Group, name string) (arrow.DataType, int64, error) {
	values, err := group.OpenArray(ctx, name+"/values")
	if err == nil {
		m := values.Metadata()
		t, err := arrowTypeOf(m, m.DataType)
		return t, firstAxisLen(m.Shape), err
	}
	codes, err := group.OpenArray(ctx, name+"/codes")
	if err == nil {
		var categories *zarr.Array
		if categories, err = group.OpenArray(ctx, name+"/categories"); err == nil {
			index, err := arrowTypeOf(codes.Metadata(), codes.Metadata().DataType)
			if err != nil {
				return nil, 0, err
			}
			value, err := arrowTypeOf(categories.Metadata(), categories.Metadata().DataType)
			if err != nil {
				return nil, 0, err
			}
			return &arrow.DictionaryType{IndexType: index, ValueType: value}, firstAxisLen(codes.Metadata().Shape), nil
		}
	}
	return nil, 0, fmt.Errorf("a group without values and without codes and categories: %w", err)
}

// arrowTypeOf returns the Arrow type for rows of an array.
func arrowTypeOf(m *zarr.ArrayMetadata, t element.Type) (arrow.DataType, error) {
	value, err := arrowElement(t)
	if err != nil {
		return nil, err
	}
	for i := len(m.Shape) - 1; i > 0; i-- {
		if m.Shape[i] > math.MaxInt32 {
			return nil, fmt.Errorf("an axis of %d elements", m.Shape[i])
		}
		value = arrow.FixedSizeListOfNonNullable(int32(m.Shape[i]), value)
	}
	return value, nil
}

func arrowElement(t element.Type) (arrow.DataType, error) {
	switch t.String() {
	case element.String.String():
		return arrow.BinaryTypes.String, nil
	case element.Bytes.String():
		return arrow.BinaryTypes.Binary, nil
	}
	dtype, ok := t.DType()
	if !ok {
		return nil, fmt.Errorf("the data type %s has no Arrow type", t)
	}
	for id, d := range fixedTypes {
		if d == dtype && id != arrow.DECIMAL32 && id != arrow.DECIMAL64 && id != arrow.INTERVAL_MONTHS {
			return primitiveTypes[id], nil
		}
	}
	if dtype == ndview.Datetime64(ndview.Day, 1) {
		return arrow.FixedWidthTypes.Date32, nil
	}
	for unit, u := range timeUnits {
		switch dtype {
		case ndview.Datetime64(u, 1):
			return &arrow.TimestampType{Unit: unit}, nil
		case ndview.Timedelta64(u, 1):
			return &arrow.DurationType{Unit: unit}, nil
		}
	}
	return nil, fmt.Errorf("the data type %s has no Arrow type", typeName(t))
}

var primitiveTypes = map[arrow.Type]arrow.DataType{
	arrow.BOOL: arrow.FixedWidthTypes.Boolean, arrow.FLOAT16: arrow.FixedWidthTypes.Float16,
	arrow.INT8: arrow.PrimitiveTypes.Int8, arrow.INT16: arrow.PrimitiveTypes.Int16,
	arrow.INT32: arrow.PrimitiveTypes.Int32, arrow.INT64: arrow.PrimitiveTypes.Int64,
	arrow.UINT8: arrow.PrimitiveTypes.Uint8, arrow.UINT16: arrow.PrimitiveTypes.Uint16,
	arrow.UINT32: arrow.PrimitiveTypes.Uint32, arrow.UINT64: arrow.PrimitiveTypes.Uint64,
	arrow.FLOAT32: arrow.PrimitiveTypes.Float32, arrow.FLOAT64: arrow.PrimitiveTypes.Float64,
}

// batchRows returns the rows of a batch to read: a chunk of the first array, so that
// few chunks are decoded twice, but no more than most and than run ends can count.
func (t *zarrTable) batchRows(most int64) int64 {
	for _, c := range t.columns {
		if limit := runLimit(c.plan.field.Type); limit < most {
			most = limit
		}
	}
	return max(most, 1)
}

// runLimit is the most elements that an array of a type can have, because of the run
// ends in it.
func runLimit(t arrow.DataType) int64 {
	t = storageType(t)
	if runs, ok := t.(*arrow.RunEndEncodedType); ok {
		limit := map[arrow.Type]int64{arrow.INT16: math.MaxInt16, arrow.INT32: math.MaxInt32}[runs.RunEnds().ID()]
		if limit == 0 {
			limit = math.MaxInt64
		}
		return min(limit, runLimit(runs.Encoded()))
	}
	return math.MaxInt64
}

// errTooLong marks that rows have more elements or bytes than the offsets of their type
// can count. Fewer rows may fit.
var errTooLong = errors.New("more elements than the offsets of the type can count")

// read returns rows [from, to) as a record batch, or fewer of them if they do not fit
// one. The caller must release it.
func (t *zarrTable) read(ctx context.Context, from, to int64) (arrow.RecordBatch, error) {
	for {
		batch, err := t.readAll(ctx, from, to)
		if !errors.Is(err, errTooLong) || to-from < 2 {
			return batch, err
		}
		to = from + (to-from)/2
	}
}

func (t *zarrTable) readAll(ctx context.Context, from, to int64) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(t.columns))
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, c := range t.columns {
		err := catchPanic(func() (err error) {
			columns[i], err = c.read(ctx, from, to)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.plan.field.Name, err)
		}
	}
	return array.NewRecordBatch(t.schema, columns, to-from), nil
}

// release releases what the columns keep.
func (t *zarrTable) release() {
	for _, c := range t.columns {
		if c.dictionary != nil {
			c.dictionary.Release()
			c.dictionary = nil
		}
		for _, d := range c.dictionaries {
			d.Release()
		}
		c.dictionaries = nil
	}
}

// open returns the array of a name below the column, or nil if it does not exist. The
// name "" is the column itself.
func (r *zarrReader) open(ctx context.Context, name string) (*zarr.Array, error) {
	if a, ok := r.arrays[name]; ok {
		return a, nil
	}
	path := r.path
	if name != "" {
		path += "/" + name
	}
	a, err := r.group.OpenArray(ctx, path)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, zarr.ErrNodeType) {
		a, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.arrays[name] = a
	return a, nil
}

// require is open that fails if the array does not exist.
func (r *zarrReader) require(ctx context.Context, name string) (*zarr.Array, error) {
	a, err := r.open(ctx, name)
	if err == nil && a == nil {
		err = fmt.Errorf("no array %q: %w", name, store.ErrNotFound)
	}
	return a, err
}

// fixed returns the bytes of rows [from, to) of an array of elements of a dtype.
func (r *zarrReader) fixed(ctx context.Context, a *zarr.Array, dtype ndview.DType, from, to int64) ([]byte, error) {
	if n := firstAxisLen(a.Shape()); from < 0 || to < from || to > n {
		return nil, fmt.Errorf("%s: rows [%d, %d) of %d: %w", a.Path(), from, to, n, errMalformed)
	}
	if stored, ok := a.Metadata().DataType.DType(); !ok || stored != dtype {
		return nil, fmt.Errorf("%s: data type %s, expected %s: %w", a.Path(), a.Metadata().DataType, dtype, errMalformed)
	}
	values, err := a.ReadRows(ctx, zarr.Prototype{}, from, to, r.jobs)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	nd, ok := values.(*ndview.NDBuffer)
	if !ok {
		return nil, fmt.Errorf("%s: %T, expected numbers: %w", a.Path(), values, errMalformed)
	}
	raw := make([]byte, nd.NBytes())
	return raw, nd.CopyToHost(raw)
}

// mask returns which rows are missing; nil if there is no array of the name.
func (r *zarrReader) mask(ctx context.Context, name string, from, to int64) ([]byte, error) {
	a, err := r.open(ctx, name)
	if err != nil || a == nil {
		return nil, err
	}
	return r.fixed(ctx, a, ndview.Bool, from, to)
}

// integers returns rows of an array of signed integers.
func (r *zarrReader) integers(ctx context.Context, name string, dtype ndview.DType, from, to int64) ([]int64, error) {
	a, err := r.require(ctx, name)
	if err != nil {
		return nil, err
	}
	raw, err := r.fixed(ctx, a, dtype, from, to)
	if err != nil {
		return nil, err
	}
	return widen(raw, dtype.Size()), nil
}

// chunkRowsOf is the extent of a chunk along the first axis; that of the chunks in
// shards, if the array is sharded.
func chunkRowsOf(m *zarr.ArrayMetadata) int64 {
	if len(m.Codecs) == 1 {
		if sharding, ok := m.Codecs[0].(codec.Sharding); ok {
			return sharding.ChunkShape[0]
		}
	}
	return m.ChunkShape[0]
}
