package arrowzarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// checkpoint is what a conversion writes from time to time: how far it is. A conversion
// that is resumed goes on from there.
type checkpoint struct {
	Number int        `json:"number"`
	State  tableState `json:"state"`
	Pieces []piece    `json:"pieces,omitempty"` // of chunks that are not full
	// Categories are the keys of the values of dictionaries, in their order.
	Categories []string `json:"categories,omitempty"`
	// Complete reports whether everything is written but the metadata.
	Complete bool `json:"complete,omitempty"`
}

// folder is the prefix of the pieces of the checkpoint.
func (c *checkpoint) folder() string { return fmt.Sprintf("%s/pieces/%d", workPrefix, c.Number) }

// checkpointer is a stage beside the others: it writes a checkpoint when all chunks that
// belong to it are written. A nil checkpointer writes none.
type checkpointer struct {
	work     store.Store
	interval time.Duration
	writer   *writer
	last     *checkpoint // that was written; nil before the first
	lastTime time.Time   // when rows were marked
	current  *epoch      // of the chunks that are sent now
	marks    chan *mark
	saved    []string // keys of categories
}

// epoch counts the chunks that were sent between two marks and are not written.
type epoch struct {
	left    atomic.Int64 // and 1 until the mark
	written chan struct{}
}

func newEpoch() *epoch {
	e := &epoch{written: make(chan struct{})}
	e.left.Store(1)
	return e
}

// add counts n chunks that are sent. A nil epoch counts nothing.
func (e *epoch) add(n int64) {
	if e != nil {
		e.left.Add(n)
	}
}

// finish counts a chunk that was written.
func (e *epoch) finish() {
	if e != nil && e.left.Add(-1) == 0 {
		close(e.written)
	}
}

// mark is a place in the input, with what the stages before the writer know of the rows
// before it.
type mark struct {
	epoch   *epoch
	state   tableState // without what the writer knows
	pending []pendingPiece
	deltas  []categoryDelta
}

// pendingPiece is a piece and its content.
type pendingPiece struct {
	piece
	value []byte
}

// epochOf returns the epoch of chunks that are sent now.
func (c *checkpointer) epochOf() *epoch {
	if c == nil {
		return nil
	}
	return c.current
}

// isDue reports whether to mark the rows.
func (c *checkpointer) isDue() bool { return c != nil && time.Since(c.lastTime) >= c.interval }

// mark marks the rows that were sent. The next chunks belong to the next checkpoint.
func (c *checkpointer) mark(ctx context.Context, m *mark) error {
	c.lastTime = time.Now()
	m.epoch, c.current = c.current, newEpoch()
	m.epoch.finish()
	select {
	case c.marks <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run writes the checkpoints, until there are no more marks.
func (c *checkpointer) run(ctx context.Context) error {
	for m := range c.marks {
		select {
		case <-m.epoch.written:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := c.write(ctx, m, false); err != nil {
			return partErrorf(PartOutput, "writing a checkpoint: %w", err)
		}
	}
	return nil
}

// write writes the checkpoint of a mark, whose chunks are written.
func (c *checkpointer) write(ctx context.Context, m *mark, complete bool) error {
	if err := flushStore(ctx, c.writer.store); err != nil {
		return err
	}
	next := &checkpoint{State: m.state, Complete: complete}
	if c.last != nil {
		next.Number = c.last.Number + 1
	}
	for i, s := range c.writer.state() {
		// Later rows may have set them already. They will be read again, so no harm is
		// done.
		next.State.Columns[i].Missing = s.Missing
		next.State.Columns[i].ElementMissing = s.ElementMissing
	}
	next.State.RawBytes, next.State.Stored = c.writer.progress.raw.Load(), c.writer.stats.write.total()
	for _, d := range m.deltas {
		var err error
		if c.saved, err = d.write(ctx, c.work, c.saved); err != nil {
			return err
		}
	}
	next.Categories = slices.Clone(c.saved)
	for _, p := range m.pending {
		if err := c.work.Set(ctx, p.key(next.folder()), p.value); err != nil {
			return err
		}
		next.Pieces = append(next.Pieces, p.piece)
	}
	document, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := c.work.Set(ctx, checkpointKey, document); err != nil {
		return err
	}
	before := c.last
	c.last = next
	if before != nil {
		return store.DeleteAll(ctx, c.work, before.folder())
	}
	return nil
}

// readCheckpoint returns the last checkpoint of an unfinished output, or nil if it has
// none.
func readCheckpoint(ctx context.Context, work store.Store) (*checkpoint, error) {
	document, err := work.Get(ctx, checkpointKey, store.Range{})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &checkpoint{}
	if err := json.Unmarshal(document, c); err != nil {
		return nil, fmt.Errorf("%s: %w", checkpointKey, err)
	}
	return c, nil
}
