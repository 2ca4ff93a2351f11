package arrowzarr

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
)

// nodeKind is what a node of a nested column becomes in awkward's terms.
type nodeKind int

const (
	nodeFixed      nodeKind = iota // NumpyArray
	nodeText                       // ListOffsetArray of chars or bytes
	nodeList                       // ListOffsetArray
	nodeFixedList                  // RegularArray
	nodeRecord                     // RecordArray
	nodeDictionary                 // IndexedArray, or IndexedOptionArray
	nodeUnion                      // UnionArray
	nodeNull                       // IndexedOptionArray over EmptyArray
)

// node is one node of a nested column: an Arrow type, and the form of awkward that it
// becomes. Each node is stored as 1-D arrays, whose names begin with its key.
type node struct {
	kind     nodeKind
	key      string
	typ      arrow.DataType // without extensions, and of run-end encoded values the type of those
	layout   fixedLayout    // of nodeFixed
	size     int64          // of nodeFixedList
	wide     bool           // a nodeDictionary has int64 indices
	names    []string       // of the fields of a record
	children []*node
}

// Attributes of a node's arrays: they follow the key and a dash in the name.
const (
	bufferMask    = "mask"
	bufferOffsets = "offsets"
	bufferData    = "data"
	bufferIndex   = "index"
	bufferTags    = "tags"
)

// maxNesting is the deepest type that is converted. Deeper ones would exhaust the
// stack of some readers.
const maxNesting = 64

// newNode returns the root node of a nested type.
func newNode(t arrow.DataType) (*node, error) {
	return (&nodeBuilder{keys: map[string]bool{}}).build(t, "", 0)
}

// nodeBuilder makes the nodes of a column, with unique keys.
type nodeBuilder struct{ keys map[string]bool }

// build returns the node of a type at a path. The path of the root is "".
func (b *nodeBuilder) build(t arrow.DataType, path string, depth int) (n *node, err error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("types are nested more than %d deep", maxNesting)
	}
	n = &node{typ: valueType(t)}
	var rootKey string
	var types []arrow.DataType
	var steps []string
	switch t := n.typ.(type) {
	case *arrow.NullType:
		n.kind, rootKey = nodeNull, "null"
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType,
		*arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		n.kind, rootKey = nodeText, "text"
	case *arrow.MapType:
		n.kind, rootKey = nodeList, "map"
		n.key = b.uniqueKey(path, rootKey)
		entries := &node{kind: nodeRecord, typ: t.Elem(), key: b.uniqueKey(path, "entries"), names: []string{"key", "value"}}
		n.children = []*node{entries}
		for i, step := range entries.names {
			child, err := b.build(t.Elem().(*arrow.StructType).Field(i).Type, joinPath(path, step), depth+1)
			if err != nil {
				return nil, err
			}
			entries.children = append(entries.children, child)
		}
		return n, nil
	case *arrow.FixedSizeListType:
		n.kind, rootKey, n.size = nodeFixedList, "list", int64(t.Len())
		types, steps = []arrow.DataType{t.Elem()}, []string{"item"}
		if n.size < 0 {
			return nil, fmt.Errorf("lists of %d elements", n.size)
		}
	case arrow.ListLikeType:
		n.kind, rootKey = nodeList, "list"
		types, steps = []arrow.DataType{t.Elem()}, []string{"item"}
	case *arrow.StructType:
		n.kind, rootKey = nodeRecord, "struct"
		for _, f := range t.Fields() {
			types, steps = append(types, f.Type), append(steps, f.Name)
		}
		n.names = uniqueNames(steps)
	case *arrow.DayTimeIntervalType:
		n.kind, rootKey, n.names = nodeRecord, "interval", []string{"days", "milliseconds"}
		types, steps = []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32}, n.names
	case *arrow.MonthDayNanoIntervalType:
		n.kind, rootKey, n.names = nodeRecord, "interval", []string{"months", "days", "nanoseconds"}
		types, steps = []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64}, n.names
	case arrow.UnionType:
		n.kind, rootKey = nodeUnion, "union"
		for _, f := range t.Fields() {
			types, steps = append(types, f.Type), append(steps, f.Name)
		}
		if len(types) > 128 {
			return nil, fmt.Errorf("a union of %d types, expected at most 128", len(types))
		}
	case *arrow.DictionaryType:
		n.kind, rootKey = nodeDictionary, "dictionary"
		switch t.IndexType.ID() {
		case arrow.UINT32, arrow.INT64, arrow.UINT64:
			n.wide = true
		}
		types, steps = []arrow.DataType{t.ValueType}, []string{"value"}
	default:
		var ok bool
		if n.layout, ok = fixedLayoutOf(n.typ); !ok {
			return nil, fmt.Errorf("the type %s has no Zarr form here", n.typ)
		}
		n.kind, rootKey = nodeFixed, "values"
	}
	n.key = b.uniqueKey(path, rootKey)
	for i, t := range types {
		child, err := b.build(t, joinPath(path, steps[i]), depth+1)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, child)
	}
	return n, nil
}

// valueType returns the type of the values that are stored: the storage of extension
// types, and the values of run-end encoded ones.
func valueType(t arrow.DataType) arrow.DataType {
	for {
		t = arrowdata.StorageType(t)
		runs, ok := t.(*arrow.RunEndEncodedType)
		if !ok {
			return t
		}
		t = runs.Encoded()
	}
}

func joinPath(path, step string) string {
	if path == "" {
		return step
	}
	return path + "." + step
}

// uniqueKey returns the key of the node at a path: a name that Zarr nodes can have,
// also with the name of a buffer after it.
func (b *nodeBuilder) uniqueKey(path, root string) string {
	if path == "" {
		path = root
	}
	return uniqueName(path, b.keys, maxNameBytes-len("-"+bufferOffsets))
}

// uniqueNames returns the names with a number after those that occurred before, since
// awkward's records have no two fields of a name.
func uniqueNames(names []string) []string {
	taken := map[string]bool{}
	unique := make([]string, len(names))
	for i, name := range names {
		unique[i] = name
		for n := 2; taken[unique[i]]; n++ {
			unique[i] = fmt.Sprintf("%s_%d", name, n)
		}
		taken[unique[i]] = true
	}
	return unique
}

// form returns awkward's form of what a writer has written, and marks the arrays that it
// refers to as kept. An option is demanded of the contents of a union of which another
// has nulls.
func (w *nodeWriter) form(option bool) map[string]any {
	n := w.node
	switch n.kind {
	case nodeNull:
		return map[string]any{
			"class": "IndexedOptionArray", "index": "i64", "form_key": w.keep(w.index),
			"content": map[string]any{"class": "EmptyArray"},
		}
	case nodeDictionary:
		form := map[string]any{
			"class": "IndexedArray", "index": indexName(n.wide), "form_key": w.keep(w.index),
			"content": w.children[0].categoriesForm(),
		}
		if n.isCategorical() {
			form["parameters"] = map[string]any{"__array__": "categorical"}
		}
		if option || w.missing {
			form["class"] = "IndexedOptionArray"
		}
		return form
	case nodeUnion:
		if len(n.children) == 1 {
			return w.children[0].form(option)
		}
	}
	form := w.contentForm()
	if !option && !w.missing {
		return form
	}
	return map[string]any{
		"class": "ByteMaskedArray", "mask": "i8", "valid_when": false, "form_key": w.keep(w.mask), "content": form,
	}
}

// isCategorical reports whether awkward takes a dictionary as a categorical, whose values
// must differ. Its check of nested values fails even if they do, and NaNs or zeros of both
// signs are equal.
func (n *node) isCategorical() bool {
	child := n.children[0]
	return child.kind == nodeText || child.kind == nodeFixed && !arrow.IsFloating(child.typ.ID())
}

// categoriesForm returns the form of a dictionary's values. awkward demands that these are
// neither an option nor indexed nor a union, so those become records of one field.
func (w *nodeWriter) categoriesForm() map[string]any {
	inner := w.single()
	switch inner.node.kind {
	case nodeDictionary, nodeNull, nodeUnion:
		return map[string]any{"class": "RecordArray", "fields": []string{"value"}, "form_key": inner.node.key, "contents": []any{inner.form(false)}}
	}
	return inner.form(false)
}

func indexName(wide bool) string {
	if wide {
		return "i64"
	}
	return "i32"
}

// contentForm returns the form of a node without its mask.
func (w *nodeWriter) contentForm() map[string]any {
	n := w.node
	switch n.kind {
	case nodeFixed:
		form := map[string]any{"class": "NumpyArray", "primitive": n.layout.dtype.String(), "form_key": w.keep(w.data)}
		if len(n.layout.row) > 0 {
			form["inner_shape"] = n.layout.row
		}
		return form
	case nodeText:
		text, element := "string", "char"
		if !arrowdata.IsText(n.typ) {
			text, element = "bytestring", "byte"
		}
		w.keep(w.data)
		return map[string]any{
			"class": "ListOffsetArray", "offsets": "i64", "form_key": w.keep(w.offsets), "parameters": map[string]any{"__array__": text},
			"content": map[string]any{
				"class": "NumpyArray", "primitive": "uint8", "form_key": n.key, "parameters": map[string]any{"__array__": element},
			},
		}
	case nodeList:
		return map[string]any{"class": "ListOffsetArray", "offsets": "i64", "form_key": w.keep(w.offsets), "content": w.children[0].form(false)}
	case nodeFixedList:
		return map[string]any{"class": "RegularArray", "size": n.size, "form_key": n.key, "content": w.children[0].form(false)}
	case nodeRecord:
		contents := make([]any, len(w.children))
		for i, child := range w.children {
			contents[i] = child.form(false)
		}
		return map[string]any{"class": "RecordArray", "fields": append([]string{}, n.names...), "form_key": n.key, "contents": contents}
	case nodeUnion:
		return w.unionForm()
	}
	panic(fmt.Sprintf("arrowzarr: node of kind %d has no content", n.kind))
}

// unionForm returns the form of a union. awkward demands that all contents are options
// or none is, that there are at least two, and that none is a union itself or indexed,
// unless it is a categorical. Those that cannot be become records of one field.
func (w *nodeWriter) unionForm() map[string]any {
	if len(w.children) == 0 {
		return map[string]any{"class": "EmptyArray"}
	}
	option := false
	for _, child := range w.children {
		option = option || child.isOption()
	}
	contents := make([]any, len(w.children))
	for i, child := range w.children {
		inner := child.single()
		isIndexed := inner.node.kind == nodeDictionary && !inner.node.isCategorical()
		if inner.node.kind != nodeUnion && !isIndexed {
			contents[i] = child.form(option)
			continue
		}
		form := map[string]any{"class": "RecordArray", "fields": []string{"value"}, "form_key": inner.node.key, "contents": []any{inner.form(false)}}
		switch {
		case option && isIndexed: // what is missing is so in its index
			form = map[string]any{"class": "UnmaskedArray", "content": form}
		case option:
			form = map[string]any{"class": "ByteMaskedArray", "mask": "i8", "valid_when": false, "form_key": inner.keep(inner.mask), "content": form}
		}
		contents[i] = form
	}
	w.keep(w.tags)
	return map[string]any{"class": "UnionArray", "tags": "i8", "index": "i32", "form_key": w.keep(w.index), "contents": contents}
}

// single returns the writer that the form of a union of one type is replaced by, and
// any other writer itself.
func (w *nodeWriter) single() *nodeWriter {
	for w.node.kind == nodeUnion && len(w.children) == 1 {
		w = w.children[0]
	}
	return w
}

// isOption reports whether the form without demand is an option.
func (w *nodeWriter) isOption() bool {
	w = w.single()
	return w.missing || w.node.kind == nodeNull
}

// uniqueName returns a name for a Zarr node of at most max bytes: the given one, if a
// node can have it and it is not taken. Otherwise characters are replaced, and a number
// is added. It becomes taken.
func uniqueName(name string, taken map[string]bool, max int) string {
	base := escapeName(name)
	unique := truncate(base, max)
	for n := 2; taken[unique]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		unique = escapeName(truncate(base, max-len(suffix)) + suffix) // not "__2"
	}
	taken[unique] = true
	return unique
}

// escapeName replaces what a Zarr node, or its directory on some system, cannot have in
// its name by underscores.
func escapeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`/\`, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	for strings.HasPrefix(name, "__") {
		name = name[1:]
	}
	switch {
	case strings.Trim(name, ".") == "":
		return "_" + name
	case name == "zarr.json", reservedName(name):
		return "_" + name
	}
	return name
}

// truncate returns a prefix of whole characters of at most n bytes.
func truncate(name string, n int) string {
	if len(name) <= n {
		return name
	}
	return strings.ToValidUTF8(name[:n], "")
}

// intervalFields are the parts of an interval's value.
type intervalField struct {
	offset, size int
	dtype        ndview.DType
}

// intervalFieldsOf returns the size of a value of an interval type, and the place of
// its parts, in the order of the node's children.
func intervalFieldsOf(t arrow.DataType) (size int, fields []intervalField) {
	if t.ID() == arrow.INTERVAL_DAY_TIME {
		return 8, []intervalField{{0, 4, ndview.Int32}, {4, 4, ndview.Int32}}
	}
	return 16, []intervalField{{0, 4, ndview.Int32}, {4, 4, ndview.Int32}, {8, 8, ndview.Int64}}
}
