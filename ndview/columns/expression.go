package columns

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Expr is an expression that computes a column, such as
//
//	total := columns.Multiply(columns.Field("price"), columns.Field("quantity"))
//
// [With] adds its result to a record batch, and [FilterBy] selects rows by it. [Sum] and
// other aggregates reduce it, and Eval returns it as an array. Nothing is computed
// before. Intermediate results are released when the evaluation ends.
//
// Operands are of any of these types:
//
//   - an Expr
//   - an arrow.Array, which must stay valid until the evaluation
//   - a scalar.Scalar of Arrow, which counts as an array of its type does
//   - a Go number, bool, time.Time or time.Duration
//
// A Go bool, int, uint or float64 takes the type of the column beside it if that is of
// its kind. An int also takes the type of a column of floats. A time.Time or time.Duration takes the
// unit of the column, and must be a whole number of units. Every other Go number counts
// as a column of its type does.
//
// All arrays have one length and are on one device, to which arrays of the host are
// copied. An element is null if the same element of an operand is null, unless the
// function says otherwise. Values under nulls are undefined.
//
// The zero Expr returns arrow.ErrInvalid.
type Expr struct{ node *node }

// node is a function with its operands, a field, or a bound batch.
type node struct {
	name     string // of the function, for errors
	operands []any
	function func(w *workspace, in []value) (value, error) // nil for a field and a batch

	field string
	batch arrow.RecordBatch // of the fields of operand 0; it may be nil if isBatch is true
	// isField and isBatch say what the node is if it has no function.
	isField, isBatch bool
}

// Field returns the column of that name of the record batch that the expression is
// computed on. Evaluation returns arrow.ErrInvalid unless the batch has exactly one.
func Field(name string) Expr { return Expr{&node{field: name, isField: true}} }

// In returns the expression with its fields bound to a record batch, which must stay
// valid until the evaluation.
func (e Expr) In(batch arrow.RecordBatch) Expr {
	return Expr{&node{operands: []any{e}, batch: batch, isBatch: true}}
}

// Eval computes the expression. The result is on the device of its arrays; the caller
// must release it. The result of a field shares the column, and other results may share
// validity bitmaps. Eval returns
// arrow.ErrInvalid for nil operands, unbound fields, arrays of different lengths and
// expressions without an array. It returns arrowbuf.ErrDevice if devices differ, and
// arrow.ErrNotImplemented for types that a function does not take.
func (e Expr) Eval() (arrow.Array, error) {
	return evaluate(e, "Expr.Eval", func(w *workspace, v value) (arrow.Array, error) { return w.arrayOf(v) })
}

// With returns a record batch with the result of an expression on its columns as a
// nullable column. The column replaces the one of that name, or comes after all others.
// The other columns are shared; order and metadata stay. The caller must release the
// result. With returns arrow.ErrInvalid if several columns have that name. The other
// errors are those of [Expr.Eval].
func With(batch arrow.RecordBatch, name string, e Expr) (arrow.RecordBatch, error) {
	if batch == nil {
		return nil, fmt.Errorf("columns.With: batch: %w", errNil)
	}
	column, err := e.In(batch).Eval()
	if err != nil {
		return nil, fmt.Errorf("columns.With: column %q: %w", name, err)
	}
	defer column.Release()
	schema, all := batch.Schema(), slices.Clone(batch.Columns())
	if int64(column.Len()) != batch.NumRows() {
		return nil, fmt.Errorf("columns.With: column %q of %d rows, want %d: %w", name, column.Len(), batch.NumRows(), arrow.ErrInvalid)
	}
	fields := slices.Clone(schema.Fields())
	field := arrow.Field{Name: name, Type: column.DataType(), Nullable: true}
	switch at := schema.FieldIndices(name); len(at) {
	case 0:
		fields, all = append(fields, field), append(all, column)
	case 1:
		field.Metadata = fields[at[0]].Metadata
		fields[at[0]], all[at[0]] = field, column
	default:
		return nil, fmt.Errorf("columns.With: %d columns %q, want at most 1: %w", len(at), name, arrow.ErrInvalid)
	}
	meta := schema.Metadata()
	result, err := arrowbuf.NewRecordBatch(arrow.NewSchemaWithEndian(fields, &meta, schema.Endianness()), all, batch.NumRows())
	if err != nil {
		return nil, fmt.Errorf("columns.With: %w", err)
	}
	return result, nil
}

// FilterBy is [FilterBatch] by a condition on the columns of the batch. Rows for which
// the condition is null are left out.
func FilterBy(batch arrow.RecordBatch, condition Expr) (arrow.RecordBatch, error) {
	if batch == nil {
		return nil, fmt.Errorf("columns.FilterBy: batch: %w", errNil)
	}
	mask, err := condition.In(batch).Eval()
	if err != nil {
		return nil, fmt.Errorf("columns.FilterBy: condition: %w", err)
	}
	defer mask.Release()
	return FilterBatch(batch, mask)
}

// call returns the expression of a function.
func call(name string, function func(w *workspace, in []value) (value, error), operands ...any) Expr {
	return Expr{&node{name: name, operands: operands, function: function}}
}

// evaluate passes the value of an operand to use, in a workspace that lasts as long.
func evaluate[T any](x any, name string, use func(w *workspace, v value) (T, error)) (result T, err error) {
	s := inputs{n: -1}
	if err := s.operand(x, nil); err != nil {
		return result, fmt.Errorf("columns.%s: %w", name, err)
	}
	if s.n < 0 {
		return result, fmt.Errorf("columns.%s: no operand is a column: %w", name, arrow.ErrInvalid)
	}
	w := &workspace{dev: deviceOfAll(s.arrays)}
	defer w.release()
	v, err := w.operand(x, nil)
	if err != nil {
		return result, err
	}
	if result, err = use(w, v); err != nil {
		return result, fmt.Errorf("columns.%s: %w", name, err)
	}
	return result, nil
}

// inputs finds the arrays of an expression and checks their lengths.
type inputs struct {
	arrays []arrow.Array
	n      int64 // the length of all arrays; -1 for none
}

func (s *inputs) operand(x any, batch arrow.RecordBatch) error {
	switch x := x.(type) {
	case Expr:
		switch {
		case x.node == nil:
			return fmt.Errorf("zero Expr: %w", arrow.ErrInvalid)
		case x.node.isField:
			arr, err := fieldOf(batch, x.node.field)
			if err != nil {
				return err
			}
			return s.array(arr)
		case x.node.isBatch:
			if isNil(x.node.batch) {
				return fmt.Errorf("batch: %w", errNil)
			}
			return s.operand(x.node.operands[0], x.node.batch)
		}
		for _, one := range x.node.operands {
			if err := s.operand(one, batch); err != nil {
				return err
			}
		}
		return nil
	case arrow.Array:
		if isNil(x) {
			return fmt.Errorf("array: %w", errNil)
		}
		return s.array(x)
	default:
		_, err := literalOf(x)
		return err
	}
}

func (s *inputs) array(arr arrow.Array) error {
	n := int64(arr.Len())
	if s.n >= 0 && s.n != n {
		return fmt.Errorf("arrays of %d and %d elements: %w", s.n, n, arrow.ErrInvalid)
	}
	s.arrays, s.n = append(s.arrays, arr), n
	return nil
}

// fieldOf returns the column of a name, without a reference.
func fieldOf(batch arrow.RecordBatch, name string) (arrow.Array, error) {
	if batch == nil {
		return nil, fmt.Errorf("field %q of no record batch; see Expr.In: %w", name, arrow.ErrInvalid)
	}
	at := batch.Schema().FieldIndices(name)
	if len(at) != 1 {
		return nil, fmt.Errorf("%d columns %q, want 1: %w", len(at), name, arrow.ErrInvalid)
	}
	return batch.Column(at[0]), nil
}

// operand returns the value of an operand that inputs has accepted.
func (w *workspace) operand(x any, batch arrow.RecordBatch) (value, error) {
	e, ok := x.(Expr)
	if !ok {
		if arr, ok := x.(arrow.Array); ok {
			return w.column(arr, arr.DataType().String())
		}
		return literalOf(x)
	}
	switch {
	case e.node.isField:
		arr, err := fieldOf(batch, e.node.field)
		if err != nil {
			return value{}, err
		}
		return w.column(arr, fmt.Sprintf("column %q of type %s", e.node.field, arr.DataType()))
	case e.node.isBatch:
		return w.operand(e.node.operands[0], e.node.batch)
	}
	in := make([]value, len(e.node.operands))
	for i, one := range e.node.operands {
		var err error
		if in[i], err = w.operand(one, batch); err != nil {
			return value{}, err
		}
	}
	v, err := e.node.function(w, in)
	if err != nil {
		return v, fmt.Errorf("columns.%s: %w", e.node.name, err)
	}
	v.label = v.dtype.String()
	return v, nil
}

// column returns the value of an array on any device.
func (w *workspace) column(arr arrow.Array, label string) (value, error) {
	moved, err := w.copyToDevice(arr)
	if err != nil {
		return value{}, fmt.Errorf("%s: %w", label, err)
	}
	return value{dtype: arr.DataType(), n: int64(arr.Len()), array: moved, label: label}, nil
}

// columnLength returns the length of the values that are no literals, of which there is
// at least one.
func columnLength(in []value) (int64, error) {
	for _, v := range in {
		if !v.isLiteral() {
			return v.n, nil
		}
	}
	return 0, fmt.Errorf("no operand is a column: %w", arrow.ErrInvalid)
}

// arrayOf returns a value as a new reference to an array.
func (w *workspace) arrayOf(v value) (arrow.Array, error) {
	switch {
	case v.isLiteral():
		return nil, fmt.Errorf("no operand is a column: %w", arrow.ErrInvalid)
	case v.array != nil:
		v.array.Retain()
		return v.array, nil
	}
	data, err := w.dataOf(v)
	if err != nil {
		return nil, err
	}
	return newArray(data)
}
