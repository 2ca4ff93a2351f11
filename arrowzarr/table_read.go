package arrowzarr

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// read returns rows [from, to) of the column. The caller must release them.
func (c *tableColumn) read(ctx context.Context, from, to int64) (arrow.Array, error) {
	values, err := c.readStorage(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return restoreType(values, c.plan.field.Type)
}

// readStorage returns rows of the column's storage type.
func (c *tableColumn) readStorage(ctx context.Context, from, to int64) (arrow.Array, error) {
	switch c.plan.kind {
	case kindNull:
		return array.NewNull(int(to - from)), nil
	case kindNested:
		return c.readNode(ctx, c.plan.nested, from, to)
	case kindDictionary:
		return c.readCategorical(ctx, from, to)
	}
	a, err := c.open(ctx, "")
	if err != nil {
		return nil, err
	}
	var missing, elements []byte
	if a == nil {
		if a, err = c.require(ctx, "values"); err != nil {
			return nil, err
		}
		if missing, err = c.mask(ctx, "mask", from, to); err != nil {
			return nil, err
		}
		if elements, err = c.mask(ctx, "element_mask", from, to); err != nil {
			return nil, err
		}
	}
	return c.readValues(ctx, a, c.plan, missing, elements, from, to)
}

// readValues returns rows of an array as the storage type of a plan.
func (c *tableColumn) readValues(ctx context.Context, a *zarr.Array, plan *column, missing, elements []byte, from, to int64) (arrow.Array, error) {
	if plan.kind == kindText || plan.kind == kindBinary {
		if n := firstAxisLen(a.Shape()); to > n {
			return nil, fmt.Errorf("%s: rows [%d, %d) of %d: %w", a.Path(), from, to, n, errMalformed)
		}
		values, err := a.ReadRows(ctx, zarr.Prototype{}, from, to, c.jobs)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		text, ok := values.(*element.VLen)
		if !ok {
			return nil, fmt.Errorf("%s: %T, expected text or bytes: %w", a.Path(), values, errMalformed)
		}
		return textArray(plan.storage, text, missing)
	}
	raw, err := c.fixed(ctx, a, plan.layout.dtype, from, to)
	if err != nil {
		return nil, err
	}
	if missing == nil && plan.layout.fill == natMin && !plan.hasOwnMask(a) {
		missing = notATime(raw)
	}
	n := int(to - from)
	values, err := fixedBuffer(plan.leafType(), plan.layout, raw, n*int(plan.listWidth()), missing)
	if err != nil {
		return nil, err
	}
	onHost := func(b *memory.Buffer) (*memory.Buffer, error) { return b, nil }
	data, err := plan.fixedData(values, n, missing, elements, onHost)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

// leafType returns the type of the values of a column of fixed width: of lists, that of
// the innermost elements.
func (c *column) leafType() arrow.DataType {
	t := c.storage
	for {
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			return t
		}
		t = storageType(list.Elem())
	}
}

// listWidth returns the number of values of leafType in a row.
func (c *column) listWidth() int64 {
	width := int64(1)
	t := c.storage
	for {
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			return width
		}
		width, t = width*int64(list.Len()), storageType(list.Elem())
	}
}

// fixedData returns n rows of a column of fixed width, in its storage type, of a buffer of
// values as Arrow has them. place returns a bitmap where the values are; the caller gets
// a reference to it.
func (c *column) fixedData(values *memory.Buffer, n int, missing, elements []byte, place func(*memory.Buffer) (*memory.Buffer, error)) (arrow.ArrayData, error) {
	var lists []*arrow.FixedSizeListType
	for t := c.storage; ; {
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			break
		}
		lists, t = append(lists, list), storageType(list.Elem())
	}
	level := func(t arrow.DataType, n int, missing []byte, rest []*memory.Buffer, children []arrow.ArrayData) (arrow.ArrayData, error) {
		validity, nulls := validityOf(missing)
		if validity != nil {
			var err error
			if validity, err = place(validity); err != nil {
				return nil, err
			}
			defer validity.Release()
		}
		return array.NewData(t, n, append([]*memory.Buffer{validity}, rest...), children, nulls, 0), nil
	}
	leaf := []*memory.Buffer{values}
	if lists == nil {
		return level(c.storage, n, missing, leaf, nil)
	}
	width := int(c.listWidth())
	data, err := level(lists[len(lists)-1].Elem(), n*width, elements, leaf, nil)
	for i := len(lists) - 1; i >= 0 && err == nil; i-- {
		inner := data
		width /= int(lists[i].Len())
		t := arrow.DataType(lists[i])
		var rows []byte
		if i > 0 {
			t = lists[i-1].Elem() // an extension of the list, perhaps
		} else {
			rows = missing
		}
		data, err = level(t, n*width, rows, nil, []arrow.ArrayData{inner})
		inner.Release()
	}
	return data, err
}

// readTo is read of rows to a device. The error of a device is one of PartDevice.
func (c *tableColumn) readTo(ctx context.Context, dev arrowbuf.Device, from, to int64) (arrow.Array, error) {
	a, err := c.decodable(ctx)
	if err != nil {
		return nil, err
	}
	if a == nil {
		onHost, err := c.read(ctx, from, to)
		if err != nil {
			return nil, err
		}
		defer onHost.Release()
		copied, err := arrowbuf.CopyArrayTo(onHost, dev)
		return copied, markPart(PartDevice, err)
	}
	missing, err := c.mask(ctx, "mask", from, to)
	if err != nil {
		return nil, err
	}
	elements, err := c.mask(ctx, "element_mask", from, to)
	if err != nil {
		return nil, err
	}
	if err := checkRows(a, c.plan.layout.dtype, from, to); err != nil {
		return nil, err
	}
	values, err := a.ReadRows(ctx, zarr.PrototypeOn(dev), from, to, c.jobs)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	nd, ok := values.(*ndview.NDBuffer)
	if !ok || !nd.IsContiguous() {
		return nil, fmt.Errorf("%s: %T, expected contiguous numbers: %w", a.Path(), values, errMalformed)
	}
	part, err := nd.Buffer().Slice(nd.Offset(), nd.NBytes())
	if err != nil {
		return nil, err
	}
	defer part.Release()
	buffer := part.Arrow()
	defer buffer.Release()
	data, err := c.plan.fixedData(buffer, int(to-from), missing, elements, func(b *memory.Buffer) (*memory.Buffer, error) { return copyBitmap(b, dev) })
	if err != nil {
		return nil, err
	}
	defer data.Release()
	typed := retype(data, c.plan.field.Type)
	defer typed.Release()
	return arrowbuf.NewArrayOn(typed, dev), nil
}

// decodable returns the array of the column's values if its elements are those of Arrow's
// buffer, so that a device can decode them in place; otherwise nil.
func (c *tableColumn) decodable(ctx context.Context) (*zarr.Array, error) {
	if c.plan.kind != kindFixed || c.plan.runs || !c.plan.layout.viewable() {
		return nil, nil
	}
	a, err := c.open(ctx, "")
	if err == nil && a == nil {
		a, err = c.require(ctx, "values")
	}
	if err != nil || c.plan.layout.fill != natMin || c.plan.hasOwnMask(a) {
		return a, err
	}
	mask, err := c.open(ctx, "mask")
	if err != nil || mask == nil {
		return nil, err // NaT is a missing row, which the host finds
	}
	return a, nil
}

// copyBitmap returns a copy of a buffer on a device.
func copyBitmap(b *memory.Buffer, dev arrowbuf.Device) (*memory.Buffer, error) {
	buf, err := dev.Alloc(int64(b.Len()))
	if err != nil {
		return nil, markPart(PartDevice, err)
	}
	defer buf.Release()
	if _, err := buf.CopyFromHost(b.Bytes(), 0); err != nil {
		return nil, markPart(PartDevice, err)
	}
	return buf.Arrow(), nil
}

// hasOwnMask reports whether missing rows are not marked by NaT: Convert writes arrays
// of times only where no row is missing.
func (c *column) hasOwnMask(a *zarr.Array) bool {
	_, ours := a.Metadata().Attributes[attrType]
	return ours
}

// notATime returns which values are NaT; nil for none.
func notATime(raw []byte) []byte {
	var missing []byte
	for i := 0; i+8 <= len(raw); i += 8 {
		if binary.LittleEndian.Uint64(raw[i:]) == natMin {
			if missing == nil {
				missing = make([]byte, len(raw)/8)
			}
			missing[i/8] = 1
		}
	}
	return missing
}

// readCategorical returns rows of codes and categories.
func (c *tableColumn) readCategorical(ctx context.Context, from, to int64) (arrow.Array, error) {
	t := c.plan.storage.(*arrow.DictionaryType)
	if c.dictionary == nil {
		plan, err := planColumn(categoriesField(t))
		if err != nil {
			return nil, err
		}
		a, err := c.require(ctx, "categories")
		if err != nil {
			return nil, err
		}
		values, err := c.readValues(ctx, a, plan, nil, nil, 0, firstAxisLen(a.Shape()))
		if err != nil {
			return nil, err
		}
		if c.dictionary, err = restoreType(values, t.ValueType); err != nil {
			return nil, err
		}
	}
	codes, err := c.integers(ctx, "codes", c.plan.layout.dtype, from, to)
	if err != nil {
		return nil, err
	}
	return dictionaryArray(t, codes, c.dictionary)
}

// dictionaryArray returns a dictionary array of codes, of which -1 is a null.
func dictionaryArray(t *arrow.DictionaryType, codes []int64, dictionary arrow.Array) (arrow.Array, error) {
	width := t.IndexType.(arrow.FixedWidthDataType).Bytes()
	limit := int64(math.MaxInt64)
	switch bits := 8 * width; {
	case arrow.IsUnsignedInteger(t.IndexType.ID()) && bits < 64:
		limit = 1<<bits - 1
	case bits < 64:
		limit = 1<<(bits-1) - 1
	}
	raw := make([]byte, 0, len(codes)*width)
	var missing []byte
	for i, code := range codes {
		if code < -1 || code >= int64(dictionary.Len()) {
			return nil, fmt.Errorf("code %d of %d categories: %w", code, dictionary.Len(), errMalformed)
		}
		if code > limit {
			return nil, fmt.Errorf("code %d does not fit dictionary indices of type %s", code, t.IndexType)
		}
		if code == -1 {
			if missing == nil {
				missing = make([]byte, len(codes))
			}
			missing[i], code = 1, 0
		}
		raw = binary.LittleEndian.AppendUint64(raw, uint64(code))[:len(raw)+width]
	}
	validity, nulls := validityOf(missing)
	data := array.NewDataWithDictionary(t, len(codes), []*memory.Buffer{validity, memory.NewBufferBytes(raw)}, nulls, 0, dictionary.Data().(*array.Data))
	defer data.Release()
	return array.MakeFromData(data), nil
}

// validityOf returns the validity bitmap of a mask of missing elements, and the number
// of nulls. It returns nil if nothing is missing.
func validityOf(missing []byte) (*memory.Buffer, int) {
	nulls := 0
	for _, m := range missing {
		nulls += int(m & 1)
	}
	if nulls == 0 {
		return nil, 0
	}
	bits := make([]byte, bitutil.BytesForBits(int64(len(missing))))
	for i, m := range missing {
		if m == 0 {
			bitutil.SetBit(bits, i)
		}
	}
	return memory.NewBufferBytes(bits), nulls
}

// widen returns signed integers of a width in bytes.
func widen(raw []byte, width int64) []int64 {
	values := make([]int64, int64(len(raw))/width)
	for i := range values {
		at := raw[int64(i)*width:]
		switch width {
		case 1:
			values[i] = int64(int8(at[0]))
		case 2:
			values[i] = int64(int16(binary.LittleEndian.Uint16(at)))
		case 4:
			values[i] = int64(int32(binary.LittleEndian.Uint32(at)))
		default:
			values[i] = int64(binary.LittleEndian.Uint64(at))
		}
	}
	return values
}

// fixedBuffer returns the buffer of n values of a fixed width from elements of Zarr.
func fixedBuffer(t arrow.DataType, l fixedLayout, raw []byte, n int, missing []byte) (*memory.Buffer, error) {
	switch {
	case l.dtype == ndview.Bool:
		bits := make([]byte, bitutil.BytesForBits(int64(n)))
		for i := range n {
			if raw[i] != 0 {
				bitutil.SetBit(bits, i)
			}
		}
		raw = bits
	case l.source.Size() != l.dtype.Size(): // int64 times become int32
		narrow := make([]byte, 0, 4*n)
		for i, v := range widen(raw, 8) {
			if missing != nil && missing[i] != 0 {
				v = 0
			}
			if v != int64(int32(v)) {
				return nil, fmt.Errorf("%d does not fit type %s: %w", v, t, errMalformed)
			}
			narrow = binary.LittleEndian.AppendUint32(narrow, uint32(v))
		}
		raw = narrow
	}
	return memory.NewBufferBytes(raw), nil
}

// fixedArray returns an array of n values of a fixed width from elements of Zarr.
func fixedArray(t arrow.DataType, l fixedLayout, raw []byte, n int, missing []byte) (arrow.Array, error) {
	values, err := fixedBuffer(t, l, raw, n, missing)
	if err != nil {
		return nil, err
	}
	validity, nulls := validityOf(missing)
	data := array.NewData(t, n, []*memory.Buffer{validity, values}, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// textArray returns an array of a type of text or bytes.
func textArray(t arrow.DataType, text *element.VLen, missing []byte) (arrow.Array, error) {
	narrow, wide := text.Offsets()
	if wide == nil {
		wide = make([]int64, len(narrow))
		for i, o := range narrow {
			wide[i] = int64(o)
		}
	}
	if len(wide) == 0 {
		wide = []int64{0}
	}
	return stringArray(t, wide, text.Data(), missing)
}

// stringArray returns an array of the bytes between offsets, of which the first need not
// be 0.
func stringArray(t arrow.DataType, offsets []int64, bytes []byte, missing []byte) (arrow.Array, error) {
	n := len(offsets) - 1
	validity, nulls := validityOf(missing)
	buffers := []*memory.Buffer{validity}
	switch t.ID() {
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return viewArray(t, offsets, bytes, missing)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		buffers = append(buffers, memory.NewBufferBytes(offsets64(offsets)))
	default:
		narrow, err := offsets32(offsets)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, memory.NewBufferBytes(narrow))
	}
	own := slices.Clone(bytes[offsets[0]:offsets[n]])
	data := array.NewData(t, n, append(buffers, memory.NewBufferBytes(own)), nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

func viewArray(t arrow.DataType, offsets []int64, bytes []byte, missing []byte) (arrow.Array, error) {
	if offsets[len(offsets)-1]-offsets[0] > math.MaxInt32 {
		return nil, errTooLong
	}
	b := array.NewBuilder(memory.DefaultAllocator, t)
	defer b.Release()
	b.Reserve(len(offsets) - 1)
	for i := range len(offsets) - 1 {
		value := bytes[offsets[i]:offsets[i+1]]
		switch b := b.(type) {
		case *array.StringViewBuilder:
			if missing != nil && missing[i] != 0 {
				b.AppendNull()
			} else {
				b.Append(string(value))
			}
		case *array.BinaryViewBuilder:
			if missing != nil && missing[i] != 0 {
				b.AppendNull()
			} else {
				b.Append(value)
			}
		}
	}
	return b.NewArray(), nil
}

// offsets64 and offsets32 return offsets as Arrow's buffers have them, from 0.
func offsets64(offsets []int64) []byte {
	raw := make([]byte, 0, 8*len(offsets))
	for _, o := range offsets {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(o-offsets[0]))
	}
	return raw
}

func offsets32(offsets []int64) ([]byte, error) {
	if offsets[len(offsets)-1]-offsets[0] > math.MaxInt32 {
		return nil, errTooLong
	}
	raw := make([]byte, 0, 4*len(offsets))
	for _, o := range offsets {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(o-offsets[0]))
	}
	return raw, nil
}

// readOffsets returns offsets [from, to] of a node.
func (c *tableColumn) readOffsets(ctx context.Context, n *node, from, to int64) ([]int64, error) {
	offsets, err := c.integers(ctx, n.key+"-"+bufferOffsets, ndview.Int64, from, to+1)
	if err != nil {
		return nil, err
	}
	for i, o := range offsets {
		if o < 0 || i > 0 && o < offsets[i-1] {
			return nil, fmt.Errorf("%s-%s: offset %d at row %d: %w", n.key, bufferOffsets, o, from+int64(i), errMalformed)
		}
	}
	return offsets, nil
}

// readNode returns elements [from, to) of a node, in its storage type.
func (c *tableColumn) readNode(ctx context.Context, n *node, from, to int64) (arrow.Array, error) {
	if n.kind == nodeNull {
		return array.NewNull(int(to - from)), nil
	}
	var missing []byte
	var err error
	if n.kind != nodeDictionary {
		if missing, err = c.mask(ctx, n.key+"-"+bufferMask, from, to); err != nil {
			return nil, err
		}
	}
	rows := int(to - from)
	switch n.kind {
	case nodeFixed:
		a, err := c.require(ctx, n.key+"-"+bufferData)
		if err != nil {
			return nil, err
		}
		raw, err := c.fixed(ctx, a, n.layout.dtype, from, to)
		if err != nil {
			return nil, err
		}
		return fixedArray(n.typ, n.layout, raw, rows, missing)
	case nodeText:
		offsets, err := c.readOffsets(ctx, n, from, to)
		if err != nil {
			return nil, err
		}
		a, err := c.require(ctx, n.key+"-"+bufferData)
		if err != nil {
			return nil, err
		}
		first := offsets[0]
		bytes, err := c.fixed(ctx, a, ndview.Uint8, first, offsets[rows])
		if err != nil {
			return nil, err
		}
		for i := range offsets {
			offsets[i] -= first
		}
		return stringArray(n.typ, offsets, bytes, missing)
	case nodeList:
		return c.readLists(ctx, n, missing, from, to)
	case nodeFixedList:
		if n.size > 0 && to > math.MaxInt64/n.size {
			return nil, fmt.Errorf("%d lists of %d elements: %w", to, n.size, errMalformed)
		}
		child, err := c.readChild(ctx, n, 0, from*n.size, to*n.size)
		if err != nil {
			return nil, err
		}
		defer child.Release()
		return nestedArray(n.typ, rows, missing, nil, child)
	case nodeRecord:
		return c.readRecord(ctx, n, missing, from, to)
	case nodeDictionary:
		return c.readDictionary(ctx, n, from, to)
	default:
		return c.readUnion(ctx, n, from, to)
	}
}

// readChild returns elements of child i in the type that its parent declares.
func (c *tableColumn) readChild(ctx context.Context, n *node, i int, from, to int64) (arrow.Array, error) {
	values, err := c.readNode(ctx, n.children[i], from, to)
	if err != nil {
		return nil, err
	}
	return restoreType(values, childType(n.typ, i))
}

// childType returns the declared type of a child of a nested type.
func childType(t arrow.DataType, i int) arrow.DataType {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return t.ValueType
	case arrow.ListLikeType:
		return t.Elem()
	case arrow.NestedType:
		return t.Fields()[i].Type
	}
	return nil
}

// nestedArray returns an array of a nested type. Buffers follow the validity.
func nestedArray(t arrow.DataType, n int, missing []byte, buffers []*memory.Buffer, children ...arrow.Array) (arrow.Array, error) {
	validity, nulls := validityOf(missing)
	data := make([]arrow.ArrayData, len(children))
	for i, child := range children {
		data[i] = child.Data()
	}
	whole := array.NewData(t, n, append([]*memory.Buffer{validity}, buffers...), data, nulls, 0)
	defer whole.Release()
	return array.MakeFromData(whole), nil
}

func (c *tableColumn) readLists(ctx context.Context, n *node, missing []byte, from, to int64) (arrow.Array, error) {
	offsets, err := c.readOffsets(ctx, n, from, to)
	if err != nil {
		return nil, err
	}
	rows := len(offsets) - 1
	var buffers []*memory.Buffer
	sizes := make([]int64, rows)
	for i := range sizes {
		sizes[i] = offsets[i+1] - offsets[i]
	}
	switch n.typ.ID() {
	case arrow.LARGE_LIST:
		buffers = append(buffers, memory.NewBufferBytes(offsets64(offsets)))
	case arrow.LARGE_LIST_VIEW:
		buffers = append(buffers, memory.NewBufferBytes(offsets64(offsets)[:8*rows]))
		raw := make([]byte, 0, 8*rows)
		for _, s := range sizes {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(s))
		}
		buffers = append(buffers, memory.NewBufferBytes(raw))
	default:
		narrow, err := offsets32(offsets)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, memory.NewBufferBytes(narrow))
		if n.typ.ID() == arrow.LIST_VIEW {
			buffers[0] = memory.NewBufferBytes(narrow[:4*rows])
			raw := make([]byte, 0, 4*rows)
			for _, s := range sizes {
				raw = binary.LittleEndian.AppendUint32(raw, uint32(s))
			}
			buffers = append(buffers, memory.NewBufferBytes(raw))
		}
	}
	if limit := runLimit(n.children[0].typ); offsets[rows]-offsets[0] > limit {
		return nil, errTooLong
	}
	child, err := c.readChild(ctx, n, 0, offsets[0], offsets[rows])
	if err != nil {
		return nil, err
	}
	defer child.Release()
	return nestedArray(n.typ, rows, missing, buffers, child)
}

func (c *tableColumn) readRecord(ctx context.Context, n *node, missing []byte, from, to int64) (arrow.Array, error) {
	children := make([]arrow.Array, len(n.children))
	defer func() {
		for _, child := range children {
			if child != nil {
				child.Release()
			}
		}
	}()
	interval := n.typ.ID() != arrow.STRUCT
	for i := range n.children {
		var err error
		if interval {
			children[i], err = c.readNode(ctx, n.children[i], from, to)
		} else {
			children[i], err = c.readChild(ctx, n, i, from, to)
		}
		if err != nil {
			return nil, err
		}
	}
	rows := int(to - from)
	if !interval {
		return nestedArray(n.typ, rows, missing, nil, children...)
	}
	size, fields := intervalFieldsOf(n.typ)
	raw := make([]byte, rows*size)
	for f, field := range fields {
		values := children[f].Data().Buffers()[1].Bytes()
		for i := range rows {
			copy(raw[i*size+field.offset:], values[i*field.size:(i+1)*field.size])
		}
	}
	return nestedArray(n.typ, rows, missing, []*memory.Buffer{memory.NewBufferBytes(raw)})
}

func indexType(n *node) ndview.DType {
	if n.kind == nodeDictionary && n.wide {
		return ndview.Int64
	}
	return ndview.Int32
}

// readDictionary returns elements of a dictionary inside a nested column, with all of
// its values.
func (c *tableColumn) readDictionary(ctx context.Context, n *node, from, to int64) (arrow.Array, error) {
	name := n.key + "-" + bufferIndex
	if c.dictionaries == nil {
		c.dictionaries = map[*node]arrow.Array{}
	}
	if c.dictionaries[n] == nil {
		a, err := c.require(ctx, name)
		if err != nil {
			return nil, err
		}
		last := int64(-1)
		const block = 1 << 20
		for at, all := int64(0), firstAxisLen(a.Shape()); at < all; at += block {
			codes, err := c.integers(ctx, name, indexType(n), at, min(at+block, all))
			if err != nil {
				return nil, err
			}
			last = max(last, slices.Max(codes))
		}
		values, err := c.readChild(ctx, n, 0, 0, last+1)
		if err != nil {
			return nil, err
		}
		c.dictionaries[n] = values
	}
	codes, err := c.integers(ctx, name, indexType(n), from, to)
	if err != nil {
		return nil, err
	}
	return dictionaryArray(n.typ.(*arrow.DictionaryType), codes, c.dictionaries[n])
}

// readUnion returns elements of a union. The values of each type are stored in the
// order of the rows, so those of a range of rows follow each other.
func (c *tableColumn) readUnion(ctx context.Context, n *node, from, to int64) (arrow.Array, error) {
	tags, index := make([]int64, to-from), make([]int64, to-from)
	var err error
	if len(n.children) == 1 { // awkward has no union of one type, so it is not stored
		for i := range index {
			index[i] = from + int64(i)
		}
	} else {
		if tags, err = c.integers(ctx, n.key+"-"+bufferTags, ndview.Int8, from, to); err != nil {
			return nil, err
		}
		if index, err = c.integers(ctx, n.key+"-"+bufferIndex, ndview.Int32, from, to); err != nil {
			return nil, err
		}
	}
	t := n.typ.(arrow.UnionType)
	first, count := make([]int64, len(n.children)), make([]int64, len(n.children))
	positions := make([][]int64, len(n.children)) // of a sparse union: by row
	codes := make([]byte, 0, len(tags))
	offsets := make([]byte, 0, 4*len(tags))
	for i, tag := range tags {
		if tag < 0 || tag >= int64(len(n.children)) {
			return nil, fmt.Errorf("tag %d of %d types: %w", tag, len(n.children), errMalformed)
		}
		if count[tag] == 0 {
			first[tag] = index[i]
		}
		if index[i] != first[tag]+count[tag] {
			return nil, fmt.Errorf("%s-%s: %d at row %d, expected %d: %w", n.key, bufferIndex, index[i], from+int64(i), first[tag]+count[tag], errMalformed)
		}
		codes = append(codes, byte(t.TypeCodes()[tag]))
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(count[tag]))
		count[tag]++
		for child := range positions {
			positions[child] = append(positions[child], max(count[child]-1, 0))
		}
	}
	children := make([]arrow.Array, len(n.children))
	defer func() {
		for _, child := range children {
			if child != nil {
				child.Release()
			}
		}
	}()
	sparse := t.Mode() == arrow.SparseMode
	for i := range n.children {
		if children[i], err = c.readChild(ctx, n, i, first[i], first[i]+count[i]); err != nil {
			return nil, err
		}
		if !sparse {
			continue
		}
		// The slots that other types select hold any value.
		var spread arrow.Array
		if count[i] == 0 {
			spread, err = nullArray(children[i].DataType(), len(tags))
		} else {
			spread, err = columns.Take(children[i], columns.Indices(positions[i]...))
		}
		if err != nil {
			return nil, err
		}
		children[i].Release()
		children[i] = spread
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(codes)}
	if !sparse {
		buffers = append(buffers, memory.NewBufferBytes(offsets))
	}
	data := make([]arrow.ArrayData, len(children))
	for i, child := range children {
		data[i] = child.Data()
	}
	whole := array.NewData(n.typ, len(tags), buffers, data, 0, 0)
	defer whole.Release()
	return array.MakeFromData(whole), nil
}

// restoreType returns values as a type whose values they are: an extension of their
// type, or runs of them. It releases values.
func restoreType(values arrow.Array, t arrow.DataType) (arrow.Array, error) {
	defer values.Release()
	storage := storageType(t)
	if runs, ok := storage.(*arrow.RunEndEncodedType); ok {
		values.Retain()
		inner, err := restoreType(values, runs.Encoded())
		if err != nil {
			return nil, err
		}
		defer inner.Release()
		encoded, err := encodeRuns(inner, runs)
		if err != nil {
			return nil, err
		}
		defer encoded.Release()
		data := retype(encoded.Data(), t)
		defer data.Release()
		return array.MakeFromData(data), nil
	}
	data := retype(values.Data(), t)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// retype returns data with another type of the same layout.
func retype(data arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	if d, ok := data.Dictionary().(*array.Data); ok && d != nil {
		return array.NewDataWithDictionary(t, data.Len(), data.Buffers(), data.NullN(), data.Offset(), d)
	}
	return array.NewData(t, data.Len(), data.Buffers(), data.Children(), data.NullN(), data.Offset())
}

// encodeRuns returns values as runs of equal ones.
func encodeRuns(values arrow.Array, t *arrow.RunEndEncodedType) (arrow.Array, error) {
	var starts []int64
	ends := array.NewBuilder(memory.DefaultAllocator, t.RunEnds())
	defer ends.Release()
	var last, key []byte
	n := values.Len()
	if int64(n) > runLimit(t) {
		return nil, errTooLong
	}
	appendEnd := func(end int) error { return ends.AppendValueFromString(fmt.Sprint(end)) }
	for i := range n {
		var err error
		if key, err = appendValueKey(key[:0], values, i); err != nil {
			return nil, err
		}
		if i > 0 && slices.Equal(key, last) {
			continue
		}
		if i > 0 {
			if err := appendEnd(i); err != nil {
				return nil, err
			}
		}
		starts = append(starts, int64(i))
		last, key = key, last
	}
	if n > 0 {
		if err := appendEnd(n); err != nil {
			return nil, err
		}
	}
	ofRuns, err := columns.Take(values, columns.Indices(starts...))
	if err != nil {
		return nil, err
	}
	defer ofRuns.Release()
	runEnds := ends.NewArray()
	defer runEnds.Release()
	return array.NewRunEndEncodedArrayWithType(t, runEnds, ofRuns, n, 0), nil
}
