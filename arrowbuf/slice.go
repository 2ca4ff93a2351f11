package arrowbuf

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A cutter walks arrays and collects the parts of their buffers that they show:
// of a slice, no more than its own elements. What it says of an array, a cut,
// becomes the same array over moved parts. All types are one recursive walk
// over arrow.ArrayData; a type is a case in layout.
type cutter struct {
	parts []part
	// look is set where a few elements are looked at: then dictionaries and what
	// views point into are cut too, as far as the elements reach.
	look bool
	// check is set where nothing is moved: then arrays are taken as they are,
	// slices too, and the ends of all offsets are read.
	check bool
	// blank is set where values are checked: then zeros stand for what may hold
	// anything, and bitmaps without a null stay.
	blank bool
	// there are dictionaries that are on the device already.
	there dictionaries
	// late are counts of nulls to be taken while memory moves; nil where nobody
	// will, and all are taken at once.
	late *[]*nullCount
	// free is room for the buffers of cuts, in one piece for those of a batch.
	free []int
}

// room returns room for the buffers of most arrays, with no validity bitmap.
func (c *cutter) room() []int {
	if len(c.free) < 3 {
		c.free = make([]int, 3)
	}
	b := c.free[:1:3]
	b[0], c.free = absent, c.free[3:]
	return b
}

// cut is an array without its memory: buffers are indices of the cutter's
// parts, or absent.
type cut struct {
	dtype      arrow.DataType
	length     int
	nulls      int // array.UnknownNullCount if the bitmap is on a device, or counted late
	late       *nullCount
	buffers    []int
	children   []cut
	dictionary *cut
	source     *array.Data // of a dictionary
	built      *array.Data // what a dictionary became; its array holds the reference
}

const absent = -1

// array cuts elements [from, from+length) of an array. The cut starts at an
// offset of 0: what does not lie so is shifted or rebased on the host.
func (c *cutter) array(data arrow.ArrayData, from, length int) (cut, error) {
	if data.Offset() < 0 || from < 0 || length < 0 || length >= math.MaxInt-data.Offset()-from {
		return cut{}, fmt.Errorf("elements [%d, %d+%d) at offset %d: %w", from, from, length, data.Offset(), arrow.ErrInvalid)
	}
	s := span{data: data, first: data.Offset() + from, length: length}
	out := cut{dtype: data.DataType(), length: length, buffers: c.room()}
	dtype := storageOf(data.DataType())
	if err := c.validity(&out, s, dtype); err != nil {
		return cut{}, fmt.Errorf("validity bitmap: %w", err)
	}
	return out, c.layout(&out, s, dtype)
}

// validity cuts the bitmap, or leaves it out where no element is null. Where it
// passes through the host the nulls are counted.
func (c *cutter) validity(out *cut, s span, dtype arrow.DataType) error {
	switch dtype.ID() {
	case arrow.NULL:
		out.nulls = s.length
		return nil
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		return nil // their children have the nulls
	}
	known, size := s.data.NullN(), s.buffer(0).Len()
	switch {
	case known == 0 && !c.blank || s.length == 0:
		return nil
	case size == 0 && known > 0:
		return fmt.Errorf("there is none, of %d nulls: %w", known, arrow.ErrInvalid)
	case size == 0 && c.check && len(s.data.Buffers()) > 0 && s.data.Buffers()[0] != nil:
		return fmt.Errorf("0 bytes for %d elements: %w", s.length, arrow.ErrInvalid)
	case size == 0:
		return nil
	}
	bits, err := c.bits(s, 0)
	if err != nil {
		return err
	}
	out.buffers[0], out.nulls = bits, array.UnknownNullCount
	switch {
	case known >= 0 && s.length == s.data.Len():
		out.nulls = known
	case c.check:
	case OnHost(c.parts[bits].src):
		return c.settle(out)
	}
	return nil
}

// settle counts the nulls where their number is not known.
func (c *cutter) settle(out *cut) error {
	if out.nulls != array.UnknownNullCount || c.check {
		return nil
	}
	bits, err := c.parts[out.buffers[0]].bytes()
	if err != nil {
		return err
	}
	count := nullCount{bits: bits, length: out.length}
	if c.late != nil && out.late == nil && count.isLong() {
		out.late = &nullCount{bits: bits, length: out.length}
		*c.late = append(*c.late, out.late)
		return nil
	}
	count.take()
	if out.nulls, out.late = count.nulls, nil; out.nulls == 0 {
		c.parts[out.buffers[0]] = part{src: empty, align: 1}
		out.buffers[0] = absent
	}
	return nil
}

// nullCount is the number of nulls that a bitmap of the host has.
type nullCount struct {
	bits          []byte
	length, nulls int
}

func (n *nullCount) take() { n.nulls = n.length - bitutil.CountSetBits(n.bits, 0, n.length) }

// isLong tells whether it is known already that there are nulls, and takes a while
// to count them.
func (n *nullCount) isLong() bool {
	const seen = 1 << 15
	return n.length >= 8*seen && bitutil.CountSetBits(n.bits, 0, seen) < seen
}

// count takes the late counts, in a goroutine, until done is called.
func (c *cutter) count() (done func()) {
	if len(*c.late) == 0 {
		return func() {}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for _, one := range *c.late {
			one.take()
		}
	})
	return all.Wait
}

// layout cuts what lies behind the validity bitmap.
func (c *cutter) layout(out *cut, s span, dtype arrow.DataType) error {
	switch t := dtype.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		return out.add(c.anything(c.bits(s, 1)))
	case *arrow.DictionaryType:
		return c.dictionary(out, s, t)
	case *arrow.StringType, *arrow.BinaryType:
		return c.binary(out, s, t, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return c.binary(out, s, t, 8)
	case arrow.BinaryViewDataType:
		return c.views(out, s)
	case *arrow.ListType:
		return c.list(out, s, 4)
	case *arrow.LargeListType:
		return c.list(out, s, 8)
	case *arrow.MapType:
		return c.entries(out, s)
	case *arrow.ListViewType:
		return c.listViews(out, s, 4)
	case *arrow.LargeListViewType:
		return c.listViews(out, s, 8)
	case *arrow.FixedSizeListType:
		return c.fixedSizeList(out, s, int(t.Len()))
	case *arrow.StructType:
		return c.fields(out, s, t)
	case *arrow.SparseUnionType:
		return c.sparseUnion(out, s, t)
	case *arrow.DenseUnionType:
		return c.denseUnion(out, s, t)
	case *arrow.RunEndEncodedType:
		return c.runs(out, s, t)
	case arrow.FixedWidthDataType:
		return out.add(c.anything(c.fixed(s, 1, t.Bytes())))
	default:
		return fmt.Errorf("a layout that is not known: %w", arrow.ErrNotImplemented)
	}
}

// bits cuts a bitmap. Bits that do not begin at a byte are shifted on the host.
func (c *cutter) bits(s span, i int) (int, error) {
	from, to := s.first/8, int(bitutil.BytesForBits(int64(s.first+s.length)))
	at, err := c.bytes(s, i, from, to, 1)
	skip := s.first % 8
	if err != nil || skip == 0 || s.length == 0 || c.check {
		return at, err
	}
	old, err := c.parts[at].bytes()
	if err != nil {
		return 0, err
	}
	shifted := make([]byte, bitutil.BytesForBits(int64(s.length)))
	bitutil.CopyBitmap(old, skip, s.length, shifted, 0)
	c.parts[at] = hostPart(shifted, 1)
	return at, nil
}

// fixed cuts values, width bytes each, of a buffer.
func (c *cutter) fixed(s span, i, width int) (int, error) {
	if width > 0 && s.first+s.length > math.MaxInt/width {
		return 0, fmt.Errorf("%d elements of %d bytes: %w", s.first+s.length, width, arrow.ErrInvalid)
	}
	return c.bytes(s, i, s.first*width, (s.first+s.length)*width, naturalAlign(width))
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
	c.parts = append(c.parts, part{src: b, from: int64(from), to: int64(to), align: int64(align)})
	return len(c.parts) - 1
}

// child cuts elements of one of the arrays that an array consists of.
func (c *cutter) child(out *cut, data arrow.ArrayData, from, length int, name string) error {
	one, err := c.array(data, from, length)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	out.children = append(out.children, one)
	return nil
}

// anything marks a part as one that may hold any bytes.
func (c *cutter) anything(part int, err error) (int, error) {
	if err == nil && c.blank {
		n := c.parts[part].to - c.parts[part].from
		c.parts[part] = hostPart(make([]byte, n), int(c.parts[part].align))
	}
	return part, err
}

// isSlice tells whether an array shows less than all of the parts.
func (c *cutter) isSlice(parts ...int) bool {
	for _, part := range parts {
		if !c.parts[part].isWhole() {
			return !c.check
		}
	}
	return false
}

func (out *cut) add(part int, err error) error {
	if err == nil {
		out.buffers = append(out.buffers, part)
	}
	return err
}

// span is a run of elements of an array, counted from the start of its
// buffers.
type span struct {
	data          arrow.ArrayData
	first, length int
}

// buffer returns buffer i of the array, an empty one where there is none.
func (s span) buffer(i int) *memory.Buffer {
	if i >= len(s.data.Buffers()) {
		return orEmpty(nil)
	}
	return orEmpty(s.data.Buffers()[i])
}

// children returns the arrays that the array consists of, which are n.
func (s span) children(n int) ([]arrow.ArrayData, error) {
	all := s.data.Children()
	if len(all) != n {
		return nil, fmt.Errorf("%d child arrays, not %d: %w", len(all), n, arrow.ErrInvalid)
	}
	if i := slices.Index(all, nil); i >= 0 {
		return nil, fmt.Errorf("child array %d is absent: %w", i, arrow.ErrInvalid)
	}
	return all, nil
}

var empty = memory.NewBufferBytes(nil)

func orEmpty(b *memory.Buffer) *memory.Buffer {
	if b == nil {
		return empty
	}
	return b
}

// storageOf is the type whose layout an array has.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = ext.StorageType()
	}
}

// naturalAlign is how values of a width must lie for a kernel to load them: at
// multiples of the largest power of two in the width, 8 at most, which is what
// the Arrow format itself promises.
func naturalAlign(width int) int {
	align := 1
	for align < 8 && width > 0 && width%(2*align) == 0 {
		align *= 2
	}
	return align
}
