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

// A slicer collects the byte ranges of the buffers that arrays, or slices of them,
// show. Its result, a slicedArray, becomes the same array over copies of these
// ranges. One recursive walk over arrow.ArrayData handles all types; each type is a
// case in sliceLayout.
type slicer struct {
	ranges []bufferRange
	// narrow also cuts dictionaries and the buffers of views to what the elements
	// use. It is set if a single element is copied.
	narrow bool
	// checkOnly checks lengths and collects nothing that would be copied: slices are
	// not rebased, and the first and last of all offsets are read.
	checkOnly bool
	// zeroValues replaces values by zeros if every bit pattern is valid, and keeps
	// bitmaps without a null. It is set for validation.
	zeroValues bool
	// cache has the dictionaries that are on the device already.
	cache dictionaryCache
	// deferred collects counts of nulls that are computed while memory is copied. If
	// it is nil, all are computed at once.
	deferred *[]*deferredCount
	// spareIndices is preallocated memory for the buffers of sliced arrays.
	spareIndices []int
}

// slicedArray describes an array without its memory. buffers are indices of the
// slicer's ranges, or noBuffer.
type slicedArray struct {
	dtype      arrow.DataType
	length     int
	nulls      int // array.UnknownNullCount if the bitmap is on a device, or the count is deferred
	deferred   *deferredCount
	buffers    []int
	children   []slicedArray
	dictionary *slicedArray
	source     *array.Data // the data of a dictionary
	built      *array.Data // the assembled dictionary; its array holds the reference
}

const noBuffer = -1

// elementRange is a range of the elements of an array. first counts from the start
// of its buffers.
type elementRange struct {
	data          arrow.ArrayData
	first, length int
}

// buffer returns buffer i of the array, or an empty one if it is absent.
func (r elementRange) buffer(i int) *memory.Buffer {
	if i >= len(r.data.Buffers()) {
		return orEmpty(nil)
	}
	return orEmpty(r.data.Buffers()[i])
}

// children returns the child arrays, of which there must be n.
func (r elementRange) children(n int) ([]arrow.ArrayData, error) {
	all := r.data.Children()
	if len(all) != n {
		return nil, fmt.Errorf("%d child arrays, want %d: %w", len(all), n, arrow.ErrInvalid)
	}
	if i := slices.Index(all, nil); i >= 0 {
		return nil, fmt.Errorf("child array %d is nil: %w", i, arrow.ErrInvalid)
	}
	return all, nil
}

// slice collects the ranges of elements [from, from+length) of an array. The result
// has offset 0: the host shifts bitmaps and rebases offsets.
func (s *slicer) slice(data arrow.ArrayData, from, length int) (slicedArray, error) {
	if data.Offset() < 0 || from < 0 || length < 0 || length >= math.MaxInt-data.Offset()-from {
		return slicedArray{}, fmt.Errorf("elements [%d, %d+%d) at offset %d: %w", from, from, length, data.Offset(), arrow.ErrInvalid)
	}
	r := elementRange{data: data, first: data.Offset() + from, length: length}
	out := slicedArray{dtype: data.DataType(), length: length, buffers: s.newIndices()}
	dtype := storageType(data.DataType())
	if err := s.sliceValidity(&out, r, dtype); err != nil {
		return slicedArray{}, fmt.Errorf("validity bitmap: %w", err)
	}
	return out, s.sliceLayout(&out, r, dtype)
}

// sliceValidity collects the bitmap, or omits it if no element is null. If the
// bitmap is on the host, its nulls are counted.
func (s *slicer) sliceValidity(out *slicedArray, r elementRange, dtype arrow.DataType) error {
	switch dtype.ID() {
	case arrow.NULL:
		out.nulls = r.length
		return nil
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		return nil // their children have the nulls
	}
	known, size := r.data.NullN(), r.buffer(0).Len()
	switch {
	case known == 0 && !s.zeroValues || r.length == 0:
		return nil
	case size == 0 && known > 0:
		return fmt.Errorf("absent, but the array has %d nulls: %w", known, arrow.ErrInvalid)
	case size == 0 && s.checkOnly && len(r.data.Buffers()) > 0 && r.data.Buffers()[0] != nil:
		return fmt.Errorf("0 bytes for %d elements: %w", r.length, arrow.ErrInvalid)
	case size == 0:
		return nil
	}
	bits, err := s.sliceBitmap(r, 0)
	if err != nil {
		return err
	}
	out.buffers[0], out.nulls = bits, array.UnknownNullCount
	switch {
	case known >= 0 && r.length == r.data.Len():
		out.nulls = known
	case s.checkOnly:
	case OnHost(s.ranges[bits].src):
		return s.countNulls(out)
	}
	return nil
}

// countNulls computes the null count if it is unknown, and drops a bitmap without a
// null.
func (s *slicer) countNulls(out *slicedArray) error {
	if out.nulls != array.UnknownNullCount || s.checkOnly {
		return nil
	}
	bits, err := s.ranges[out.buffers[0]].bytes()
	if err != nil {
		return err
	}
	count := deferredCount{bits: bits, length: out.length}
	if s.deferred != nil && out.deferred == nil && count.isWorthDeferring() {
		out.deferred = &deferredCount{bits: bits, length: out.length}
		*s.deferred = append(*s.deferred, out.deferred)
		return nil
	}
	count.compute()
	if out.nulls, out.deferred = count.nulls, nil; out.nulls == 0 {
		s.ranges[out.buffers[0]] = bufferRange{src: emptyBuffer, align: 1}
		out.buffers[0] = noBuffer
	}
	return nil
}

// deferredCount is the number of nulls in a bitmap of the host.
type deferredCount struct {
	bits          []byte
	length, nulls int
}

// compute counts the nulls.
func (n *deferredCount) compute() { n.nulls = n.length - bitutil.CountSetBits(n.bits, 0, n.length) }

// isWorthDeferring reports whether a prefix of the bitmap has a null, so that the
// bitmap is kept in any case, and counting the rest takes long.
func (n *deferredCount) isWorthDeferring() bool {
	const seen = 1 << 15
	return n.length >= 8*seen && bitutil.CountSetBits(n.bits, 0, seen) < seen
}

// countDeferred starts a goroutine that computes the deferred counts. done waits for
// it.
func (s *slicer) countDeferred() (done func()) {
	if len(*s.deferred) == 0 {
		return func() {}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for _, one := range *s.deferred {
			one.compute()
		}
	})
	return all.Wait
}

// sliceLayout collects the buffers after the validity bitmap, and the children.
func (s *slicer) sliceLayout(out *slicedArray, r elementRange, dtype arrow.DataType) error {
	switch t := dtype.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		return out.add(s.zeroIfSet(s.sliceBitmap(r, 1)))
	case *arrow.DictionaryType:
		return s.sliceDictionary(out, r, t)
	case *arrow.StringType, *arrow.BinaryType:
		return s.sliceBinary(out, r, t, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return s.sliceBinary(out, r, t, 8)
	case arrow.BinaryViewDataType:
		return s.sliceViews(out, r)
	case *arrow.ListType:
		return s.sliceList(out, r, 4)
	case *arrow.LargeListType:
		return s.sliceList(out, r, 8)
	case *arrow.MapType:
		return s.sliceMap(out, r)
	case *arrow.ListViewType:
		return s.sliceListViews(out, r, 4)
	case *arrow.LargeListViewType:
		return s.sliceListViews(out, r, 8)
	case *arrow.FixedSizeListType:
		return s.sliceFixedSizeList(out, r, int(t.Len()))
	case *arrow.StructType:
		return s.sliceFields(out, r, t)
	case *arrow.SparseUnionType:
		return s.sliceSparseUnion(out, r, t)
	case *arrow.DenseUnionType:
		return s.sliceDenseUnion(out, r, t)
	case *arrow.RunEndEncodedType:
		return s.sliceRuns(out, r, t)
	case arrow.FixedWidthDataType:
		return out.add(s.zeroIfSet(s.sliceFixed(r, 1, t.Bytes())))
	default:
		return fmt.Errorf("unknown layout: %w", arrow.ErrNotImplemented)
	}
}

// sliceBitmap collects buffer i, a bitmap. The host shifts bits that do not begin at
// a byte.
func (s *slicer) sliceBitmap(r elementRange, i int) (int, error) {
	from, to := r.first/8, int(bitutil.BytesForBits(int64(r.first+r.length)))
	at, err := s.sliceBytes(r, i, from, to, 1)
	skip := r.first % 8
	if err != nil || skip == 0 || r.length == 0 || s.checkOnly {
		return at, err
	}
	old, err := s.ranges[at].bytes()
	if err != nil {
		return 0, err
	}
	shifted := make([]byte, bitutil.BytesForBits(int64(r.length)))
	bitutil.CopyBitmap(old, skip, r.length, shifted, 0)
	s.ranges[at] = rangeOfBytes(shifted, 1)
	return at, nil
}

// sliceFixed collects buffer i, values of width bytes each.
func (s *slicer) sliceFixed(r elementRange, i, width int) (int, error) {
	if width > 0 && r.first+r.length > math.MaxInt/width {
		return 0, fmt.Errorf("%d elements of %d bytes: %w", r.first+r.length, width, arrow.ErrInvalid)
	}
	return s.sliceBytes(r, i, r.first*width, (r.first+r.length)*width, naturalAlignment(width))
}

// sliceBytes collects bytes [from, to) of buffer i.
func (s *slicer) sliceBytes(r elementRange, i, from, to, align int) (int, error) {
	b := r.buffer(i)
	if from == to {
		from, to = 0, 0
	}
	if to > b.Len() {
		return 0, fmt.Errorf("buffer %d has %d bytes, the array needs %d: %w", i, b.Len(), to, arrow.ErrInvalid)
	}
	return s.addRange(b, from, to, align), nil
}

// addRange adds a range, and returns its index.
func (s *slicer) addRange(b *memory.Buffer, from, to, align int) int {
	s.ranges = append(s.ranges, bufferRange{src: b, from: int64(from), to: int64(to), align: int64(align)})
	return len(s.ranges) - 1
}

// sliceChild slices a child array. name is the child's name in errors.
func (s *slicer) sliceChild(out *slicedArray, data arrow.ArrayData, from, length int, name string) error {
	one, err := s.slice(data, from, length)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	out.children = append(out.children, one)
	return nil
}

// zeroIfSet replaces a range, in which every bit pattern is valid, by zeros if
// zeroValues is set.
func (s *slicer) zeroIfSet(index int, err error) (int, error) {
	if err == nil && s.zeroValues {
		n := s.ranges[index].to - s.ranges[index].from
		s.ranges[index] = rangeOfBytes(make([]byte, n), int(s.ranges[index].align))
	}
	return index, err
}

// isPartial reports whether an array shows less than all of the given ranges.
func (s *slicer) isPartial(indices ...int) bool {
	for _, index := range indices {
		if !s.ranges[index].isWhole() {
			return !s.checkOnly
		}
	}
	return false
}

// add appends the index of a range.
func (out *slicedArray) add(index int, err error) error {
	if err == nil {
		out.buffers = append(out.buffers, index)
	}
	return err
}

// newIndices returns an index slice with no validity bitmap, and capacity for the
// buffers of most types.
func (s *slicer) newIndices() []int {
	if len(s.spareIndices) < 3 {
		s.spareIndices = make([]int, 3)
	}
	b := s.spareIndices[:1:3]
	b[0], s.spareIndices = noBuffer, s.spareIndices[3:]
	return b
}

var emptyBuffer = memory.NewBufferBytes(nil)

func orEmpty(b *memory.Buffer) *memory.Buffer {
	if b == nil {
		return emptyBuffer
	}
	return b
}

// storageType returns the type that defines the layout of an array: the storage type
// of an extension type, otherwise dtype.
func storageType(dtype arrow.DataType) arrow.DataType {
	for {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = ext.StorageType()
	}
}

// naturalAlignment returns the alignment that kernels need to load values of a
// width: the largest power of two that divides it, at most 8. The Arrow format
// promises no more.
func naturalAlignment(width int) int {
	align := 1
	for align < 8 && width > 0 && width%(2*align) == 0 {
		align *= 2
	}
	return align
}
