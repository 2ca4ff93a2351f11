package ipc_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

func TestAClientInThisProcessGetsTheBatches(t *testing.T) {
	dev := cudatest.NewDevice(t)
	for _, m := range []handle.Mechanism{handle.Local, handle.CUDAFD, handle.Memory} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, nil)
		b.Field(1).(*array.StringBuilder).AppendValues([]string{"a", "bb", "ccc"}, nil)
		host := b.NewRecordBatch()
		batch, err := arrowbuf.CopyTo(host, dev)
		require.NoError(t, err)
		catalog := ipc.NewCatalog()
		require.NoError(t, catalog.PublishTable("t", schema, []arrow.RecordBatch{batch, batch}))
		batch.Release()
		s, err := ipc.Serve(filepath.Join(t.TempDir(), "socket"), catalog, ipc.ServerOptions{})
		require.NoError(t, err)
		c, err := ipc.Dial(ctx, s.Path(), ipc.DialOptions{Devices: []*cudabuf.Device{dev}, Mechanisms: handle.Mechanisms{m}})
		require.NoError(t, err)
		table, err := c.Table(ctx, "t")
		require.NoError(t, err)
		for _, got := range table.Batches {
			back, err := arrowbuf.CopyTo(got, arrowbuf.CPU())
			require.NoError(t, err)
			require.True(t, array.RecordEqual(host, back), "%v", back)
			back.Release()
		}
		table.Release()
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
		catalog.Close()
	}
}
