package ipc

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Schema is that of a table or a stream.
func (c *Catalog) Schema(name string) (*arrow.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.find(name, KindTable, KindStream)
	if err != nil {
		return nil, err
	}
	if p.stream != nil {
		return p.stream.schema, nil
	}
	return p.schema, nil
}

// Reader returns a reader of the batches of a table, or of those that are written
// to a stream from now on, until its end or that of the context. The batches are
// where they were published. The caller releases the reader.
func (c *Catalog) Reader(ctx context.Context, name string) (array.RecordReader, error) {
	schema, batches, err := c.Table(name)
	if err == nil {
		return arrowbuf.NewReaderFunc(schema, func() (arrow.RecordBatch, error) {
			if len(batches) == 0 {
				return nil, io.EOF
			}
			batch := batches[0]
			batches = batches[1:]
			return batch, nil
		}, func() {
			for _, batch := range batches {
				batch.Release()
			}
		}), nil
	}
	if !errors.Is(err, ErrWrongKind) {
		return nil, err
	}
	feed, err := c.Subscribe(name)
	if err != nil {
		return nil, err
	}
	return arrowbuf.NewReaderFunc(feed.Schema(), func() (arrow.RecordBatch, error) {
		batch, _, err := feed.Next(ctx)
		if errors.Is(err, ErrClosed) {
			return nil, io.EOF
		}
		return batch, err
	}, feed.Close), nil
}
