package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// prefetcher is the first stage of the pipeline: it reads the source one batch
// ahead of the consumer, as far as the share of the batches allows.
type prefetcher struct {
	src    source.Source
	input  string // as errors name it
	fields []int  // of the schema, to read
	rows   source.RowRange
	host   *hostAllocator
	memory *batchMemory
	stats  *stageStats

	largest int64              // bytes of the largest batch so far
	demands chan int64         // bytes of the consumer's pending batches
	batches chan prefetchBatch // the output
	stopped chan struct{}      // closed when reading has ended; nil if it never began
	err     error              // why it ended; valid after stopped is closed
}

// prefetchBatch is a batch and how far the input is read with it. The consumer owns
// the batch, and must release its bytes of batchMemory when its memory is free.
type prefetchBatch struct {
	source.Batch
	position, size int64 // of the input, in bytes
}

func newPrefetcher(src source.Source, input string, fields []int, rows source.RowRange, host *hostAllocator, m *batchMemory, stats *stageStats) *prefetcher {
	return &prefetcher{
		src: src, input: input, fields: fields, rows: rows, host: host, memory: m, stats: stats,
		demands: make(chan int64, 1), batches: make(chan prefetchBatch),
	}
}

// start begins reading in a goroutine that no one waits for: a read that blocks (a
// terminal, a stuck pipe) must not keep a cancelled conversion from returning.
func (p *prefetcher) start(ctx context.Context) {
	p.stopped = make(chan struct{})
	go func() {
		defer close(p.stopped)
		debug.SetPanicOnFault(true) // see startStage
		err := arrowdata.CatchPanic(func() error { return p.src.Open(ctx, p.fields, p.rows) })
		for err == nil {
			err = p.readBatch(ctx)
		}
		if !errors.Is(err, io.EOF) {
			err = markPart(p.host.partOf(err), fmt.Errorf("%s: %w", p.input, err))
		}
		p.err = err
	}()
}

// readBatch reads a batch and sends it. Memory is reserved before the read for a
// batch like the largest so far, because a batch takes its memory as it is read.
func (p *prefetcher) readBatch(ctx context.Context) error {
	d := &demand{pending: p.demands}
	reserved, err := p.memory.reserve(ctx, p.largest, d)
	if err != nil {
		return err
	}
	start := time.Now()
	var b prefetchBatch
	if b.Batch, err = p.src.Next(); err != nil {
		p.memory.release(reserved)
		return err
	}
	p.largest = max(p.largest, b.Bytes)
	p.stats.record(arrowdata.BatchBytes(b.Record, arrowdata.BufferLen), time.Since(start))
	b.position, b.size = p.src.Position()
	if err := p.memory.resize(ctx, reserved, b.Bytes, d); err != nil {
		b.Record.Release()
		p.memory.release(reserved)
		return err
	}
	if err = d.wait(ctx); err == nil {
		select {
		case p.batches <- b:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	b.Record.Release()
	p.memory.release(b.Bytes)
	return err
}

// next returns the next batch, or io.EOF. pendingBytes is the size of the batches
// that the consumer cannot release before it has the next one.
func (p *prefetcher) next(ctx context.Context, pendingBytes int64) (b prefetchBatch, err error) {
	select {
	case p.demands <- pendingBytes:
	case <-ctx.Done():
		return b, context.Cause(ctx)
	}
	select {
	case b = <-p.batches:
		return b, nil
	case <-p.stopped:
		return b, p.err
	case <-ctx.Done():
		return b, context.Cause(ctx)
	}
}

// close closes the source. If a read is blocked and cannot be interrupted, the
// source is closed when the read returns.
func (p *prefetcher) close() error {
	if p.stopped == nil {
		return p.src.Close()
	}
	select {
	case <-p.stopped:
		return p.src.Close()
	default:
	}
	if p.src.Interrupt() {
		<-p.stopped
		return p.src.Close()
	}
	go func() {
		<-p.stopped
		_ = p.src.Close() // the conversion has returned: there is no caller to tell
	}()
	return nil
}
