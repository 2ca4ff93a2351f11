package parquetwrite

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// leaf is one column of Parquet: a column of the table, or what is at the end of a
// path through its structs, lists and maps.
type leaf struct {
	column int   // of the file
	path   []int // the child of each nested type
}

// leavesOf returns the leaves of a type in Parquet's order.
func leavesOf(t arrow.DataType, path []int) (all []leaf) {
	nested, ok := arrowdata.StorageType(t).(arrow.NestedType)
	if !ok {
		return []leaf{{path: path}}
	}
	fields := nested.Fields()
	for _, i := range orderInParquet(t, fields) {
		all = append(all, leavesOf(fields[i].Type, append(path[:len(path):len(path)], i))...)
	}
	return all
}

// orderInParquet returns the positions of the fields of a type in the order that Parquet has
// them. That of a variant's fields is given, but they may be in any order in Arrow.
func orderInParquet(t arrow.DataType, fields []arrow.Field) (order []int) {
	if _, ok := t.(*extensions.VariantType); ok {
		for _, name := range []string{"metadata", "value", "typed_value"} {
			if i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == name }); i >= 0 {
				order = append(order, i)
			}
		}
		return order
	}
	for i := range fields {
		order = append(order, i)
	}
	return order
}

// levels are the entries of a leaf: the values, and for each list or struct on the
// path that is null or empty one without a value. Parquet's documents call the levels
// those of nested encoding.
type levels struct {
	definition []int16 // nil if every entry is a value
	repetition []int16 // nil without lists
	// While the path is followed, an entry of definition level present is present so far.
	// Those of at least inList have an element of the current array, by position in runs.
	present, inList, lists int16
	runs                   []elementRun
}

// elementRun is elements of an array.
type elementRun struct{ from, to int64 }

// levelsOf returns the levels of a leaf of a field as it is stored, and an array with an
// element for each entry that is in all its lists. It is null where the entry has no
// value. The caller must release it. The array may be of another type that storedType
// maps to the field's.
func levelsOf(a arrow.Array, field arrow.Field, path []int) (*levels, arrow.Array, error) {
	n := int64(a.Len())
	l := &levels{runs: []elementRun{{0, n}}}
	a.Retain()
	for first := true; ; first = false {
		var err error
		if a, err = decodeFor(a, field.Type); err != nil {
			return nil, nil, err
		}
		if first && len(path) == 0 && a.DataType().ID() != arrow.NULL && a.Data().NullN() == 0 {
			break
		}
		if first {
			l.definition = make([]int16, n)
		}
		if err := l.addValidity(a, field.Nullable); err != nil {
			a.Release()
			return nil, nil, err
		}
		if len(path) == 0 {
			break
		}
		var inner arrow.Array
		switch nested := a.(type) {
		case array.ListLike:
			err, inner = l.addLists(nested), nested.ListValues()
		case *array.Struct:
			inner = nested.Field(path[0])
		default:
			err = fmt.Errorf("array of %T, expected one of type %s: %w", a, field.Type, arrowdata.ErrMalformed)
		}
		if err != nil {
			a.Release()
			return nil, nil, err
		}
		inner.Retain()
		a.Release()
		a, field, path = inner, arrowdata.StorageType(field.Type).(arrow.NestedType).Fields()[path[0]], path[1:]
	}
	defer a.Release()
	values, err := l.take(a)
	if err != nil {
		return nil, nil, err
	}
	defer values.Release()
	made, err := arrowdata.ConvertTo(values, arrowdata.StorageType(field.Type), memory.DefaultAllocator)
	return l, made, err
}

// decodeFor returns the storage of an array, with dictionaries and runs decoded unless the
// type is a dictionary. It releases the array.
func decodeFor(a arrow.Array, stored arrow.DataType) (arrow.Array, error) {
	for {
		inner := arrowdata.Unwrap(a)
		inner.Retain()
		a.Release()
		a = inner
		id := a.DataType().ID()
		if id != arrow.RUN_END_ENCODED && (id != arrow.DICTIONARY || arrowdata.StorageType(stored).ID() == arrow.DICTIONARY) {
			return a, nil
		}
		decoded, err := columns.Decode(a)
		a.Release()
		if err != nil {
			return nil, err
		}
		a = decoded
	}
}

// forEachElement calls f with each entry that has an element of the current array, and
// with the element.
func (l *levels) forEachElement(f func(entry int, element int64) error) error {
	entry := 0
	for _, run := range l.runs {
		for element := run.from; element < run.to; element++ {
			for l.definition[entry] < l.inList {
				entry++
			}
			if err := f(entry, element); err != nil {
				return err
			}
			entry++
		}
	}
	return nil
}

// addValidity makes the elements that are valid present, if the field is nullable. Otherwise
// a null is an error.
func (l *levels) addValidity(a arrow.Array, nullable bool) error {
	allNull := a.DataType().ID() == arrow.NULL
	valid, err := arrowdata.BitmapOf(a) // several leaves have the same lists and structs around them
	switch {
	case err != nil:
		return err
	case !nullable && valid.Bits == nil && !allNull:
		return nil
	case valid.Bits == nil && !allNull && l.inList == 0 && l.present == 0:
		for i := range l.definition {
			l.definition[i] = 1
		}
	default:
		err = l.forEachElement(func(entry int, element int64) error {
			switch {
			case l.definition[entry] < l.present:
			case allNull || valid.IsNull(element):
				if !nullable {
					return fmt.Errorf("element %d is null, and the field says that none is: %w", element, arrowdata.ErrMalformed)
				}
			case nullable:
				l.definition[entry]++
			}
			return nil
		})
	}
	if nullable {
		l.present++
	}
	return err
}

// addLists replaces entries of lists by those of their elements.
func (l *levels) addLists(a array.ListLike) error {
	most := int64(a.ListValues().Len())
	if l.repetition == nil {
		l.repetition = make([]int16, len(l.definition))
	}
	old := *l
	capacity := max(len(old.definition), a.ListValues().Len())
	l.definition, l.repetition, l.runs = make([]int16, 0, capacity), make([]int16, 0, capacity), nil
	kept := 0 // entries of old that are copied
	keep := func(to int) {
		l.definition = append(l.definition, old.definition[kept:to]...)
		l.repetition = append(l.repetition, old.repetition[kept:to]...)
		kept = to
	}
	err := old.forEachElement(func(entry int, list int64) error {
		if old.definition[entry] < old.present {
			return nil
		}
		from, to := a.ValueOffsets(int(list))
		if from < 0 || to < from || to > most {
			return fmt.Errorf("a list of elements [%d, %d) of %d: %w", from, to, most, arrowdata.ErrMalformed)
		}
		if from == to {
			return nil
		}
		keep(entry)
		kept = entry + 1
		for range to - from {
			l.definition, l.repetition = append(l.definition, old.present+1), append(l.repetition, old.lists+1)
		}
		l.repetition[len(l.repetition)-int(to-from)] = old.repetition[entry]
		if last := len(l.runs) - 1; last >= 0 && l.runs[last].to == from {
			l.runs[last].to = to
		} else {
			l.runs = append(l.runs, elementRun{from, to})
		}
		return nil
	})
	keep(len(old.definition))
	l.present++
	l.lists++
	l.inList = l.present
	return err
}

// take returns the elements in the order of their entries, null where an entry is not
// present.
func (l *levels) take(a arrow.Array) (arrow.Array, error) {
	var values arrow.Array
	switch len(l.runs) {
	case 0:
		values = array.NewSlice(a, 0, 0)
	case 1:
		values = array.NewSlice(a, l.runs[0].from, l.runs[0].to)
	default:
		var positions []int64
		for _, run := range l.runs {
			for i := run.from; i < run.to; i++ {
				positions = append(positions, i)
			}
		}
		taken, err := columns.Take(a, columns.Indices(positions...))
		if err != nil {
			return nil, err
		}
		values = taken
	}
	defer values.Release()
	return l.withNulls(values)
}

// withNulls returns values with those nulls that the structs around them have, too.
func (l *levels) withNulls(values arrow.Array) (arrow.Array, error) {
	missing := 0
	for _, d := range l.definition {
		if d >= l.inList && d < l.present {
			missing++
		}
	}
	if missing == values.NullN() {
		values.Retain()
		return values, nil
	}
	data := values.Data()
	bits := make([]byte, bitutil.BytesForBits(int64(data.Offset()+data.Len())))
	at := data.Offset()
	for _, d := range l.definition {
		if d < l.inList {
			continue
		}
		bitutil.SetBitTo(bits, at, d == l.present)
		at++
	}
	buffers := append([]*memory.Buffer{memory.NewBufferBytes(bits)}, data.Buffers()[1:]...)
	var made *array.Data
	if d, ok := data.Dictionary().(*array.Data); ok && d != nil {
		made = array.NewDataWithDictionary(data.DataType(), data.Len(), buffers, missing, data.Offset(), d)
	} else {
		made = array.NewData(data.DataType(), data.Len(), buffers, data.Children(), missing, data.Offset())
	}
	defer made.Release()
	return array.MakeFromData(made), nil
}
