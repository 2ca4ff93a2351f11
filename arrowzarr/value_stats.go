package arrowzarr

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
)

// ValueStats describes the values of a column.
type ValueStats struct {
	// Min and Max are the least and the greatest value as text, of at most 200 bytes.
	// They are "" if no value has an order: nested values, nulls and NaN have none.
	// Those of a dictionary column are of its categories.
	Min string `json:"min"`
	Max string `json:"max"`
	// Distinct is the number of categories of a dictionary column, otherwise -1. It is -1
	// too if they take too much memory to count.
	Distinct int64 `json:"distinct"`
}

// columnScanner collects the ValueStats of a column. A nil scanner collects nothing.
type columnScanner struct {
	extremes   interface{ add(a arrow.Array) error } // nil if the values have no order
	minText    string
	maxText    string
	categories *categories // of a dictionary column whose categories can be counted
	last       arrow.Array // the dictionary that was added last
	distinct   int64
}

// newColumnScanners returns the scanners of the columns of a schema; nil ones without
// stats.
func newColumnScanners(schema *arrow.Schema, stats bool) []*columnScanner {
	all := make([]*columnScanner, schema.NumFields())
	if !stats {
		return all
	}
	m := newCategoryMemory(DefaultMaxMemory / 2)
	for i, f := range schema.Fields() {
		s := &columnScanner{distinct: -1}
		t := valueType(f.Type)
		if d, ok := t.(*arrow.DictionaryType); ok {
			t = valueType(d.ValueType)
			if c, err := newColumn(f); err == nil && c.kind == kindDictionary {
				c.layout.dtype = ndview.Int64 // of which the codes never run out
				s.categories, s.distinct = newCategories([]*column{c}, m)[0], 0
			}
		}
		s.extremes = s.newExtremes(t)
		all[i] = s
	}
	return all
}

// add adds the values of a batch.
func (s *columnScanner) add(a arrow.Array) error {
	if s == nil {
		return nil
	}
	a = arrowdata.Unwrap(a)
	for {
		runs, ok := a.(*array.RunEndEncoded)
		if !ok {
			break
		}
		from := int64(runs.GetPhysicalOffset())
		values := array.NewSlice(runs.Values(), from, from+int64(runs.GetPhysicalLength()))
		defer values.Release()
		a = arrowdata.Unwrap(values)
	}
	if d, ok := a.(*array.Dictionary); ok {
		a = d.Dictionary()
		if s.last != nil && sameData(s.last.Data(), a.Data()) {
			return nil
		}
		if s.last != nil {
			s.last.Release()
		}
		a.Retain()
		s.last = a
		if err := s.count(a); err != nil {
			return err
		}
	}
	if s.extremes == nil {
		return nil
	}
	return s.extremes.add(arrowdata.UnwrapRuns(a))
}

// count counts the categories of a dictionary.
func (s *columnScanner) count(dictionary arrow.Array) error {
	if s.categories == nil {
		return nil
	}
	_, err := s.categories.mapDictionary(dictionary)
	s.distinct = s.categories.codeOf.len()
	var failure *Error
	if errors.As(err, &failure) && failure.Part == PartUsage { // too many for the memory
		s.categories.release()
		s.categories, s.distinct, err = nil, -1, nil
	}
	return err
}

// result returns the statistics and releases what the scanner holds.
func (s *columnScanner) result() *ValueStats {
	if s == nil {
		return nil
	}
	if s.categories != nil {
		s.categories.release()
	}
	if s.last != nil {
		s.last.Release()
	}
	return &ValueStats{Min: s.minText, Max: s.maxText, Distinct: s.distinct}
}

// extremes keeps the least and the greatest value.
type extremes[T any] struct {
	scanner *columnScanner
	// bind returns a function that returns value i of an array, and whether it has an
	// order. It returns nil for an array of another type.
	bind     func(a arrow.Array) func(i int) (T, bool)
	compare  func(a, b T) int
	clone    func(T) T // outlives the array
	min, max T
	found    bool
}

func (e *extremes[T]) add(a arrow.Array) error {
	value := e.bind(a)
	if value == nil {
		return fmt.Errorf("array of %T for type %s: %w", a, a.DataType(), arrowdata.ErrMalformed)
	}
	least, greatest := -1, -1 // of the array, if beyond those so far
	low, high, found := e.min, e.max, e.found
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		v, ordered := value(i)
		if !ordered {
			continue
		}
		if !found || e.compare(v, low) < 0 {
			low, least = v, i
		}
		if !found || e.compare(v, high) > 0 {
			high, greatest = v, i
		}
		found = true
	}
	e.found = found
	if least >= 0 {
		e.min, e.scanner.minText = e.clone(low), shortValue(a, least)
	}
	if greatest >= 0 {
		e.max, e.scanner.maxText = e.clone(high), shortValue(a, greatest)
	}
	return nil
}

// number is a type of values that Go compares.
type number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// numbers returns the extremes of arrays of a type of numbers.
func numbers[T number](s *columnScanner) *extremes[T] {
	bind := func(a arrow.Array) func(i int) (T, bool) {
		typed, ok := a.(interface{ Value(i int) T })
		if !ok {
			return nil
		}
		return func(i int) (T, bool) {
			v := typed.Value(i)
			return v, v == v // not NaN
		}
	}
	return &extremes[T]{scanner: s, bind: bind, compare: cmp.Compare[T], clone: func(v T) T { return v }}
}

// converted returns the extremes of arrays whose values a function makes comparable.
func converted[V, T any](s *columnScanner, convert func(V) T, compare func(a, b T) int) *extremes[T] {
	bind := func(a arrow.Array) func(i int) (T, bool) {
		typed, ok := a.(interface{ Value(i int) V })
		if !ok {
			return nil
		}
		return func(i int) (T, bool) {
			v := convert(typed.Value(i))
			return v, compare(v, v) == 0
		}
	}
	return &extremes[T]{scanner: s, bind: bind, compare: compare, clone: func(v T) T { return v }}
}

// newExtremes returns the extremes of arrays of a type; nil for one without an order.
func (s *columnScanner) newExtremes(t arrow.DataType) interface{ add(a arrow.Array) error } {
	switch t.ID() {
	case arrow.INT8:
		return numbers[int8](s)
	case arrow.INT16:
		return numbers[int16](s)
	case arrow.INT32:
		return numbers[int32](s)
	case arrow.INT64:
		return numbers[int64](s)
	case arrow.UINT8:
		return numbers[uint8](s)
	case arrow.UINT16:
		return numbers[uint16](s)
	case arrow.UINT32:
		return numbers[uint32](s)
	case arrow.UINT64:
		return numbers[uint64](s)
	case arrow.FLOAT32:
		return numbers[float32](s)
	case arrow.FLOAT64:
		return numbers[float64](s)
	case arrow.DATE32:
		return numbers[arrow.Date32](s)
	case arrow.DATE64:
		return numbers[arrow.Date64](s)
	case arrow.TIME32:
		return numbers[arrow.Time32](s)
	case arrow.TIME64:
		return numbers[arrow.Time64](s)
	case arrow.TIMESTAMP:
		return numbers[arrow.Timestamp](s)
	case arrow.DURATION:
		return numbers[arrow.Duration](s)
	case arrow.INTERVAL_MONTHS:
		return numbers[arrow.MonthInterval](s)
	case arrow.DECIMAL32:
		return numbers[decimal.Decimal32](s)
	case arrow.DECIMAL64:
		return numbers[decimal.Decimal64](s)
	case arrow.BOOL:
		return converted(s, func(v bool) int8 {
			if v {
				return 1
			}
			return 0
		}, cmp.Compare[int8])
	case arrow.FLOAT16:
		return converted(s, float16.Num.Float32, func(a, b float32) int {
			if a != a || b != b {
				return 1 // NaN has no order
			}
			return cmp.Compare(a, b)
		})
	case arrow.DECIMAL128:
		return converted(s, func(v decimal128.Num) decimal128.Num { return v }, decimal128.Num.Cmp)
	case arrow.DECIMAL256:
		return converted(s, func(v decimal256.Num) decimal256.Num { return v }, decimal256.Num.Cmp)
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW, arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
		bind := func(a arrow.Array) func(i int) ([]byte, bool) {
			value, err := valueReader(a)
			if err != nil {
				return nil
			}
			return func(i int) ([]byte, bool) { return value(i), true }
		}
		return &extremes[[]byte]{scanner: s, bind: bind, compare: bytes.Compare, clone: bytes.Clone}
	}
	return nil
}
