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

// valueRanges is the range of values that each element of strings, byte strings or
// lists has. Range i begins at starts[i]. It has sizes[i] values, or ends at
// starts[i+1] if sizes is nil.
type valueRanges struct {
	starts, sizes *ndview.NDBuffer // sizes is nil for offsets
	width         int64            // bytes of an offset, 4 or 8
	n, limit      int64            // the numbers of ranges and of values
}

// rangesOfOffsets returns the ranges of an array with offsets into limit values.
func (w *workspace) rangesOfOffsets(data arrow.ArrayData, width, limit int64) (r valueRanges, err error) {
	r = valueRanges{width: width, n: int64(data.Len()), limit: limit}
	if r.n > 0 { // an empty array may lack offsets
		r.starts, err = w.viewValues(data, 1, width, r.n+1)
	}
	return r, err
}

// rangesOfViews returns the ranges of an array with offsets and sizes into limit
// values.
func (w *workspace) rangesOfViews(data arrow.ArrayData, width, limit int64) (r valueRanges, err error) {
	r = valueRanges{width: width, n: int64(data.Len()), limit: limit}
	if r.starts, err = w.viewFixed(data, 1, width); err == nil {
		r.sizes, err = w.viewFixed(data, 2, width)
	}
	return r, err
}

// gatherPlan says how selected ranges follow each other in a result. Range j occupies
// values [offsets[j], offsets[j+1]) of total. Null elements are empty.
type gatherPlan struct {
	n       int64
	from    *ndview.NDBuffer // int64: the first value of each in the source
	offsets *ndview.NDBuffer // n+1, of width bytes each
	width   int64
	total   int64
}

// wideFlag is not 0 if offsets have 64 bits; kernels take it as an argument.
func (p gatherPlan) wideFlag() int64 { return p.width / 8 }

// planGather lays out the ranges that s selects, or all ranges if s is nil. Null
// elements are empty. The offsets have width bytes; it returns arrowbuf.ErrOutOfRange
// if they cannot count the values.
func (w *workspace) planGather(r valueRanges, valid bitmap, s *selection, width int64) (p gatherPlan, err error) {
	p = gatherPlan{n: r.n, width: width}
	var at *ndview.NDBuffer
	if s != nil {
		at, p.n = s.indices, s.n
	}
	if p.n == 0 {
		p.offsets, err = w.ownArray(ndview.Zeros(w.dev, dtypeOf(width), 1))
		return p, err
	}
	lengths, err := w.alloc(ndview.Int64, p.n)
	if err != nil {
		return p, err
	}
	if p.from, err = w.alloc(ndview.Int64, p.n); err != nil {
		return p, err
	}
	tiles := (p.n + itemsPerBlock - 1) / itemsPerBlock
	sums, err := w.alloc(ndview.Int64, tiles)
	if err != nil {
		return p, err
	}
	bad, err := w.newFlag()
	if err != nil {
		return p, err
	}
	starts, err := w.alloc(ndview.Int64, tiles+2) // per tile, then the total and the flag
	if err != nil {
		return p, err
	}
	// Children without memory may claim any length; the sum must not overflow.
	if r.limit > 1<<40 && p.n > 0 && r.limit > math.MaxInt64/p.n {
		return p, fmt.Errorf("%d lists over %d values overflow: %w", p.n, r.limit, arrowbuf.ErrOutOfRange)
	}
	err = w.launch(rangeProgram, fmt.Sprintf("quiver_lengths_%d", 8*r.width), p.n, itemsPerBlock,
		r.starts, r.sizes, r.n, at, valid.bytes, valid.first, p.n, r.limit, output{lengths}, output{p.from}, output{sums}, output{bad})
	if err == nil {
		err = w.launch(rangeProgram, "quiver_scan", tiles+1, scanItems, sums, tiles, bad, output{starts})
	}
	if err == nil {
		p.total, err = w.readTotal(starts, tiles)
	}
	if err != nil {
		return p, err
	}
	if width == 4 && p.total > math.MaxInt32 {
		return p, fmt.Errorf("result of %d values exceeds 32-bit offsets; cast to 64-bit offsets first: %w", p.total, arrowbuf.ErrOutOfRange)
	}
	if p.offsets, err = w.alloc(dtypeOf(width), p.n+1); err != nil {
		return p, err
	}
	return p, w.launch(rangeProgram, fmt.Sprintf("quiver_offsets_%d", 8*width), p.n, itemsPerBlock, lengths, p.n, starts, output{p.offsets})
}

// readTotal reads the total and the flag that a scan stores after its tiles.
func (w *workspace) readTotal(starts *ndview.NDBuffer, tiles int64) (int64, error) {
	last, err := w.ownArray(starts.Slice(0, tiles, tiles+2))
	if err != nil {
		return 0, err
	}
	var raw [16]byte
	if err := last.CopyToHost(raw[:]); err != nil {
		return 0, err
	}
	if bad := int64(binary.NativeEndian.Uint64(raw[8:])); bad >= 0 {
		return 0, fmt.Errorf("offsets of result element %d exceed the values: %w", bad, arrow.ErrInvalid)
	}
	return int64(binary.NativeEndian.Uint64(raw[:])), nil
}

// planOffsets returns the offsets of a plan as an Arrow buffer.
func (w *workspace) planOffsets(p gatherPlan) (*memory.Buffer, error) {
	return w.toBuffer(p.offsets, (p.n+1)*p.width)
}

// gatherBytes copies the planned ranges of values that have `each` bytes.
func (w *workspace) gatherBytes(p gatherPlan, values *ndview.NDBuffer, each int64) (*ndview.NDBuffer, error) {
	total := p.total * each
	out, err := w.alloc(ndview.Uint8, total)
	if err != nil {
		return nil, err
	}
	return out, w.launch(rangeProgram, "quiver_gather_ranges", total, gatherItems,
		values, values.NBytes(), p.from, p.offsets, p.wideFlag(), p.n, each, total, output{out})
}

// expandPlan returns the selection of all values in the planned ranges.
func (w *workspace) expandPlan(p gatherPlan) (selection, error) {
	s := selection{n: p.total}
	var err error
	if s.indices, err = w.alloc(ndview.Int64, p.total); err != nil {
		return s, err
	}
	return s, w.launch(rangeProgram, "quiver_expand_ranges", p.total, expandItems,
		p.from, p.offsets, p.wideFlag(), p.n, p.total, output{s.indices})
}
