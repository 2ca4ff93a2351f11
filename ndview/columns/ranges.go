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

// ranges are runs of values that elements of an array consist of: text, bytes or
// lists. Run i begins at value starts[i], and ends where the next begins, or has
// sizes[i] values.
type ranges struct {
	starts, sizes *ndview.NDBuffer // sizes nil for offsets
	width         int64            // bytes of an offset, 4 or 8
	n, limit      int64            // how many runs there are, and values
}

// offsetRanges are those of an array with offsets into so many values.
func (w *work) offsetRanges(data arrow.ArrayData, width, values int64) (r ranges, err error) {
	r = ranges{width: width, n: int64(data.Len()), limit: values}
	if r.n > 0 { // else there may be no offset
		r.starts, err = w.values(data, 1, width, r.n+1)
	}
	return r, err
}

// viewRanges are those of an array with offsets and sizes.
func (w *work) viewRanges(data arrow.ArrayData, width, values int64) (r ranges, err error) {
	r = ranges{width: width, n: int64(data.Len()), limit: values}
	if r.starts, err = w.fixed(data, 1, width); err == nil {
		r.sizes, err = w.fixed(data, 2, width)
	}
	return r, err
}

// pieces are the runs that a selection takes, one after the other: piece j is
// values [offsets[j], offsets[j+1]) of total. Nulls are empty.
type pieces struct {
	n       int64
	from    *ndview.NDBuffer // int64: the first value of each in the source
	offsets *ndview.NDBuffer // n+1, of width bytes each
	width   int64
	total   int64
}

// wide tells a kernel whether offsets have 64 bits.
func (p pieces) wide() int64 { return p.width / 8 }

// pieces measures a selection of runs; without one, all of them. Runs of the array
// that is not valid are empty. Of 4 bytes are offsets of at most so many values.
func (w *work) pieces(r ranges, valid bits, s *selection, width int64) (p pieces, err error) {
	p = pieces{n: r.n, width: width}
	var at *ndview.NDBuffer
	if s != nil {
		at, p.n = s.at, s.n
	}
	if p.n == 0 {
		p.offsets, err = w.array(ndview.Zeros(w.dev, dtypeOf(width), 1))
		return p, err
	}
	lengths, err := w.empty(ndview.Int64, p.n)
	if err != nil {
		return p, err
	}
	if p.from, err = w.empty(ndview.Int64, p.n); err != nil {
		return p, err
	}
	tiles := (p.n + perTile - 1) / perTile
	sums, err := w.empty(ndview.Int64, tiles)
	if err != nil {
		return p, err
	}
	bad, err := w.flag()
	if err != nil {
		return p, err
	}
	starts, err := w.empty(ndview.Int64, tiles+2) // of each tile, the total, and the flag
	if err != nil {
		return p, err
	}
	// Children without memory may be of any length: no sum may overflow.
	if r.limit > 1<<40 && p.n > 0 && r.limit > math.MaxInt64/p.n {
		return p, fmt.Errorf("%d elements of lists over %d values: %w", p.n, r.limit, arrowbuf.ErrOutOfRange)
	}
	err = w.run(rangeProgram, fmt.Sprintf("quiver_lengths_%d", 8*r.width), p.n, perTile,
		r.starts, r.sizes, r.n, at, valid.bytes, valid.first, p.n, r.limit, written{lengths}, written{p.from}, written{sums}, written{bad})
	if err == nil {
		err = w.run(rangeProgram, "quiver_scan", tiles+1, scanTiles, sums, tiles, bad, written{starts})
	}
	if err == nil {
		p.total, err = w.totalOf(starts, tiles)
	}
	if err != nil {
		return p, err
	}
	if width == 4 && p.total > math.MaxInt32 {
		return p, fmt.Errorf("%d values in a result whose offsets have 32 bits; cast to 64-bit offsets first: %w", p.total, arrowbuf.ErrOutOfRange)
	}
	if p.offsets, err = w.empty(dtypeOf(width), p.n+1); err != nil {
		return p, err
	}
	return p, w.run(rangeProgram, fmt.Sprintf("quiver_offsets_%d", 8*width), p.n, perTile, lengths, p.n, starts, written{p.offsets})
}

// totalOf reads what a scan says behind its tiles.
func (w *work) totalOf(starts *ndview.NDBuffer, tiles int64) (int64, error) {
	last, err := w.array(starts.Slice(0, tiles, tiles+2))
	if err != nil {
		return 0, err
	}
	var raw [16]byte
	if err := last.CopyToHost(raw[:]); err != nil {
		return 0, err
	}
	if bad := int64(binary.NativeEndian.Uint64(raw[8:])); bad >= 0 {
		return 0, fmt.Errorf("offsets of what is to be element %d do not fit the values: %w", bad, arrow.ErrInvalid)
	}
	return int64(binary.NativeEndian.Uint64(raw[:])), nil
}

// offsetsBuffer is the offsets as a buffer of an array.
func (w *work) offsetsBuffer(p pieces) (*memory.Buffer, error) {
	return w.buffer(p.offsets, (p.n+1)*p.width)
}

// gather copies the pieces of values that have each bytes.
func (w *work) gather(p pieces, values *ndview.NDBuffer, each int64) (*ndview.NDBuffer, error) {
	total := p.total * each
	out, err := w.empty(ndview.Uint8, total)
	if err != nil {
		return nil, err
	}
	return out, w.run(rangeProgram, "quiver_gather_ranges", total, gatherTile,
		values, values.NBytes(), p.from, p.offsets, p.wide(), p.n, each, total, written{out})
}

// expand makes the selection of the values of the pieces.
func (w *work) expand(p pieces) (selection, error) {
	s := selection{n: p.total}
	var err error
	if s.at, err = w.empty(ndview.Int64, p.total); err != nil {
		return s, err
	}
	return s, w.run(rangeProgram, "quiver_expand_ranges", p.total, expandTile,
		p.from, p.offsets, p.wide(), p.n, p.total, written{s.at})
}
