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

// ShardWriter writes one shard chunk by chunk, so that memory never holds the whole
// shard. Every ShardWriter must be finished with Close or Abort. Its methods may be
// called concurrently.
type ShardWriter struct {
	array  *Array
	chain  *codec.Chain
	layout *codec.ShardLayout
	key    string

	mu     sync.Mutex
	out    store.Writer // nil until the first chunk is stored
	offset int64        // of the next chunk in the shard
	index  *codec.ShardIndex
	err    error // the first error of WriteChunk; Close returns it
	closed bool
}

var errShardClosed = errors.New("shard is closed or aborted")

// NewShardWriter begins the shard at an index of the shard grid. Close replaces an earlier shard
// at that index. It returns an error wrapping errors.ErrUnsupported unless the
// array's only codec is codec.Sharding.
func (a *Array) NewShardWriter(ctx context.Context, index []int64) (*ShardWriter, error) {
	if err := errors.Join(a.checkWritable(), a.checkIndex(index)); err != nil {
		return nil, err
	}
	chain, err := a.chainFor(index)
	if err != nil {
		return nil, err
	}
	shards, ok := chain.ShardLayout()
	if !ok {
		return nil, fmt.Errorf("array %q: codecs are not sharding_indexed alone: %w", a.path, errors.ErrUnsupported)
	}
	return &ShardWriter{array: a, chain: chain, layout: shards, key: a.chunkKey(index), index: shards.NewIndex()}, ctx.Err()
}

// WriteChunk adds the chunk at an index within the shard, as [Array.WriteChunk] does.
// Concurrent calls must have different indices. Chunks are stored in the order in which
// their encoding finishes.
func (w *ShardWriter) WriteChunk(ctx context.Context, index []int64, v element.Values) error {
	if err := w.checkIndex(index); err != nil {
		return err
	}
	s := w.array.scratch()
	defer s.Release()
	enc, err := w.array.Trace.encode(w.layout.ChunkChain(), s, v)
	if err != nil {
		return fmt.Errorf("shard %q: chunk %v: %w", w.key, index, err)
	}
	return w.addEncoded(ctx, index, enc, w.array.pieceSize(w.layout.ChunkChain()))
}

// addEncoded adds an encoded chunk in pieces of at most some bytes. Nil means a chunk of fill
// values.
func (w *ShardWriter) addEncoded(ctx context.Context, index []int64, enc []byte, piece int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return fmt.Errorf("shard %q: %w", w.key, errShardClosed)
	case w.err != nil:
		return w.err
	case enc == nil:
		w.index.Delete(index)
		return nil
	}
	if w.err = w.appendChunk(ctx, index, enc, piece); w.err != nil {
		w.err = fmt.Errorf("shard %q: chunk %v: %w", w.key, index, w.err)
	}
	return w.err
}

// appendChunk appends an encoded chunk in pieces.
func (w *ShardWriter) appendChunk(ctx context.Context, index []int64, enc []byte, piece int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.array.Trace.store(len(enc), func() error {
		if w.out == nil {
			if err := w.open(ctx); err != nil {
				return err
			}
		}
		if err := writePieces(w.out, enc, piece); err != nil {
			return err
		}
		w.index.Set(index, w.offset, int64(len(enc)))
		w.offset += int64(len(enc))
		return nil
	})
}

// open creates the value and reserves space for an index at the start.
func (w *ShardWriter) open(ctx context.Context) (err error) {
	// The context of this chunk may end before Close commits the shard.
	if w.out, err = store.Create(context.WithoutCancel(ctx), w.array.store, w.key); err != nil {
		w.out = nil
		return err
	}
	if w.layout.IndexLocation() == codec.Start {
		w.offset = w.layout.IndexSize()
		_, err = w.out.Write(make([]byte, w.offset))
	}
	return err
}

// Close writes the index and makes the shard visible. A shard without chunks is
// deleted. If WriteChunk has failed, Close aborts the shard and returns that error.
func (w *ShardWriter) Close(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("shard %q: %w", w.key, errShardClosed)
	}
	err := w.err
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, w.abortLocked())
	}
	if w.index.Empty() {
		return errors.Join(w.abortLocked(), w.array.replaceChunk(ctx, w.key, nil, wholePiece))
	}
	if err := w.writeIndex(); err != nil {
		return errors.Join(fmt.Errorf("shard %q: index: %w", w.key, err), w.abortLocked())
	}
	w.closed = true
	return w.array.shards.replace(w.key, w.out.Commit)
}

func (w *ShardWriter) writeIndex() error {
	raw, err := w.index.Encode()
	if err != nil {
		return err
	}
	return w.array.Trace.store(len(raw), func() error {
		if w.layout.IndexLocation() == codec.Start {
			_, err = w.out.WriteAt(raw, 0)
		} else {
			_, err = w.out.Write(raw)
		}
		return err
	})
}

// Abort discards the shard and keeps an earlier one at its index. After Close it does
// nothing.
func (w *ShardWriter) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.abortLocked()
}

func (w *ShardWriter) abortLocked() error {
	if w.closed || w.out == nil {
		w.closed = true
		return nil
	}
	w.closed = true
	return w.out.Abort()
}

func (w *ShardWriter) checkIndex(index []int64) error {
	counts := w.layout.GridShape()
	ok := len(index) == len(counts)
	for i := range counts {
		ok = ok && index[i] >= 0 && index[i] < counts[i]
	}
	if !ok {
		return fmt.Errorf("shard %q: chunk %v is outside grid %v", w.key, index, counts)
	}
	return nil
}
