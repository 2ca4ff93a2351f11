//go:build linux

package ipc_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// machine describes where a test runs: without a GPU ("cpu"), on a simulated
// device, or on a GPU ("cuda").
type machine struct {
	kind string
	dev  *cudabuf.Device     // nil without a GPU
	pool *cudabuf.SharedPool // where its memory is allocated, if not on dev
}

// forEachMachine runs a test on each kind of machine.
func forEachMachine(t *testing.T, test func(t *testing.T, m machine)) {
	t.Run("cpu", func(t *testing.T) { test(t, machine{kind: "cpu"}) })
	forEachGPU(t, test)
}

func forEachGPU(t *testing.T, test func(t *testing.T, m machine)) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		test(t, machine{kind: ipctest.KindOf(t), dev: dev})
	})
}

func (m machine) device() arrowbuf.Device {
	switch {
	case m.dev == nil:
		return arrowbuf.CPU()
	case m.pool != nil:
		return m.pool.AsDevice()
	}
	return m.dev
}

// withMechanism returns the machine with its memory allocated so that a mechanism
// shares it.
func (m machine) withMechanism(t testing.TB, way handle.Mechanism) machine {
	t.Helper()
	if way == handle.CUDAPool {
		pool, err := m.dev.NewSharedPool()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, pool.Close()) })
		m.pool = pool
	}
	return m
}

// onlyMechanism returns the mechanisms of a client that receives all memory
// through one of them.
func onlyMechanism(way handle.Mechanism) handle.Mechanisms {
	if way == handle.CUDAPool { // memory outside the pool needs another mechanism
		return handle.Mechanisms{way, handle.CUDAFD}
	}
	return handle.Mechanisms{way}
}

// options returns the options to publish the machine's memory with.
func (m machine) options() []ipc.PublishOption {
	if m.pool == nil {
		return nil
	}
	return []ipc.PublishOption{ipc.ExposeAllocation()}
}

func (m machine) gpus() []arrowbuf.Device {
	if m.dev == nil {
		return nil
	}
	return []arrowbuf.Device{m.dev}
}

// memoryUsed returns the device memory in use by all processes.
func (m machine) memoryUsed(t testing.TB) int64 {
	t.Helper()
	if m.dev == nil {
		return 0
	}
	if m.pool != nil {
		require.NoError(t, m.pool.Trim(0))
	}
	require.NoError(t, m.dev.Trim())
	free, total, err := m.dev.MemInfo()
	require.NoError(t, err)
	return total - free
}

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "x", Type: arrow.PrimitiveTypes.Float32},
	{Name: "yes", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int16)},
	{Name: "code", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
}, nil)

// fixture returns batch i of a name. Every process generates the same batch.
func fixture(name string, i uint64) arrow.RecordBatch {
	h := fnv.New64()
	_, _ = h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(h.Sum64(), i))
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	rows := 1 + rng.IntN(500)
	codes := b.Field(5).(*array.BinaryDictionaryBuilder)
	for range rows {
		null := rng.IntN(5) == 0
		if null {
			b.Field(0).AppendNull()
			b.Field(2).AppendNull()
			b.Field(3).AppendNull()
		} else {
			b.Field(0).(*array.Int64Builder).Append(rng.Int64())
			b.Field(2).(*array.BooleanBuilder).Append(rng.IntN(2) == 0)
			b.Field(3).(*array.StringBuilder).Append(fmt.Sprint(name, rng.IntN(1e9)))
		}
		b.Field(1).(*array.Float32Builder).Append(rng.Float32())
		list := b.Field(4).(*array.ListBuilder)
		list.Append(true)
		for range rng.IntN(4) {
			list.ValueBuilder().(*array.Int16Builder).Append(int16(rng.Int32()))
		}
		if err := codes.AppendString(fmt.Sprintf("%s %d", name, rng.IntN(7))); err != nil {
			panic(err)
		}
	}
	return b.NewRecordBatch()
}

// checkFixture returns an error if a batch, on any device, differs from the
// fixture.
func checkFixture(name string, i uint64, got arrow.RecordBatch) error {
	host, err := arrowbuf.CopyTo(got, arrowbuf.CPU())
	if err != nil {
		return err
	}
	defer host.Release()
	want := fixture(name, i)
	defer want.Release()
	if want.NumRows() != host.NumRows() {
		return fmt.Errorf("rows of batch %d of %q: got %d, want %d", i, name, host.NumRows(), want.NumRows())
	}
	for c, column := range want.Columns() {
		if !array.Equal(column, host.Column(c)) {
			return fmt.Errorf("batch %d of %q: column %q: got %.200v, want %.200v", i, name, want.ColumnName(c), host.Column(c), column)
		}
	}
	return nil
}

// publishFixtures publishes a table of n batches that are allocated on a device.
func publishFixtures(catalog *ipc.Catalog, device arrowbuf.Device, name string, n int, options ...ipc.PublishOption) error {
	batches := make([]arrow.RecordBatch, n)
	for i := range batches {
		b, err := fixtureOn(device, name, uint64(i))
		if err != nil {
			return err
		}
		defer b.Release()
		batches[i] = b
	}
	return catalog.PublishTable(name, schema, batches, options...)
}

// fixtureOn returns a fixture on a device.
func fixtureOn(device arrowbuf.Device, name string, i uint64) (arrow.RecordBatch, error) {
	host := fixture(name, i)
	defer host.Release()
	return arrowbuf.CopyTo(host, device)
}

// shortContext returns a context of 5 s.
func shortContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until a condition is true, for at most 5 s.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(t, "not within 5 s: "+what)
		}
	}
}

// leasesOf returns the number of leases of a server.
func leasesOf(s *ipc.Server) (n int) {
	for _, c := range s.Stat().Clients {
		n += len(c.Leases)
	}
	return n
}

// sharedBy returns the number of blocks that a server shares through a mechanism.
func sharedBy(s *ipc.Server, way handle.Mechanism) (n int) {
	for _, b := range s.Stat().Blocks {
		if b.Mechanism == way {
			n++
		}
	}
	return n
}

// relay listens at a path and passes the frames of one connection to a server and
// back. It calls step before each frame, with the number of the frame from 1.
func relay(server, path string, step func(n int)) (string, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	go func() {
		defer func() { _ = l.Close() }()
		client, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", server)
		if err != nil {
			_ = client.Close()
			return
		}
		a, b := wire.NewConn(client.(*net.UnixConn)), wire.NewConn(to.(*net.UnixConn))
		var mu sync.Mutex
		n := 0
		pass := func(from, to *wire.Conn) {
			defer func() { _ = to.Close() }()
			for {
				f, err := from.Read()
				if err != nil {
					return
				}
				mu.Lock()
				n++
				step(n)
				mu.Unlock()
				err = to.Write(f)
				f.CloseFile()
				if err != nil {
					return
				}
			}
		}
		go pass(a, b)
		pass(b, a)
	}()
	return path, nil
}
