package arrowzarr

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// tableColumn reads rows of one column.
type tableColumn struct {
	column *column
	zarrReader
	dictionary   arrow.Array           // the categories, once they are read
	dictionaries map[*node]arrow.Array // those of dictionaries inside
}

func newTableColumn(group *zarr.Group, column *column, jobs int) *tableColumn {
	return &tableColumn{column: column, zarrReader: zarrReader{group: group, path: column.name, jobs: jobs, arrays: map[string]*zarr.Array{}}}
}

// arrayNames returns the names of the arrays that the column may have below it; "" is the
// column itself.
func (c *tableColumn) arrayNames() (names []string) {
	switch c.column.kind {
	case kindNested:
		_ = newNodeWriter(c.column.nested, nil, nil).streams(func(s *arrayStream) error { // the function returns no error
			names = append(names, s.name)
			return nil
		})
		return names
	case kindDictionary:
		return []string{"codes", arrayCategories}
	}
	return []string{"", arrayValues, arrayMask, arrayElements}
}

// release releases what the column keeps.
func (c *tableColumn) release() {
	if c.dictionary != nil {
		c.dictionary.Release()
		c.dictionary = nil
	}
	for _, d := range c.dictionaries {
		d.Release()
	}
	c.dictionaries = nil
}

// read returns rows [from, to) of the column. The caller must release them.
func (c *tableColumn) read(ctx context.Context, from, to int64) (arrow.Array, error) {
	values, err := c.readStorage(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return restoreType(values, c.column.field.Type)
}

// readStorage returns rows of the column's storage type.
func (c *tableColumn) readStorage(ctx context.Context, from, to int64) (arrow.Array, error) {
	switch c.column.kind {
	case kindNull:
		return array.NewNull(int(to - from)), nil
	case kindNested:
		return c.readNode(ctx, c.column.nested, from, to)
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
	return c.readValues(ctx, a, c.column, missing, elements, from, to)
}

// readValues returns rows of an array as the storage type of a column.
func (c *tableColumn) readValues(ctx context.Context, a *zarr.Array, column *column, missing, elements []byte, from, to int64) (arrow.Array, error) {
	if column.kind == kindText || column.kind == kindBinary {
		if n := firstAxisLen(a.Shape()); to > n {
			return nil, fmt.Errorf("%s: rows [%d, %d) of %d: %w", a.Path(), from, to, n, arrowdata.ErrMalformed)
		}
		values, err := a.ReadRows(ctx, zarr.Prototype{}, from, to, c.jobs)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		text, ok := values.(*element.VLen)
		if fixed, isFixed := values.(*ndview.NDBuffer); isFixed {
			if text, err = a.Metadata().DataType.ToVLen(fixed); err != nil {
				return nil, fmt.Errorf("%s: %w", a.Path(), err)
			}
			ok = true
		}
		if !ok {
			return nil, fmt.Errorf("%s: %T, expected text or bytes: %w", a.Path(), values, arrowdata.ErrMalformed)
		}
		return textArray(column.storage, text, missing)
	}
	stored, err := c.buffer(ctx, zarr.Prototype{}, a, column.layout.dtype, from, to)
	if err != nil {
		return nil, err
	}
	defer stored.Release()
	raw := stored.Bytes()
	if missing == nil && column.layout.fill == natMin && !column.hasOwnMask(a) {
		missing = notATime(raw)
	}
	n := int(to - from)
	values := stored
	if l := column.layout; l.dtype == ndview.Bool || l.source.Size() != l.dtype.Size() {
		if values, err = fixedBuffer(column.leafType(), column.layout, raw, n*int(column.listWidth()), missing); err != nil {
			return nil, err
		}
		defer values.Release()
	}
	onHost := func(b *memory.Buffer) (*memory.Buffer, error) { return b, nil }
	data, err := column.fixedData(values, n, missing, elements, onHost)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

// readCategorical returns rows of codes and categories.
func (c *tableColumn) readCategorical(ctx context.Context, from, to int64) (arrow.Array, error) {
	t := c.column.storage.(*arrow.DictionaryType)
	if c.dictionary == nil {
		column, err := newColumn(categoriesField(t))
		if err != nil {
			return nil, err
		}
		a, err := c.require(ctx, "categories")
		if err != nil {
			return nil, err
		}
		values, err := c.readValues(ctx, a, column, nil, nil, 0, firstAxisLen(a.Shape()))
		if err != nil {
			return nil, err
		}
		if c.dictionary, err = restoreType(values, t.ValueType); err != nil {
			return nil, err
		}
	}
	codes, err := c.integers(ctx, "codes", c.column.layout.dtype, from, to)
	if err != nil {
		return nil, err
	}
	return dictionaryArray(t, codes, c.dictionary)
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

// leafType returns the type of the values of a column of fixed width: of lists, that of
// the innermost elements.
func (c *column) leafType() arrow.DataType {
	t := c.storage
	for {
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			return t
		}
		t = arrowdata.StorageType(list.Elem())
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
		width, t = width*int64(list.Len()), arrowdata.StorageType(list.Elem())
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
		lists, t = append(lists, list), arrowdata.StorageType(list.Elem())
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
	buffer, err := c.buffer(ctx, zarr.PrototypeOn(dev), a, c.column.layout.dtype, from, to)
	if err != nil {
		return nil, err
	}
	defer buffer.Release()
	data, err := c.column.fixedData(buffer, int(to-from), missing, elements, func(b *memory.Buffer) (*memory.Buffer, error) { return copyBitmap(b, dev) })
	if err != nil {
		return nil, err
	}
	defer data.Release()
	typed := retype(data, c.column.field.Type)
	defer typed.Release()
	return arrowbuf.NewArrayOn(typed, dev), nil
}

// decodable returns the array of the column's values if its elements are those of Arrow's
// buffer, so that a device can decode them in place; otherwise nil.
func (c *tableColumn) decodable(ctx context.Context) (*zarr.Array, error) {
	if c.column.kind != kindFixed || c.column.runs || !c.column.layout.viewable() {
		return nil, nil
	}
	a, err := c.open(ctx, "")
	if err == nil && a == nil {
		a, err = c.require(ctx, "values")
	}
	if err != nil || c.column.layout.fill != natMin || c.column.hasOwnMask(a) {
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
