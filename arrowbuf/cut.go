package arrowbuf

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A cutter walks arrays and collects the parts of their buffers that they show:
// of a slice, no more than its own elements. What it says of an array, a cut,
// becomes the same array over moved parts. All types are one recursive walk
// over arrow.ArrayData; a type is added by a case in layout.
type cutter struct {
	parts []part
}

// cut is an array without its memory: buffers are indices of the cutter's
// parts, or absent.
type cut struct {
	dtype      arrow.DataType
	length     int
	nulls      int // array.UnknownNullCount only if the bitmap is on a device
	offset     int // less than 8: what keeps bitmaps on byte boundaries
	buffers    []int
	children   []cut
	dictionary *cut
}

const absent = -1

// array cuts elements [from, from+length) of an array.
func (c *cutter) array(data arrow.ArrayData, from, length int) (cut, error) {
	if data.Offset() < 0 || from < 0 || length < 0 || length > math.MaxInt-data.Offset()-from {
		return cut{}, fmt.Errorf("elements [%d, %d+%d) at offset %d: %w", from, from, length, data.Offset(), arrow.ErrInvalid)
	}
	s := span{data: data, first: data.Offset() + from, length: length}
	out := cut{dtype: data.DataType(), length: length}
	var err error
	if out.nulls, err = s.nullCount(from); err != nil {
		return cut{}, err
	}
	hasBits := out.nulls != 0 && s.buffer(0).Len() > 0
	dtype := storageOf(data.DataType())
	if hasBits || dtype.ID() == arrow.BOOL {
		// Bits cannot be moved to another place in their byte, so the cut
		// starts at the byte and the array at an offset in it.
		out.offset = s.first % 8
		s.first -= out.offset
		s.length += out.offset
	}
	validity := absent
	if hasBits {
		if validity, err = c.bits(s, 0); err != nil {
			return cut{}, fmt.Errorf("validity bitmap: %w", err)
		}
	}
	out.buffers = []int{validity}
	return out, c.layout(&out, s, dtype)
}

// layout cuts what lies behind the validity bitmap.
func (c *cutter) layout(out *cut, s span, dtype arrow.DataType) error {
	switch t := dtype.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		return out.add(c.bits(s, 1))
	case *arrow.DictionaryType:
		dictionary, ok := s.data.Dictionary().(*array.Data)
		if !ok || dictionary == nil {
			return fmt.Errorf("a dictionary array without its dictionary: %w", arrow.ErrInvalid)
		}
		values, err := c.array(dictionary, 0, dictionary.Len())
		if err != nil {
			return fmt.Errorf("dictionary: %w", err)
		}
		out.dictionary = &values
		return out.add(c.fixed(s, t.Bytes()))
	case *arrow.FixedSizeListType:
		return c.fixedSizeList(out, s, int(t.Len()))
	case arrow.BinaryViewDataType:
		return c.views(out, s)
	case *arrow.StringType, *arrow.BinaryType:
		return c.variable(out, s, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return c.variable(out, s, 8)
	case arrow.FixedWidthDataType:
		return out.add(c.fixed(s, t.Bytes()))
	default:
		return fmt.Errorf("a device does not take arrays of type %s yet: %w", dtype, arrow.ErrNotImplemented)
	}
}

func (c *cutter) bits(s span, i int) (int, error) {
	from, to := s.first/8, int(bitutil.BytesForBits(int64(s.first+s.length)))
	return c.bytes(s, i, from, to, 1)
}

// fixed cuts the values, width bytes each, of the second buffer.
func (c *cutter) fixed(s span, width int) (int, error) {
	if width > 0 && s.first+s.length > math.MaxInt/width {
		return 0, fmt.Errorf("%d elements of %d bytes: %w", s.first+s.length, width, arrow.ErrInvalid)
	}
	return c.bytes(s, 1, s.first*width, (s.first+s.length)*width, naturalAlign(width))
}

func (c *cutter) bytes(s span, i, from, to, align int) (int, error) {
	b := s.buffer(i)
	if from == to {
		from, to = 0, 0
	}
	if to > b.Len() {
		return 0, fmt.Errorf("buffer %d has %d bytes, the array needs %d: %w", i, b.Len(), to, arrow.ErrInvalid)
	}
	return c.part(b, from, to, align), nil
}

func (c *cutter) part(b *memory.Buffer, from, to, align int) int {
	c.parts = append(c.parts, part{src: b, from: int64(from), to: int64(to), align: uintptr(align)})
	return len(c.parts) - 1
}

// variable cuts offsets of width bytes and the bytes that they enclose. The
// result's offsets start at 0: where the source's do not, the cut holds
// rebased ones that were computed on the host.
func (c *cutter) variable(out *cut, s span, width int) error {
	offsets, values := s.buffer(1), s.buffer(2)
	if s.length == 0 {
		zero := memory.NewBufferBytes(make([]byte, width))
		out.buffers = append(out.buffers, c.part(zero, 0, width, width), c.part(values, 0, 0, 1))
		return nil
	}
	s.length++
	part, err := c.fixed(s, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	if c.parts[part].isWhole() && !OnHost(offsets) {
		// The array shows all, so the device need not be asked where its
		// bytes end.
		out.buffers = append(out.buffers, part, c.part(values, 0, values.Len(), 1))
		return nil
	}
	first, last, err := c.parts[part].ends(width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	if first < 0 || last < first || last > int64(values.Len()) {
		return fmt.Errorf("offsets from %d to %d into %d bytes: %w", first, last, values.Len(), arrow.ErrInvalid)
	}
	if first != 0 {
		if c.parts[part], err = c.parts[part].rebased(first, width); err != nil {
			return fmt.Errorf("offsets: %w", err)
		}
	}
	out.buffers = append(out.buffers, part, c.part(values, int(first), int(last), 1))
	return nil
}

// views cuts 16-byte views; the buffers that they point into stay whole, since
// any view may point anywhere.
func (c *cutter) views(out *cut, s span) error {
	if err := out.add(c.fixed(s, arrow.ViewHeaderSizeBytes)); err != nil {
		return err
	}
	for _, b := range s.data.Buffers()[min(2, len(s.data.Buffers())):] {
		b = orEmpty(b)
		out.buffers = append(out.buffers, c.part(b, 0, b.Len(), 1))
	}
	return nil
}

func (c *cutter) fixedSizeList(out *cut, s span, n int) error {
	children := s.data.Children()
	if len(children) != 1 || n < 0 || n > 0 && s.first+s.length > children[0].Len()/n {
		return fmt.Errorf("fixed-size list of %d elements without values for each: %w", s.first+s.length, arrow.ErrInvalid)
	}
	values, err := c.array(children[0], s.first*n, s.length*n)
	if err != nil {
		return fmt.Errorf("list values: %w", err)
	}
	out.children = []cut{values}
	return nil
}

func (out *cut) add(part int, err error) error {
	if err == nil {
		out.buffers = append(out.buffers, part)
	}
	return err
}

// build returns the array over the moved parts.
func (out *cut) build(moved []*memory.Buffer) *array.Data {
	buffers := make([]*memory.Buffer, len(out.buffers))
	for i, part := range out.buffers {
		if part != absent {
			buffers[i] = moved[part]
		}
	}
	var children []arrow.ArrayData
	for i := range out.children {
		child := out.children[i].build(moved)
		defer child.Release()
		children = append(children, child)
	}
	data := array.NewData(out.dtype, out.length, buffers, children, out.nulls, out.offset)
	if out.dictionary != nil {
		dictionary := out.dictionary.build(moved)
		defer dictionary.Release()
		data.SetDictionary(dictionary)
	}
	return data
}
