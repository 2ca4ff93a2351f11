package zarr

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// ShardWriter writes one shard as its chunks come, so that the shard is never
// whole in memory. It ends with Close or Abort.
type ShardWriter struct {
	array  *Array
	shards *codec.Shards
	key    string

	mu     sync.Mutex
	out    store.Writer // nil until the first chunk that is stored
	at     int64        // where the next chunk goes
	index  *codec.ShardIndex
	failed error // what keeps the shard from being closed
	done   bool
}

var errShardEnded = errors.New("the shard was closed or aborted already")

// Shard begins the shard with the given place in the grid of shards. Chunks
// that an earlier shard in this place has are gone once it closes. For arrays
// that are not sharded, and for those whose metadata has codecs before or after
// the sharding, it is an error that is errors.ErrUnsupported.
func (a *Array) Shard(ctx context.Context, index []int64) (*ShardWriter, error) {
	if err := a.checkIndex(index); err != nil {
		return nil, err
	}
	shards, ok := a.chain.Shards()
	if !ok {
		return nil, fmt.Errorf("array %q: its only codec is not sharding_indexed: %w", a.path, errors.ErrUnsupported)
	}
	return &ShardWriter{array: a, shards: shards, key: a.chunkKey(index), index: shards.NewIndex()}, ctx.Err()
}

// WriteChunk adds the chunk with the given place in the shard, under the rules
// of Array.WriteChunk. It may be called from several goroutines at once, each
// with a chunk of its own; chunks lie in the shard in the order in which they
// are encoded.
func (w *ShardWriter) WriteChunk(ctx context.Context, index []int64, v element.Values) error {
	if err := w.checkIndex(index); err != nil {
		return err
	}
	s := w.array.scratch()
	defer s.Release()
	enc, err := w.array.Trace.encode(w.shards.Inner(), s, v)
	if err != nil {
		return fmt.Errorf("shard %q: chunk %v: %w", w.key, index, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.done:
		return fmt.Errorf("shard %q: %w", w.key, errShardEnded)
	case w.failed != nil:
		return w.failed
	case enc == nil:
		w.index.Unset(index)
		return nil
	}
	if w.failed = w.add(ctx, index, enc); w.failed != nil {
		w.failed = fmt.Errorf("shard %q: chunk %v: %w", w.key, index, w.failed)
	}
	return w.failed
}

// add appends an encoded chunk.
func (w *ShardWriter) add(ctx context.Context, index []int64, enc []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.array.Trace.store(len(enc), func() error {
		if w.out == nil {
			if err := w.begin(ctx); err != nil {
				return err
			}
		}
		if _, err := w.out.Write(enc); err != nil {
			return err
		}
		w.index.Set(index, w.at, int64(len(enc)))
		w.at += int64(len(enc))
		return nil
	})
}

// begin leaves room for an index at the start.
func (w *ShardWriter) begin(ctx context.Context) (err error) {
	if w.out, err = w.array.store.Create(ctx, w.key); err != nil {
		w.out = nil
		return err
	}
	if w.shards.Location() == codec.Start {
		w.at = w.shards.IndexSize()
		_, err = w.out.Write(make([]byte, w.at))
	}
	return err
}

// Close writes the index and makes the shard appear. A shard without chunks is
// not stored, and removed where it was. After an error of WriteChunk it aborts
// and answers that error.
func (w *ShardWriter) Close(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return fmt.Errorf("shard %q: %w", w.key, errShardEnded)
	}
	err := w.failed
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, w.abort())
	}
	if w.index.Empty() {
		return errors.Join(w.abort(), w.array.store.Delete(ctx, w.key))
	}
	if err := w.writeIndex(); err != nil {
		return errors.Join(fmt.Errorf("shard %q: index: %w", w.key, err), w.abort())
	}
	w.done = true
	return w.out.Commit()
}

func (w *ShardWriter) writeIndex() error {
	raw, err := w.index.Encode()
	if err != nil {
		return err
	}
	return w.array.Trace.store(len(raw), func() error {
		if w.shards.Location() == codec.Start {
			_, err = w.out.WriteAt(raw, 0)
		} else {
			_, err = w.out.Write(raw)
		}
		return err
	})
}

// Abort drops the shard; an earlier one in its place stays. After Close it does
// nothing.
func (w *ShardWriter) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.abort()
}

func (w *ShardWriter) abort() error {
	if w.done || w.out == nil {
		w.done = true
		return nil
	}
	w.done = true
	return w.out.Abort()
}

func (w *ShardWriter) checkIndex(index []int64) error {
	counts := w.shards.Counts()
	ok := len(index) == len(counts)
	for i := range counts {
		ok = ok && index[i] >= 0 && index[i] < counts[i]
	}
	if !ok {
		return fmt.Errorf("shard %q: chunk %v of a grid of %v", w.key, index, counts)
	}
	return nil
}
