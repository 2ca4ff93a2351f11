package columns

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview"
)

// bounds is the offsets of an array and the range [from, to) of values that they
// enclose.
type bounds struct {
	offsets  *ndview.NDBuffer
	from, to int64
}

// readBounds reads the first and last offset of each part, all in one copy to the host.
// It validates them against the number of values that valueCount returns for the part.
func (w *workspace) readBounds(parts []arrow.ArrayData, width int64, valueCount func(arrow.ArrayData) int64) ([]bounds, error) {
	ends, err := w.alloc(ndview.Int64, 2*int64(len(parts)))
	if err != nil {
		return nil, err
	}
	all := make([]bounds, len(parts))
	for k, part := range parts {
		n := int64(part.Len())
		if all[k].offsets, err = w.viewValues(part, 1, width, n+1); err != nil {
			return nil, fmt.Errorf("offsets: %w", err)
		}
		out, err := w.ownArray(ends.Slice(0, 2*int64(k), 2*int64(k)+2))
		if err != nil {
			return nil, err
		}
		if err := w.launch(joinProgram, fmt.Sprintf("quiver_end_offsets_%d", 8*width), 1, 1, all[k].offsets, n, output{out}); err != nil {
			return nil, err
		}
	}
	raw := make([]byte, ends.NBytes())
	if err := ends.CopyToHost(raw); err != nil {
		return nil, err
	}
	for k, part := range parts {
		e := &all[k]
		e.from, e.to = int64(binary.NativeEndian.Uint64(raw[16*k:])), int64(binary.NativeEndian.Uint64(raw[16*k+8:]))
		if limit := valueCount(part); e.from < 0 || e.to < e.from || e.to > limit {
			return nil, fmt.Errorf("offsets from %d to %d into %d values: %w", e.from, e.to, limit, arrow.ErrInvalid)
		}
	}
	return all, nil
}

// concatOffsets writes the offsets of n elements. Offsets of each part are shifted so
// that its values follow those of earlier parts.
func (w *workspace) concatOffsets(all []bounds, n, width, to int64) (*memory.Buffer, error) {
	out, err := w.alloc(dtypeOf(to), n+1)
	if err != nil {
		return nil, err
	}
	at, values := int64(0), int64(0)
	for _, e := range all {
		size := e.offsets.Size() // the last offset of a part is the first of the next
		if to == 4 && values+e.to-e.from > math.MaxInt32 {
			return nil, fmt.Errorf("more than %d values need 64-bit offsets; cast to 64-bit offsets first: %w", math.MaxInt32, arrowbuf.ErrOutOfRange)
		}
		if err := w.rebaseOffsets(e.offsets, width, values-e.from, out, at, to); err != nil {
			return nil, err
		}
		at, values = at+size-1, values+e.to-e.from
	}
	return w.toBuffer(out, (n+1)*to)
}

// rebaseOffsets converts integers from width to another width in bytes, adds delta and
// writes them to out from index at.
func (w *workspace) rebaseOffsets(in *ndview.NDBuffer, width, delta int64, out *ndview.NDBuffer, at, to int64) error {
	part, err := w.ownArray(out.Slice(0, at, at+in.Size()))
	if err != nil {
		return err
	}
	return w.launch(joinProgram, fmt.Sprintf("quiver_rebase_%d_%d", 8*width, 8*to), in.Size(), itemsPerBlock, in, in.Size(), delta, output{part})
}

// byteCount returns the size of the value buffer of strings or byte strings.
func byteCount(data arrow.ArrayData) int64 {
	if b := bufferOf(data, 2); b != nil {
		return int64(b.Len())
	}
	return 0
}

func (w *workspace) concatBinary(parts []arrow.ArrayData, n int64, valid *memory.Buffer, width int64) (arrow.ArrayData, error) {
	all, err := w.readBounds(parts, width, byteCount)
	if err != nil {
		return nil, err
	}
	offsets, err := w.concatOffsets(all, n, width, width)
	if err != nil {
		return nil, err
	}
	bytes := make([]*ndview.NDBuffer, len(parts))
	for k, part := range parts {
		if bytes[k], err = w.viewBuffer(bufferOf(part, 2), ndview.Uint8, all[k].from, all[k].to-all[k].from, 1); err != nil {
			return nil, err
		}
	}
	values, err := w.concatValues(bytes)
	return w.newData(parts[0].DataType(), n, []*memory.Buffer{valid, offsets, values}), err
}

func (w *workspace) concatLists(parts []arrow.ArrayData, n int64, valid *memory.Buffer, width int64) (arrow.ArrayData, error) {
	for _, part := range parts {
		if _, err := children(part, 1); err != nil {
			return nil, err
		}
	}
	all, err := w.readBounds(parts, width, func(part arrow.ArrayData) int64 { return int64(part.Children()[0].Len()) })
	if err != nil {
		return nil, err
	}
	offsets, err := w.concatOffsets(all, n, width, width)
	if err != nil {
		return nil, err
	}
	visible := make([]arrow.ArrayData, len(parts))
	for k, part := range parts {
		if visible[k], err = w.sliceData(part.Children()[0], all[k].from, all[k].to-all[k].from, "list values"); err != nil {
			return nil, err
		}
	}
	values, err := w.concatData(visible)
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.newData(parts[0].DataType(), n, []*memory.Buffer{valid, offsets}, values), nil
}

// concatListViews joins whole child arrays, each distinct one once, since parts may be
// slices of one array.
func (w *workspace) concatListViews(parts []arrow.ArrayData, n int64, valid *memory.Buffer, width int64) (arrow.ArrayData, error) {
	if err := w.checkLengths(parts, width); err != nil {
		return nil, err
	}
	out, err := w.alloc(dtypeOf(width), n)
	if err != nil {
		return nil, err
	}
	begins := map[arrow.ArrayData]int64{}
	var visible []arrow.ArrayData
	at, total := int64(0), int64(0)
	for _, part := range parts {
		all, err := children(part, 1)
		if err != nil {
			return nil, err
		}
		begin, seen := begins[all[0]]
		if !seen {
			begin, visible = total, append(visible, all[0])
			begins[all[0]], total = begin, total+int64(all[0].Len())
		}
		if width == 4 && total > math.MaxInt32 {
			return nil, fmt.Errorf("more than %d values need 64-bit offsets; cast to 64-bit offsets first: %w", math.MaxInt32, arrowbuf.ErrOutOfRange)
		}
		offsets, err := w.viewFixed(part, 1, width)
		if err != nil {
			return nil, err
		}
		if err := w.rebaseOffsets(offsets, width, begin, out, at, width); err != nil {
			return nil, err
		}
		at += int64(part.Len())
	}
	offsets, err := w.toBuffer(out, n*width)
	if err != nil {
		return nil, err
	}
	sizes, err := w.concatFixed(parts, 2, width)
	if err != nil {
		return nil, err
	}
	values, err := w.concatData(visible)
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.newData(parts[0].DataType(), n, []*memory.Buffer{valid, offsets, sizes}, values), nil
}

// concatViews shares the data buffers of the views. Buffers of slices of one array are
// listed once.
func (w *workspace) concatViews(parts []arrow.ArrayData, n int64, valid *memory.Buffer) (arrow.ArrayData, error) {
	const width = int64(arrow.ViewHeaderSizeBytes)
	if err := w.checkLengths(parts, width); err != nil {
		return nil, err
	}
	views, err := w.alloc(dtypeOf(width), n)
	if err != nil {
		return nil, err
	}
	shared := []*memory.Buffer{valid, nil}
	at := int64(0)
	for _, part := range parts {
		from, err := w.viewFixed(part, 1, width)
		if err != nil {
			return nil, err
		}
		var dataBuffers []*memory.Buffer
		if all := part.Buffers(); len(all) > 2 {
			dataBuffers = all[2:]
		}
		first := findSublist(shared[2:], dataBuffers)
		if first < 0 {
			first, shared = len(shared)-2, append(shared, dataBuffers...)
		}
		to, err := w.ownArray(views.Slice(0, at, at+from.Size()))
		if err != nil {
			return nil, err
		}
		if err := w.launch(joinProgram, "quiver_shift_views", from.Size(), itemsPerBlock, from, from.Size(), int64(first), output{to}); err != nil {
			return nil, err
		}
		at += from.Size()
	}
	shared[1], err = w.toBuffer(views, n*width)
	return w.newData(parts[0].DataType(), n, shared), err
}

// findSublist returns the index at which part occurs in all, or -1.
func findSublist(all, part []*memory.Buffer) int {
	for i := 0; i+len(part) <= len(all); i++ {
		if slices.Equal(all[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// selectAll returns the selection of n elements in order.
func (w *workspace) selectAll(n int64) (selection, error) {
	zero, err := w.ownArray(ndview.Zeros(w.dev, ndview.Int64, 1))
	if err != nil || n == 1 {
		return selection{indices: zero, n: 1}, err
	}
	return w.expandFixedSize(selection{indices: zero, n: 1}, n)
}

// concatDenseUnions joins whole children. The children of a slice may be longer than
// the slice; they are cut to its elements first.
func (w *workspace) concatDenseUnions(parts []arrow.ArrayData, t *arrow.DenseUnionType, n int64) (arrow.ArrayData, error) {
	joined := make([]arrow.ArrayData, t.NumFields())
	whole := make([]arrow.ArrayData, len(parts))
	for k, part := range parts {
		all, err := children(part, t.NumFields())
		if err != nil {
			return nil, err
		}
		elements := 0
		for _, child := range all {
			elements += child.Len()
		}
		if whole[k] = part; elements != part.Len() {
			s, err := w.selectAll(int64(part.Len()))
			if err == nil {
				whole[k], err = w.takeDenseUnion(part, t, s)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	offsets, err := w.concatUnionOffsets(whole, t, n)
	if err != nil {
		return nil, err
	}
	ids, err := w.concatFixed(whole, 1, 1)
	if err != nil {
		return nil, fmt.Errorf("type ids: %w", err)
	}
	for i, f := range t.Fields() {
		of := make([]arrow.ArrayData, len(whole))
		for k, part := range whole {
			of[k] = part.Children()[i]
		}
		if joined[i], err = w.concatData(of); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return w.newData(parts[0].DataType(), n, []*memory.Buffer{nil, ids, offsets}, joined...), nil
}

func (w *workspace) concatUnionOffsets(parts []arrow.ArrayData, t *arrow.DenseUnionType, n int64) (*memory.Buffer, error) {
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d elements exceed the 32-bit offsets of a dense union: %w", n, arrowbuf.ErrOutOfRange)
	}
	out, err := w.alloc(ndview.Int32, n)
	if err != nil {
		return nil, err
	}
	var before shifts
	at := int64(0)
	for _, part := range parts {
		ids, err := w.viewFixed(part, 1, 1)
		if err != nil {
			return nil, fmt.Errorf("type ids: %w", err)
		}
		from, err := w.viewFixed(part, 2, 4)
		if err != nil {
			return nil, fmt.Errorf("offsets: %w", err)
		}
		to, err := w.ownArray(out.Slice(0, at, at+from.Size()))
		if err != nil {
			return nil, err
		}
		err = w.launch(joinProgram, "quiver_shift_union", from.Size(), itemsPerBlock, ids, from, from.Size(), launch.StructBytes(&before), output{to})
		if err != nil {
			return nil, err
		}
		for i, code := range t.TypeCodes() {
			before.of[code] += int32(part.Children()[i].Len())
		}
		at += from.Size()
	}
	return w.toBuffer(out, 4*n)
}
