package arrowzarr

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// arrayStream is an array whose elements come in order, in runs of any length, such as
// the offsets of a list. It cuts them into chunks. Only one goroutine may use it.
type arrayStream struct {
	sink  *streamSink
	name  string // of the array below its column
	class Class
	dtype ndview.DType
	row   []int64 // the axes after the first
	fill  []byte  // the fill value; nil is zero
	width int64   // bytes of an element along the first axis

	array   *arrayWriter // nil until the first chunk
	kept    bool         // the array is part of the output
	length  int64        // elements so far
	sum     int64        // of offsets: the last one
	started bool         // an element is not the fill value, so pending is valid
	sent    int64        // chunks
	pending []byte       // elements that do not fill a chunk yet
	spare   sync.Pool    // *[]byte, of chunks that are written
}

func newArrayStream(sink *streamSink, name string, dtype ndview.DType, row ...int64) *arrayStream {
	s := &arrayStream{sink: sink, name: name, dtype: dtype, row: row, width: dtype.Size()}
	for _, d := range row {
		s.width *= d
	}
	return s
}

// streamSink is where the streams of a column send their chunks.
type streamSink struct {
	ctx     context.Context
	builder arrayBuilder // its grid counts elements, and is final when a chunk was sent
	// automatic reports whether arrays that are shorter than a chunk have a chunk of
	// their length.
	automatic bool
	path      string // of the arrays until the output is finished
	column    *columnWriter
	memory    *chunkMemory
	out       chan<- writeTask
}

// streamChunk is a chunk of an arrayStream on its way to the writer.
type streamChunk struct {
	stream *arrayStream
	index  int64
	values *ndview.NDBuffer
	bytes  []byte // of values
	memory *chunkReservation
}

func (c *streamChunk) write(ctx context.Context, w *writer) error {
	err := catchPanic(func() error { return c.stream.array.write(ctx, c.index, c.values) })
	if err != nil {
		return partErrorf(partOf(err, PartOutput), "column %q: %w", c.stream.sink.column.plan.field.Name, err)
	}
	w.progress.raw.Add(c.values.NBytes())
	return nil
}

func (c *streamChunk) release(*writer) {
	c.values.Release()
	c.stream.spare.Put(&c.bytes)
	c.memory.release()
}

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

// room returns the memory of the next elements, at least one and at most n, which the
// caller must set before it calls another method.
func (s *arrayStream) room(n int64) ([]byte, error) {
	s.start()
	chunk := s.sink.builder.grid.chunkRows * s.width
	if int64(len(s.pending)) == chunk {
		if err := s.send(); err != nil {
			return nil, err
		}
	}
	have := int64(len(s.pending))
	n = min(n*s.width, chunk-have)
	s.grow(n, chunk)
	s.pending = s.pending[:have+n]
	s.length += n / s.width
	return s.pending[have:], nil
}

// smallBytes is the most memory that grows with the elements. A stream of more gets that
// of a whole chunk at once, since copying what grows costs as much as all other work.
const smallBytes = 64 << 10

// grow ensures that pending has the capacity for n more bytes.
func (s *arrayStream) grow(n, chunk int64) {
	have := int64(len(s.pending))
	if have+n <= int64(cap(s.pending)) {
		return
	}
	if have+n <= smallBytes {
		s.pending = slices.Grow(s.pending, int(n))
		return
	}
	spare, ok := s.spare.Get().(*[]byte)
	if !ok || int64(cap(*spare)) < chunk {
		fresh := make([]byte, 0, chunk)
		spare = &fresh
	}
	s.pending = append((*spare)[:0], s.pending...)
}

// skip appends n elements of the fill value. Chunks that hold nothing else are not
// stored, so leading ones cost nothing.
func (s *arrayStream) skip(n int64) error {
	if !s.started || s.width == 0 {
		s.length += n
		return nil
	}
	const block = 64 << 10
	unit := s.fill
	if unit == nil {
		unit = make([]byte, s.width)
	}
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

// start makes the elements that were skipped pending, unless they fill chunks.
func (s *arrayStream) start() {
	if s.started {
		return
	}
	s.started = true
	chunk := s.sink.builder.grid.chunkRows
	s.sent = s.length / chunk
	if rest := int(s.length % chunk); rest > 0 {
		unit := s.fill
		if unit == nil {
			unit = make([]byte, s.width)
		}
		s.pending = slices.Repeat(unit, rest)
	}
}

// send sends the pending elements as a whole chunk.
func (s *arrayStream) send() error {
	if err := s.create(); err != nil {
		return err
	}
	n := int64(len(s.pending))
	tables := outsideHeap(int64(s.sink.builder.codec.tableBytes(float64(n))))
	reserved, err := s.sink.memory.acquire(s.sink.ctx, 2*n+tables, nil)
	if err != nil {
		return err
	}
	pending := s.pending
	values, err := s.chunk()
	if err != nil {
		reserved.release()
		return err
	}
	task := &streamChunk{stream: s, index: s.sent, values: values, bytes: pending, memory: reserved}
	s.sent++
	select {
	case s.sink.out <- task:
		return nil
	case <-s.sink.ctx.Done():
		task.release(nil)
		return context.Cause(s.sink.ctx)
	}
}

// chunk returns the pending elements as an array, and owns them no more.
func (s *arrayStream) chunk() (*ndview.NDBuffer, error) {
	rows := int64(len(s.pending)) / s.width
	buf, err := arrowbuf.BufferOf(memory.NewBufferBytes(s.pending))
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	s.pending = nil
	return ndview.FromBuffer(buf, s.dtype, 0, append([]int64{rows}, s.row...), nil)
}

// create creates the array.
func (s *arrayStream) create() (err error) {
	if s.array != nil {
		return nil
	}
	t := element.Of(s.dtype)
	m := s.sink.builder.metadata(t, s.row, s.sink.column.plan.codecs.compressors(s.name, s.class, t))
	if s.fill != nil {
		m.FillValue = s.fill
	}
	s.array, err = s.sink.builder.newArray(s.sink.path+"/"+s.name, m)
	return err
}

// finish writes the last chunk. The context of the stages has ended by then.
func (s *arrayStream) finish(ctx context.Context) error {
	if s.sink.automatic && s.sent == 0 && s.array == nil {
		defer func(rows int64) { s.sink.builder.grid.chunkRows = rows }(s.sink.builder.grid.chunkRows)
		s.sink.builder.grid.chunkRows = max(s.length, 1)
	}
	if err := s.create(); err != nil {
		return err
	}
	if len(s.pending) > 0 {
		values, err := s.chunk()
		if err != nil {
			return err
		}
		defer values.Release()
		if err := s.array.write(ctx, s.sent, values); err != nil {
			return err
		}
		s.sink.builder.progress.raw.Add(values.NBytes())
	}
	if err := s.array.finish(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}
