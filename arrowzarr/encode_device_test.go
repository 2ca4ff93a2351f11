package arrowzarr_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// countingReader yields a number of batches, and counts them.
type countingReader struct {
	array.RecordReader
	batch arrow.RecordBatch
	limit int64
	read  atomic.Int64
}

func (r *countingReader) Retain()                        {}
func (r *countingReader) Release()                       {}
func (r *countingReader) Schema() *arrow.Schema          { return r.batch.Schema() }
func (r *countingReader) Next() bool                     { return r.read.Add(1) <= r.limit }
func (r *countingReader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *countingReader) Err() error                     { return nil }

// The rest of the input is not read, which may take hours.
func TestAStoreThatFailsEndsAConversionOnADeviceSoon(t *testing.T) {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range int32(4096) {
		b.Append(i * 7)
	}
	column := b.NewArray()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int32}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, 4096)
	defer batch.Release()
	full := errors.New("no space left")
	o, url := newObjects(t)
	o.fail = func(key string) error {
		if strings.Contains(key, "/c/") {
			return full
		}
		return nil
	}
	r := &countingReader{batch: batch, limit: 10000}
	_, err := arrowzarr.ConvertReader(t.Context(), r, url, arrowzarr.Options{Device: cudatest.NewDevice(t), ChunkRows: 4096, Codec: arrowzarr.Codec{Name: "zstd", Level: 1}})
	require.ErrorIs(t, err, full)
	require.Less(t, r.read.Load(), r.limit)
}
