package columns

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// enclosed are the values [from, to) that the offsets of a part enclose, of which
// its elements consist.
type enclosed struct {
	offsets  *ndview.NDBuffer
	from, to int64
}

// enclosed reads the first and the last offset of each part, which has so many
// values: some bytes of each, in one copy.
func (w *work) enclosed(parts []arrow.ArrayData, width int64, values func(arrow.ArrayData) int64) ([]enclosed, error) {
	ends, err := w.empty(ndview.Int64, 2*int64(len(parts)))
	if err != nil {
		return nil, err
	}
	all := make([]enclosed, len(parts))
	for k, part := range parts {
		n := int64(part.Len())
		if all[k].offsets, err = w.values(part, 1, width, n+1); err != nil {
			return nil, fmt.Errorf("offsets: %w", err)
		}
		out, err := w.array(ends.Slice(0, 2*int64(k), 2*int64(k)+2))
		if err != nil {
			return nil, err
		}
		if err := w.run(joinProgram, fmt.Sprintf("quiver_end_offsets_%d", 8*width), 1, 1, all[k].offsets, n, written{out}); err != nil {
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
		if limit := values(part); e.from < 0 || e.to < e.from || e.to > limit {
			return nil, fmt.Errorf("offsets from %d to %d into %d values: %w", e.from, e.to, limit, arrow.ErrInvalid)
		}
	}
	return all, nil
}

// joinOffsets makes the offsets of all parts' elements, n in all, those of part k
// so much greater that its values follow the others'.
func (w *work) joinOffsets(all []enclosed, n, width, to int64) (*memory.Buffer, error) {
	out, err := w.empty(dtypeOf(to), n+1)
	if err != nil {
		return nil, err
	}
	at, values := int64(0), int64(0)
	for _, e := range all {
		size := e.offsets.Size() // the last is where the next begins
		if to == 4 && values+e.to-e.from > math.MaxInt32 {
			return nil, fmt.Errorf("more than %d values, which offsets of 32 bits count; cast to 64-bit offsets first: %w", math.MaxInt32, arrowbuf.ErrOutOfRange)
		}
		if err := w.rebase(e.offsets, width, values-e.from, out, at, to); err != nil {
			return nil, err
		}
		at, values = at+size-1, values+e.to-e.from
	}
	return w.buffer(out, (n+1)*to)
}

// rebase writes integers of width bytes, plus delta, to those of another width
// from one on.
func (w *work) rebase(in *ndview.NDBuffer, width, delta int64, out *ndview.NDBuffer, at, to int64) error {
	part, err := w.array(out.Slice(0, at, at+in.Size()))
	if err != nil {
		return err
	}
	return w.run(joinProgram, fmt.Sprintf("quiver_rebase_%d_%d", 8*width, 8*to), in.Size(), perTile, in, in.Size(), delta, written{part})
}

func byteCount(data arrow.ArrayData) int64 {
	if b := bufferOf(data, 2); b != nil {
		return int64(b.Len())
	}
	return 0
}

func (w *work) joinBinary(parts []arrow.ArrayData, n int64, valid *memory.Buffer, width int64) (arrow.ArrayData, error) {
	all, err := w.enclosed(parts, width, byteCount)
	if err != nil {
		return nil, err
	}
	offsets, err := w.joinOffsets(all, n, width, width)
	if err != nil {
		return nil, err
	}
	bytes := make([]*ndview.NDBuffer, len(parts))
	for k, part := range parts {
		if bytes[k], err = w.bytes(bufferOf(part, 2), ndview.Uint8, all[k].from, all[k].to-all[k].from, 1); err != nil {
			return nil, err
		}
	}
	values, err := w.joinValues(bytes)
	return w.data(parts[0].DataType(), n, []*memory.Buffer{valid, offsets, values}), err
}

func (w *work) joinLists(parts []arrow.ArrayData, n int64, valid *memory.Buffer, width int64) (arrow.ArrayData, error) {
	for _, part := range parts {
		if _, err := children(part, 1); err != nil {
			return nil, err
		}
	}
	all, err := w.enclosed(parts, width, func(part arrow.ArrayData) int64 { return int64(part.Children()[0].Len()) })
	if err != nil {
		return nil, err
	}
	offsets, err := w.joinOffsets(all, n, width, width)
	if err != nil {
		return nil, err
	}
	shown := make([]arrow.ArrayData, len(parts))
	for k, part := range parts {
		if shown[k], err = w.sliced(part.Children()[0], all[k].from, all[k].to-all[k].from, "list values"); err != nil {
			return nil, err
		}
	}
	values, err := w.join(shown)
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.data(parts[0].DataType(), n, []*memory.Buffer{valid, offsets}, values), nil
}

// joinListViews joins the values whole, each only once, since parts may be slices
// of one array.
func (w *work) joinListViews(parts []arrow.ArrayData, n int64, valid *memory.Buffer, width int64) (arrow.ArrayData, error) {
	if err := w.allHave(parts, width); err != nil {
		return nil, err
	}
	out, err := w.empty(dtypeOf(width), n)
	if err != nil {
		return nil, err
	}
	begins := map[arrow.ArrayData]int64{}
	var shown []arrow.ArrayData
	at, total := int64(0), int64(0)
	for _, part := range parts {
		all, err := children(part, 1)
		if err != nil {
			return nil, err
		}
		begin, seen := begins[all[0]]
		if !seen {
			begin, shown = total, append(shown, all[0])
			begins[all[0]], total = begin, total+int64(all[0].Len())
		}
		if width == 4 && total > math.MaxInt32 {
			return nil, fmt.Errorf("more than %d values, which offsets of 32 bits count; cast to 64-bit offsets first: %w", math.MaxInt32, arrowbuf.ErrOutOfRange)
		}
		offsets, err := w.fixed(part, 1, width)
		if err != nil {
			return nil, err
		}
		if err := w.rebase(offsets, width, begin, out, at, width); err != nil {
			return nil, err
		}
		at += int64(part.Len())
	}
	offsets, err := w.buffer(out, n*width)
	if err != nil {
		return nil, err
	}
	sizes, err := w.joinFixed(parts, 2, width)
	if err != nil {
		return nil, err
	}
	values, err := w.join(shown)
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.data(parts[0].DataType(), n, []*memory.Buffer{valid, offsets, sizes}, values), nil
}
