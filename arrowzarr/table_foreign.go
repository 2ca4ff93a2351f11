package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// openForeign opens a group that another program wrote. Each array of it is a column;
// groups are those of anndata: nullable values and categoricals.
func openForeign(ctx context.Context, group *zarr.Group, options TableOptions) (*Table, error) {
	children, err := chosenChildren(ctx, group, options)
	if err != nil {
		return nil, err
	}
	found := make([]foreignColumn, len(children))
	counts := map[int64]int{}
	t := &Table{}
	for i, child := range children {
		if found[i] = openForeignColumn(ctx, group, child); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// Most columns have the table's rows.
		if rows := found[i].rows; found[i].err == nil {
			if counts[rows]++; counts[rows] > counts[t.rows] {
				t.rows = rows
			}
		}
	}
	var refused []error
	var names []string
	var fields []arrow.Field
	for i, c := range found {
		if c.err == nil && c.rows != t.rows {
			c.err = fmt.Errorf("%d rows, where most columns have %d", c.rows, t.rows)
		}
		if c.err != nil {
			refused, names = append(refused, fmt.Errorf("column %q: %w", children[i].Name, c.err)), append(names, children[i].Name)
			continue
		}
		fields = append(fields, c.column.field)
		t.columns = append(t.columns, newTableColumn(group, c.column, options.Jobs))
	}
	if len(refused) > 0 && len(fields) > 0 {
		refused = append(refused, fmt.Errorf("the other %d can be read: leave these out, with --exclude %q", len(fields), strings.Join(names, ",")))
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	t.schema = arrow.NewSchema(fields, nil)
	return t, nil
}

// chosenChildren returns the members of a group that are columns of the table, in order.
func chosenChildren(ctx context.Context, group *zarr.Group, options TableOptions) ([]zarr.Child, error) {
	children, err := group.Children(ctx)
	if err != nil {
		return nil, err
	}
	if order, ok := group.Metadata().Attributes[attrOrder].([]any); ok {
		children = inColumnOrder(children, order)
	}
	fields := make([]arrow.Field, len(children))
	for i, child := range children {
		fields[i] = arrow.Field{Name: child.Name, Type: arrow.Null} // the types are not known
	}
	chosen, err := chooseFrom(arrow.NewSchema(fields, nil), options.Columns, options.Exclude)
	if err != nil {
		return nil, err
	}
	var some []zarr.Child
	for i, child := range children {
		if chosen[i] {
			some = append(some, child)
		}
	}
	return some, nil
}

// foreignColumn is a column, or the reason why a member of the group is none.
type foreignColumn struct {
	column *column
	rows   int64
	err    error
}

func openForeignColumn(ctx context.Context, group *zarr.Group, child zarr.Child) (c foreignColumn) {
	field := arrow.Field{Name: child.Name}
	switch node := child.Node.(type) {
	case *zarr.ArrayMetadata:
		if len(node.Shape) == 0 {
			c.err = errors.New("an array without axes is no column")
			return c
		}
		field.Type, c.err = arrowTypeOf(node, node.DataType)
		c.rows = firstAxisLen(node.Shape)
	case *zarr.GroupMetadata:
		field.Type, c.rows, c.err = foreignGroup(ctx, group, child.Name)
		field.Nullable = true
	case *zarr.UnreadableNode:
		c.err = node.Err
	default:
		c.err = fmt.Errorf("%T, expected an array or a group", node)
	}
	if c.err != nil {
		return c
	}
	if id := field.Type.ID(); id == arrow.TIMESTAMP || id == arrow.DURATION || id == arrow.DATE32 {
		field.Nullable = true // NaT
	}
	c.column, c.err = newColumn(field)
	return c
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
	if !errors.Is(err, store.ErrNotFound) {
		return nil, 0, err
	}
	return nil, 0, errors.New("a group without values and without codes and categories is no column")
}

// arrowTypeOf returns the Arrow type for rows of an array.
func arrowTypeOf(m *zarr.ArrayMetadata, t element.Type) (arrow.DataType, error) {
	value, err := arrowElement(t)
	if err != nil {
		return nil, err
	}
	if len(m.Shape) > 1 && (value.ID() == arrow.STRING || value.ID() == arrow.BINARY) {
		return nil, fmt.Errorf("text or bytes of %d axes are no column", len(m.Shape))
	}
	for i := len(m.Shape) - 1; i > 0; i-- {
		if m.Shape[i] > math.MaxInt32 {
			return nil, fmt.Errorf("an axis of %d elements", m.Shape[i])
		}
		value = arrow.FixedSizeListOfNonNullable(int32(m.Shape[i]), value)
	}
	return value, nil
}

// The names of text of a fixed length, which is NumPy's.
var utf32Name, terminatedName = element.UTF32(1).String(), element.NullTerminated(1).String()

func arrowElement(t element.Type) (arrow.DataType, error) {
	switch t.String() {
	case element.String.String(), utf32Name:
		return arrow.BinaryTypes.String, nil
	case element.Bytes.String(), terminatedName:
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
