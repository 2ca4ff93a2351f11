package arrowzarr

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// arrayStream is an array whose elements come in order, in runs of any length, such as
// the offsets of a list. It cuts them into chunks. Only one goroutine may use it.
//
// A partition writes a range of the elements. Chunks and shards that it has only a part
// of are stored as pieces, from which finalize makes whole ones.
type arrayStream struct {
	sink  *streamSink
	index int    // among the streams of the column
	name  string // of the array below its column
	class Class
	dtype ndview.DType
	row   []int64 // the axes after the first
	fill  []byte  // the fill value; nil is zero
	width int64   // bytes of an element along the first axis
	grid  rowGrid // counts elements
	// existing is the metadata of the array to which elements are appended; nil for a new
	// one. If gridFixed, it keeps its grid.
	existing  *zarr.ArrayMetadata
	gridFixed bool

	array   *arrayWriter // nil until the first chunk
	kept    bool         // the array is part of the output
	unused  bool         // the array is never part of the output, so its elements are only counted
	length  int64        // elements so far, with those of the partitions before
	from    int64        // the first element of the partition
	to      int64        // the end of the partition's elements; -1: unknown, the rest of the input
	sum     int64        // of offsets: the last one
	started bool         // an element is not the fill value, so pending is valid
	sent    int64        // chunks
	pending []byte       // elements that do not fill a chunk yet
	counted int64        // bytes of pending in fillingMemory
	spare   sync.Pool    // *[]byte, of chunks that are written
	pieces  []piece      // that were sent
	unread  []byte       // elements that are only counted
}

// piece is a part of a chunk of an arrayStream, stored as bytes without compression.
type piece struct {
	Column int   `json:"column"`
	Stream int   `json:"stream"`
	Chunk  int64 `json:"chunk"`
	From   int64 `json:"from"` // the first element, counted from the chunk's
	Count  int64 `json:"count"`
}

// key returns the key of the piece in a folder.
func (p piece) key(folder string) string {
	return fmt.Sprintf("%s/%d-%d-%d-%d", folder, p.Column, p.Stream, p.Chunk, p.From)
}

func newArrayStream(sink *streamSink, name string, dtype ndview.DType, row ...int64) *arrayStream {
	s := &arrayStream{sink: sink, name: name, dtype: dtype, row: row, width: dtype.Size(), to: -1}
	for _, d := range row {
		s.width *= d
	}
	if sink != nil { // otherwise only the widths are of interest
		s.grid = sink.builder.grid
	}
	return s
}

// streamSink is where the streams of a column send their chunks.
type streamSink struct {
	ctx     context.Context
	builder arrayBuilder // its grid counts elements
	// automatic reports whether arrays that are shorter than a chunk have a chunk of
	// their length.
	automatic bool
	counting  bool // elements are only counted
	writer    *columnWriter
	memory    *chunkMemory
	filling   *fillingMemory
	out       chan<- writeTask
	work      store.Store // of pieces
	pieces    string      // the prefix of their keys
	epoch     func() *epoch
}

// finalGrid returns the grid of the array, when all elements are known.
func (s *arrayStream) finalGrid() rowGrid {
	grid := s.grid
	if s.sink.automatic && !s.gridFixed {
		grid.chunkRows = min(grid.chunkRows, max(s.length, 1))
	}
	return grid
}

// streamChunk is a chunk of an arrayStream on its way to the writer.
type streamChunk struct {
	stream *arrayStream
	index  int64
	values *ndview.NDBuffer
	bytes  []byte // of values
	memory *chunkReservation
	epoch  *epoch
}

func (c *streamChunk) write(ctx context.Context, w *writer) error {
	err := arrowdata.CatchPanic(func() error { return arrayChunk{c.stream.array, c.index, c.values}.write(ctx) })
	if err != nil {
		return failedColumn(c.stream.sink.writer.column.field, PartOutput, err)
	}
	w.progress.raw.Add(c.values.NBytes())
	c.epoch.finish()
	return nil
}

func (c *streamChunk) release(*writer) {
	c.values.Release()
	c.stream.spare.Put(&c.bytes)
	c.memory.release()
}

// pieceTask is a piece on its way to the writer.
type pieceTask struct {
	sink   *streamSink
	piece  piece
	value  []byte
	memory *chunkReservation
}

func (p *pieceTask) write(ctx context.Context, w *writer) error {
	if err := p.sink.work.Set(ctx, p.piece.key(p.sink.pieces), p.value); err != nil {
		return partErrorf(PartOutput, "column %q: %w", p.sink.writer.column.field.Name, err)
	}
	w.progress.raw.Add(int64(len(p.value)))
	return nil
}

func (p *pieceTask) release(*writer) { p.memory.release() }

// append appends whole elements.
func (s *arrayStream) append(elements []byte) error {
	if len(elements) == 0 {
		return nil
	}
	for len(elements) > 0 {
		room, err := s.room(int64(len(elements)) / s.width)
		if err != nil {
			return err
		}
		elements = elements[copy(room, elements):]
	}
	return nil
}

// loadPending makes the elements of a piece pending: those of the chunk that is being
// filled.
func (s *arrayStream) loadPending(ctx context.Context, from store.Store, p storedPiece) error {
	s.started, s.sent = true, p.Chunk // which may be full
	if have := s.length - s.pendingFrom(); p.From != 0 || p.Count != have || have > s.grid.chunkRows {
		return fmt.Errorf("piece %s has elements [%d, +%d) of chunk %d, expected %d: %w", p.key(p.folder), p.From, p.Count, p.Chunk, have, arrowdata.ErrMalformed)
	}
	if err := s.count(p.Count * s.width); err != nil {
		return err
	}
	s.pending = make([]byte, p.Count*s.width)
	return s.loadPiece(ctx, from, p, s.pending)
}

// pendingFrom returns the first element of the chunk that is being filled which belongs
// to the partition.
func (s *arrayStream) pendingFrom() int64 {
	return max(s.sent*s.grid.chunkRows, s.from)
}

// room returns the memory of the next elements, at least one and at most n, which the
// caller must set before it calls another method.
func (s *arrayStream) room(n int64) ([]byte, error) {
	if s.sink.counting || s.unused {
		n = max(min(n*s.width, smallBytes)/s.width, 1)
		s.length += n
		s.unread = slices.Grow(s.unread[:0], int(n*s.width))[:n*s.width]
		return s.unread, nil
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	chunk := s.chunkBytes()
	if int64(len(s.pending)) == chunk {
		if err := s.send(); err != nil {
			return nil, err
		}
		chunk = s.chunkBytes()
	}
	have := int64(len(s.pending))
	n = min(n*s.width, chunk-have)
	if err := s.grow(n, chunk); err != nil {
		return nil, err
	}
	s.pending = s.pending[:have+n]
	s.length += n / s.width
	return s.pending[have:], nil
}

// chunkBytes returns the size that pending has when the partition has no more elements of
// the chunk.
func (s *arrayStream) chunkBytes() int64 {
	return ((s.sent+1)*s.grid.chunkRows - s.pendingFrom()) * s.width
}

// smallBytes is the most memory that grows with the elements. A stream of more gets that
// of a whole chunk at once, since copying what grows costs as much as all other work. Chunks
// of a user may be longer than the array, so their memory always grows.
const smallBytes = 64 << 10

// grow ensures that pending has the capacity for n more bytes.
func (s *arrayStream) grow(n, chunk int64) error {
	have := int64(len(s.pending))
	if have+n <= int64(cap(s.pending)) {
		return nil
	}
	if have+n <= smallBytes {
		s.pending = slices.Grow(s.pending, int(n))
		return nil
	}
	need := chunk
	if !s.sink.automatic {
		need = min(2*(have+n), chunk)
	}
	if err := s.count(need - s.counted); err != nil {
		return err
	}
	spare, ok := s.spare.Get().(*[]byte)
	if !ok || int64(cap(*spare)) < need {
		fresh := make([]byte, 0, need)
		spare = &fresh
	}
	s.pending = append((*spare)[:0], s.pending...)
	return nil
}

// count counts n more bytes of pending.
func (s *arrayStream) count(n int64) error {
	s.counted += n
	return s.sink.filling.reserve(n)
}

// takePending returns the pending elements, which are the caller's from then on.
func (s *arrayStream) takePending() []byte {
	pending := s.pending
	s.pending = nil
	s.sink.filling.release(s.counted)
	s.counted = 0
	return pending
}

// fillingMemory is the memory of the chunks of nested columns that are being filled. A nil
// fillingMemory has no limit.
type fillingMemory struct {
	size     int64
	encoding int64 // what encoding one chunk may take
	used     atomic.Int64
}

func (m *fillingMemory) limit() int64 {
	if m == nil {
		return math.MaxInt64
	}
	return m.encoding
}

// reserve counts n more bytes. It is an error if they are more than size in all.
func (m *fillingMemory) reserve(n int64) error {
	if m != nil && m.used.Add(n) > m.size {
		return partErrorf(PartUsage, "the chunks of nested columns that are being filled take more than %d bytes, a twelfth of --max-memory: lower --chunk-rows, or raise --max-memory", m.size)
	}
	return nil
}

func (m *fillingMemory) release(n int64) {
	if m != nil {
		m.used.Add(-n)
	}
}

// skip appends n elements of the fill value. Chunks that hold nothing else are not
// stored, so leading ones cost nothing.
func (s *arrayStream) skip(n int64) error {
	if !s.started || s.width == 0 {
		s.length += n
		return nil
	}
	const block = 64 << 10
	unit := s.fillUnit()
	elements := slices.Repeat(unit, int(max(1, min(n, block/int64(len(unit))))))
	for n > 0 {
		k := min(n, int64(len(elements))/s.width)
		if err := s.append(elements[:k*s.width]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// fillUnit returns the bytes of an element of the fill value.
func (s *arrayStream) fillUnit() []byte {
	if s.fill != nil {
		return s.fill
	}
	return make([]byte, s.width)
}

// start makes the elements that were skipped pending, unless they fill chunks.
func (s *arrayStream) start() error {
	if s.started {
		return nil
	}
	s.started = true
	if err := s.checkChunk(); err != nil {
		return err
	}
	s.sent = s.length / s.grid.chunkRows
	if rest := s.length - s.pendingFrom(); rest > 0 {
		if err := s.count(rest * s.width); err != nil {
			return err
		}
		s.pending = slices.Repeat(s.fillUnit(), int(rest))
	}
	return nil
}

// checkChunk returns an error if encoding a chunk takes too much memory. The last one is
// filled up before.
func (s *arrayStream) checkChunk() error {
	limit := s.sink.filling.limit()
	if need := 3 * float64(s.grid.chunkRows) * float64(s.width); need > float64(limit) {
		return partErrorf(PartUsage, "encoding one chunk of %s takes %.0f bytes, more than half of --max-memory, %d: lower --chunk-rows, or raise --max-memory", s.name, need, limit)
	}
	return nil
}

// isPiece reports whether another partition has elements of a chunk, or of its shard.
func (s *arrayStream) isPiece(chunk int64) bool {
	if s.to < 0 {
		return false
	}
	unit := s.grid.unit()
	first := chunk * s.grid.chunkRows / unit * unit
	return first < s.from || first+unit > s.to
}

// send sends the pending elements, which fill a chunk or are all that the partition has of
// it.
func (s *arrayStream) send() error {
	reserved, err := s.reserve(s.sink.ctx, 2*int64(len(s.pending)))
	if err != nil {
		return err
	}
	task, err := s.task(reserved)
	if err != nil {
		reserved.release()
		return err
	}
	s.sent++
	select {
	case s.sink.out <- task:
		return nil
	case <-s.sink.ctx.Done():
		task.release(nil)
		return context.Cause(s.sink.ctx)
	}
}

// reserve waits for n bytes, and for the tables of the encoder.
func (s *arrayStream) reserve(ctx context.Context, n int64) (*chunkReservation, error) {
	tables := outsideHeap(int64(s.sink.builder.codec.tableBytes(float64(n) / 2)))
	return s.sink.memory.acquire(ctx, n+tables, nil)
}

// task returns the task that writes the pending elements, which are its own from then on.
func (s *arrayStream) task(reserved *chunkReservation) (writeTask, error) {
	if s.isPiece(s.sent) {
		p := s.pendingPiece()
		s.pieces = append(s.pieces, p)
		value := s.takePending()
		return &pieceTask{sink: s.sink, piece: p, value: value, memory: reserved}, nil
	}
	if err := s.create(s.grid); err != nil {
		return nil, err
	}
	pending := s.takePending()
	values, err := s.values(pending)
	if err != nil {
		return nil, err
	}
	e := s.sink.epoch()
	e.add(1)
	return &streamChunk{stream: s, index: s.sent, values: values, bytes: pending, memory: reserved, epoch: e}, nil
}

// pendingPiece returns the pending elements as a piece.
func (s *arrayStream) pendingPiece() piece {
	return piece{
		Column: s.sink.writer.number, Stream: s.index, Chunk: s.sent,
		From:  s.pendingFrom() - s.sent*s.grid.chunkRows,
		Count: int64(len(s.pending)) / s.width,
	}
}

// values returns elements as an array that owns them.
func (s *arrayStream) values(elements []byte) (*ndview.NDBuffer, error) {
	rows := int64(len(elements)) / s.width
	buf, err := arrowbuf.BufferOf(memory.NewBufferBytes(elements))
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	return ndview.FromBuffer(buf, s.dtype, 0, append([]int64{rows}, s.row...), nil)
}

// metadata returns that of the array.
func (s *arrayStream) metadata(grid rowGrid) *zarr.ArrayMetadata {
	b := s.sink.builder
	b.grid = grid
	t := element.Of(s.dtype)
	m := b.metadata(t, s.row, s.sink.writer.column.codecs.compressors(s.name, s.class, t))
	if s.fill != nil {
		m.FillValue = s.fill
	}
	return reuseMetadata(s.existing, m)
}

// create creates the array.
func (s *arrayStream) create(grid rowGrid) (err error) {
	if s.array != nil {
		return nil
	}
	b := s.sink.builder
	b.grid = grid
	s.array, err = b.newArray(b.layout.path(s.sink.writer, s.name), s.metadata(grid))
	return err
}

// complete writes the elements that are pending. The stages have ended by then.
func (s *arrayStream) complete(ctx context.Context) error {
	if len(s.pending) > 0 {
		if err := s.writePending(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if s.array == nil {
		return nil
	}
	if err := s.array.finish(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

func (s *arrayStream) writePending(ctx context.Context) error {
	n := int64(len(s.pending))
	isPiece, need := s.isPiece(s.sent), 2*n
	if chunk := s.finalGrid().chunkRows * s.width; !isPiece && n < chunk {
		need = n + 2*chunk // it is filled up before it is encoded
	}
	reserved, err := s.reserve(ctx, need)
	if err != nil {
		return err
	}
	defer reserved.release()
	if isPiece {
		p := s.pendingPiece()
		s.pieces = append(s.pieces, p)
		if err := s.sink.work.Set(ctx, p.key(s.sink.pieces), s.pending); err != nil {
			return err
		}
	} else {
		if err := s.create(s.finalGrid()); err != nil {
			return err
		}
		if err := s.writeChunk(ctx, s.array, s.sent, s.pending); err != nil {
			return err
		}
	}
	s.pending = nil
	s.sink.builder.progress.raw.Add(n)
	return nil
}
