//go:build linux

package ipc_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowgo "github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

// forEachBenchMachine runs a benchmark on the machine's GPU if tests run there.
// Otherwise it runs it on the CPU device and on a simulated device, which
// measures the cost of the protocol.
func forEachBenchMachine(b *testing.B, run func(b *testing.B, m machine)) {
	if !cudatest.OnGPU() {
		b.Run("cpu", func(b *testing.B) { run(b, machine{kind: "cpu"}) })
		b.Run("simulated", func(b *testing.B) { run(b, machine{kind: "simulated", dev: cudatest.NewDevice(b)}) })
		return
	}
	b.Run("cuda", func(b *testing.B) {
		d, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, d.Close()) })
		dev, err := d.Device(0)
		require.NoError(b, err)
		run(b, machine{kind: "cuda", dev: dev})
	})
}

// size returns the size of the shared batch: 1 GiB on a GPU.
func (m machine) size() int64 {
	if m.kind == "cuda" {
		return 1 << 30
	}
	return 64 << 20
}

const wideColumns = 64

// wide returns a batch of 64 columns on the host.
func wide(size int64) arrow.RecordBatch {
	rows := int(size / wideColumns / 8)
	fields, columns := make([]arrow.Field, wideColumns), make([]arrow.Array, wideColumns)
	for i := range columns {
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: arrow.PrimitiveTypes.Int64}
		values := memory.NewBufferBytes(make([]byte, 8*rows))
		data := array.NewData(arrow.PrimitiveTypes.Int64, rows, []*memory.Buffer{nil, values}, nil, 0, 0)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
}

// Wide describes a batch to serve.
type Wide struct {
	Path   string
	Size   int64
	Pooled bool
}

// ServeWide serves a table "wide" of one batch.
func (p *Peer) ServeWide(w Wide, _ *int) error {
	options, err := p.toPool(w.Pooled)
	if err != nil {
		return err
	}
	host := wide(w.Size)
	defer host.Release()
	b, err := arrowbuf.CopyTo(host, p.device)
	if err != nil {
		return err
	}
	defer b.Release()
	p.catalog = ipc.NewCatalog()
	if err := p.catalog.PublishTable("wide", b.Schema(), []arrow.RecordBatch{b}, options...); err != nil {
		return err
	}
	p.server, err = ipc.Serve(w.Path, p.catalog, ipc.ServerOptions{})
	return err
}

// ServeSocket writes a batch of the host to each client with arrow-go's IPC
// writer.
func (p *Peer) ServeSocket(w Wide, _ *int) error {
	l, err := net.Listen("unix", w.Path)
	if err != nil {
		return err
	}
	host := wide(w.Size)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out := arrowgo.NewWriter(c, arrowgo.WithSchema(host.Schema()))
			_ = out.Write(host)
			_, _ = out.Close(), c.Close()
		}
	}()
	return nil
}

// BenchmarkShare reads a batch of 64 columns, 1 GiB on a GPU, from another
// process. "first" uses a new connection, which opens the memory; in "cached" it
// is open already.
func BenchmarkShare(b *testing.B) {
	for _, way := range []handle.Mechanism{handle.CUDAFD, handle.CUDAPool, handle.CUDAIPC, handle.Memory} {
		for _, cached := range []bool{false, true} {
			name := map[bool]string{false: "first", true: "cached"}[cached]
			b.Run(fmt.Sprintf("%s/%v", name, way), func(b *testing.B) {
				forEachBenchMachine(b, func(b *testing.B, m machine) { share(b, m, way, cached) })
			})
		}
	}
}

func share(b *testing.B, m machine, way handle.Mechanism, cached bool) {
	if m.dev == nil && way.OnGPU() {
		b.Skip("needs a GPU")
	}
	p := startPeer(b, m)
	path := ipctest.TempDir(b) + "/s"
	p.mustCall("ServeWide", Wide{path, m.size(), way == handle.CUDAPool})
	ctx := context.Background()
	connect := func() *ipc.Client {
		c, err := ipc.Dial(ctx, path, ipc.DialOptions{Devices: m.gpus(), Mechanisms: onlyMechanism(way)})
		require.NoError(b, err)
		return c
	}
	get := func(c *ipc.Client) *ipc.Table {
		t, err := c.Table(ctx, "wide")
		require.NoError(b, err)
		require.Len(b, t.Batches, 1)
		return t
	}
	c := connect() // the server copies the batch for the first client
	get(c).Release()
	stat, err := c.Stat(ctx)
	require.NoError(b, err)
	require.Equal(b, way, stat.Blocks[0].Mechanism)
	for b.Loop() {
		if !cached {
			b.StopTimer()
			require.NoError(b, c.Close())
			c = connect()
			b.StartTimer()
		}
		t := get(c)
		b.StopTimer()
		t.Release()
		b.StartTimer()
	}
	require.NoError(b, c.Close())
}

// BenchmarkSocket reads the same batch with arrow-go's IPC over a Unix socket and
// copies it to the device.
func BenchmarkSocket(b *testing.B) {
	forEachBenchMachine(b, func(b *testing.B, m machine) {
		p := startPeer(b, m)
		path := ipctest.TempDir(b) + "/s"
		p.mustCall("ServeSocket", Wide{Path: path, Size: m.size()})
		b.SetBytes(m.size())
		for b.Loop() {
			c, err := net.Dial("unix", path)
			require.NoError(b, err)
			r, err := arrowgo.NewReader(c, arrowgo.WithAllocator(m.device().HostAllocator()))
			require.NoError(b, err)
			require.True(b, r.Next(), "%v", r.Err())
			got, err := arrowbuf.CopyTo(r.RecordBatch(), m.device())
			require.NoError(b, err)
			got.Release()
			r.Release()
			require.NoError(b, c.Close())
		}
	})
}

// Receive names a stream of which Peer.Receive records the arrival times of n
// batches.
type Receive struct {
	Name string
	N    int
}

func (p *Peer) Receive(r Receive, times *[]int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := p.client.Stream(ctx, r.Name, 64)
	if err != nil {
		return err
	}
	defer s.Close()
	for range r.N {
		b, err := s.Next(ctx)
		if err != nil {
			return err
		}
		*times = append(*times, time.Now().UnixNano())
		b.Release()
	}
	return nil
}

// BenchmarkStream writes 10,000 batches per second, of 4 columns of 100 rows, to
// 4 processes. An operation is a batch; p99-us is its latency.
func BenchmarkStream(b *testing.B) {
	forEachBenchMachine(b, func(b *testing.B, m machine) {
		catalog, s := ipctest.Serve(b, ipc.ServerOptions{})
		batch, err := arrowbuf.CopyTo(small(), m.device())
		require.NoError(b, err)
		defer batch.Release()
		stream, err := catalog.NewStream("stream", batch.Schema(), ipc.StreamOptions{Depth: 64})
		require.NoError(b, err)
		const readers, every = 4, 95 * time.Microsecond // slightly more than 10,000 per second
		came := make([][]int64, readers)
		var reading sync.WaitGroup
		const warm = 100 // batches before the measurement
		n := max(b.N, 100)
		for i := range readers {
			p := startPeer(b, m)
			p.mustCall("Dial", Dial{Path: s.Path()})
			reading.Go(func() {
				call := <-p.client.Go("Peer.Receive", Receive{"stream", warm + n}, &came[i], nil).Done
				if call.Error != nil {
					b.Error(call.Error)
				}
			})
		}
		ctx := context.Background()
		require.NoError(b, stream.WaitSubscribers(ctx, readers))
		for range warm {
			require.NoError(b, stream.Write(ctx, batch))
			time.Sleep(time.Millisecond)
		}
		sent := make([]int64, n)
		b.ResetTimer()
		begin := time.Now()
		for i := range sent {
			for due := begin.Add(time.Duration(i) * every); ; {
				left := time.Until(due)
				if left <= 0 {
					break
				}
				time.Sleep(left)
			}
			sent[i] = time.Now().UnixNano()
			require.NoError(b, stream.Write(ctx, batch))
		}
		reading.Wait()
		took := time.Since(begin)
		b.StopTimer()
		var waits []float64
		for _, times := range came {
			for i, at := range times[min(warm, len(times)):] {
				waits = append(waits, float64(at-sent[i])/1e3)
			}
		}
		slices.Sort(waits)
		require.NoError(b, stream.Close())
		if len(waits) == 0 {
			b.Fatal("no batch arrived")
		}
		b.ReportMetric(waits[len(waits)*99/100], "p99-us")
		b.ReportMetric(waits[len(waits)/2], "p50-us")
		b.ReportMetric(float64(n)/took.Seconds(), "batches/s")
	})
}

func small() arrow.RecordBatch {
	const rows = 100
	fields, columns := make([]arrow.Field, 4), make([]arrow.Array, 4)
	for i := range columns {
		values := array.NewFloat64Builder(memory.DefaultAllocator)
		values.AppendValues(make([]float64, rows), nil)
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: arrow.PrimitiveTypes.Float64}
		columns[i] = values.NewArray()
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rows)
}
