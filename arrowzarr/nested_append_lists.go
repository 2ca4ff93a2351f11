package arrowzarr

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// ranges are the elements, or the bytes, that lists or texts show: offset i to offset i+1
// of their values.
type ranges[O int32 | int64] struct {
	offsets []O // one more than there are lists
	valid   arrowdata.ValidBits
	first   int64 // the position of the first list in valid
	most    int64 // elements of the values
}

// appendRanges appends offsets to the stream o, and calls show for each run of elements.
// Null lists are empty.
func appendRanges[O int32 | int64](o *arrayStream, r ranges[O], show func(start, end int64) error) error {
	total := o.sum
	var start, end int64 // a run of elements that are not shown yet
	for i := 0; i < len(r.offsets)-1; {
		room, err := o.room(int64(len(r.offsets) - 1 - i))
		if err != nil {
			return err
		}
		if first := int64(r.offsets[i]); r.valid.Bits == nil && (first == end || start == end) {
			if n := contiguous(r.offsets[i:], room, total, r.most); n > 0 {
				if start == end {
					start = first
				}
				total += int64(r.offsets[i+n]) - first
				end, room = int64(r.offsets[i+n]), room[8*n:]
				i += n
			}
		}
		for ; len(room) > 0; room = room[8:] {
			if s, e := int64(r.offsets[i]), int64(r.offsets[i+1]); s != e && !r.valid.IsNull(r.first+int64(i)) {
				if s < 0 || e < s || e > r.most {
					return fmt.Errorf("a list of elements [%d, %d) of %d: %w", s, e, r.most, arrowdata.ErrMalformed)
				}
				if s != end {
					if err := showRun(start, end, show); err != nil {
						return err
					}
					start = s
				}
				end = e
				if total += e - s; total < 0 {
					return fmt.Errorf("more elements than can be counted: %w", arrowdata.ErrMalformed)
				}
			}
			binary.LittleEndian.PutUint64(room, uint64(total))
			i++
		}
	}
	o.sum = total
	return showRun(start, end, show)
}

// contiguous sets the new offsets of as many lists as room has, after total elements, and
// returns their number. It returns 0 if the offsets are not in order and within most.
func contiguous[O int32 | int64](offsets []O, room []byte, total, most int64) int {
	n := len(room) / 8
	last := offsets[0]
	shift := total - int64(last)
	var bad O
	for i, o := range offsets[1 : n+1] {
		bad |= (o - last) | o // negative if an offset is, or is less than the one before
		last = o
		binary.LittleEndian.PutUint64(room[8*i:], uint64(int64(o)+shift))
	}
	if bad < 0 || offsets[0] < 0 || int64(last) > most || total > math.MaxInt64-most {
		return 0
	}
	return n
}

func showRun(start, end int64, show func(start, end int64) error) error {
	if start == end {
		return nil
	}
	return show(start, end)
}

// offsetsOf returns the offsets of elements [from, to) and the last one's end, of an array
// of a type with offsets of 32 or of 64 bits; nil for other arrays.
func offsetsOf(a arrow.Array, from, to int64) (narrow []int32, wide []int64) {
	buffers, start := a.Data().Buffers(), int64(a.Data().Offset())
	if len(buffers) < 2 || buffers[1] == nil {
		return nil, nil
	}
	from, to = start+from, start+to+1
	switch a.DataType().ID() {
	case arrow.STRING, arrow.BINARY, arrow.LIST, arrow.MAP:
		if offsets := arrow.Int32Traits.CastFromBytes(buffers[1].Bytes()); int64(len(offsets)) >= to {
			return offsets[from:to], nil
		}
	case arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LARGE_LIST:
		if offsets := arrow.Int64Traits.CastFromBytes(buffers[1].Bytes()); int64(len(offsets)) >= to {
			return nil, offsets[from:to]
		}
	}
	return nil, nil
}

// appendByOffsets appends elements of an array with offsets, and reports whether it has
// those.
func (w *nodeWriter) appendByOffsets(a arrow.Array, from, to, most int64, show func(start, end int64) error) (done bool, err error) {
	valid, err := validityBits(a)
	if err != nil {
		return false, err
	}
	narrow, wide := offsetsOf(a, from, to)
	switch {
	case narrow != nil:
		return true, appendRanges(w.offsets, ranges[int32]{narrow, valid, from, most}, show)
	case wide != nil:
		return true, appendRanges(w.offsets, ranges[int64]{wide, valid, from, most}, show)
	}
	return false, nil
}

// appendText appends the bytes of text or binary values. Null ones are empty.
func (w *nodeWriter) appendText(a arrow.Array, from, to int64) error {
	var bytes []byte
	if buffers := a.Data().Buffers(); len(buffers) == 3 && buffers[2] != nil {
		bytes = buffers[2].Bytes()
	}
	check := arrowdata.IsText(w.node.typ)
	done, err := w.appendByOffsets(a, from, to, int64(len(bytes)), func(start, end int64) error {
		if check && !onlyASCII(bytes[start:end]) {
			if err := checkText(a, from, to); err != nil {
				return err
			}
			check = false
		}
		return w.data.append(bytes[start:end])
	})
	if done || err != nil {
		return err
	}
	if check {
		if err := checkText(a, from, to); err != nil {
			return err
		}
	}
	value, err := valueReader(a)
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if a.IsValid(int(i)) {
			if err := w.data.append(value(int(i))); err != nil {
				return err
			}
		}
		if err := w.appendOffset(w.data.length); err != nil {
			return err
		}
	}
	return nil
}

// checkText returns an error unless the values that are not null are UTF-8.
func checkText(a arrow.Array, from, to int64) error {
	value, err := valueReader(a)
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if a.IsValid(int(i)) && !utf8.Valid(value(int(i))) {
			return fmt.Errorf("%.40q: %w", value(int(i)), element.ErrInvalidUTF8)
		}
	}
	return nil
}

// onlyASCII reports whether no byte has its highest bit set.
func onlyASCII(b []byte) bool {
	var bits uint64
	for ; len(b) >= 8; b = b[8:] {
		bits |= binary.NativeEndian.Uint64(b)
	}
	for _, c := range b {
		bits |= uint64(c)
	}
	return bits&0x8080808080808080 == 0
}

// appendOffset appends the end of one list.
func (w *nodeWriter) appendOffset(end int64) error {
	room, err := w.offsets.room(1)
	if err == nil {
		binary.LittleEndian.PutUint64(room, uint64(end))
		w.offsets.sum = end
	}
	return err
}

// appendLists appends lists and the elements that they show.
func (w *nodeWriter) appendLists(a arrow.Array, from, to int64) error {
	lists, ok := a.(array.ListLike)
	if !ok {
		return fmt.Errorf("array of %T: %w", a, arrowdata.ErrMalformed)
	}
	values := lists.ListValues()
	show := func(start, end int64) error { return w.children[0].append(values, start, end) }
	if done, err := w.appendByOffsets(a, from, to, int64(values.Len()), show); done || err != nil {
		return err
	}
	var start, end int64 // a run of elements that are not appended yet
	for i := from; i < to; i++ {
		total := w.offsets.sum
		if a.IsValid(int(i)) {
			s, e := lists.ValueOffsets(int(i))
			if s < 0 || e < s || e > int64(values.Len()) {
				return fmt.Errorf("a list of elements [%d, %d) of %d: %w", s, e, values.Len(), arrowdata.ErrMalformed)
			}
			if s != end && s != e {
				if err := showRun(start, end, show); err != nil {
					return err
				}
				start = s
			}
			if s != e {
				end = e
			}
			if total > math.MaxInt64-(e-s) {
				return fmt.Errorf("more elements than can be counted: %w", arrowdata.ErrMalformed)
			}
			total += e - s
		}
		if err := w.appendOffset(total); err != nil {
			return err
		}
	}
	return showRun(start, end, show)
}
