package arrowbuf_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// randomBatch returns a batch that is released at the end of the test.
func randomBatch(t testing.TB, mem memory.Allocator, rows int, types ...arrow.DataType) arrow.RecordBatch {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(rows)))
	fields := make([]arrow.Field, len(types))
	columns := make([]arrow.Array, len(types))
	for i, dtype := range types {
		fields[i] = arrow.Field{Name: string(rune('a'+i%26)) + strings.Repeat("'", i/26), Type: dtype, Nullable: true}
		columns[i] = randomArray(t, mem, rng, dtype, rows, i%2 == 0)
		defer columns[i].Release()
	}
	made := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
	t.Cleanup(made.Release)
	return made
}

// copyBatch copies a batch to dev.
func copyBatch(t testing.TB, b arrow.RecordBatch, dev arrowbuf.Device) *arrowbuf.RecordBatch {
	t.Helper()
	moved, err := arrowbuf.CopyTo(b, dev)
	require.NoError(t, err)
	require.IsType(t, (*arrowbuf.RecordBatch)(nil), moved)
	return moved.(*arrowbuf.RecordBatch)
}

func requireSameBatch(t testing.TB, host arrow.RecordBatch, moved *arrowbuf.RecordBatch) {
	t.Helper()
	back, err := arrowbuf.ToHost(moved)
	require.NoError(t, err)
	defer back.Release()
	require.True(t, host.Schema().Equal(back.Schema()))
	require.Equal(t, host.NumRows(), back.NumRows())
	for i, want := range host.Columns() {
		require.True(t, array.Equal(want, back.Column(i)), "column %d, %s: want %v\ngot %v", i, want.DataType(), want, back.Column(i))
	}
}

// alloc returns a buffer with bytes 0, 1, 2, ..., released with the test.
func alloc(t *testing.T, dev arrowbuf.Device, n int) arrowbuf.Buffer {
	t.Helper()
	b, err := dev.Alloc(int64(n))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	_, err = b.CopyFromHost(sequence(0, n), 0)
	require.NoError(t, err)
	return b
}

func sequence(from, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(from + i)
	}
	return out
}

func contents(t *testing.T, b arrowbuf.Buffer) []byte {
	t.Helper()
	out := make([]byte, b.Len())
	n, err := b.CopyToHost(out, 0)
	require.NoError(t, err)
	require.EqualValues(t, len(out), n)
	return out
}

// allTypes has at least one type of each layout.
var allTypes = arraytest.Types

func randomArray(t testing.TB, mem memory.Allocator, rng *rand.Rand, dtype arrow.DataType, n int, nulls bool) arrow.Array {
	t.Helper()
	return arraytest.Random(t, mem, rng, dtype, n, nulls)
}

// countingDevice counts the calls of another device, and can fail. For CopyTo it is
// a device of its own.
type countingDevice struct {
	arrowbuf.Device
	allocs, up, down      atomic.Int64 // calls
	bytesUp, bytesDown    atomic.Int64
	failAlloc, failCopies atomic.Bool
}

var errBroken = errors.New("the device is broken")

func counted(dev arrowbuf.Device) *countingDevice { return &countingDevice{Device: dev} }

// onDevices runs a test on a countingDevice of each kind. The test fails if it leaks
// memory, or releases it too often.
func onDevices(t *testing.T, test func(t *testing.T, dev *countingDevice)) {
	t.Helper()
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { test(t, counted(arrowbuftest.Checked(t, dev))) })
}

func (d *countingDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	if d.failAlloc.Load() {
		return nil, arrowbuf.ErrOutOfMemory
	}
	d.allocs.Add(1)
	return d.wrap(d.Device.Alloc(n))
}

func (d *countingDevice) wrap(b arrowbuf.Buffer, err error) (arrowbuf.Buffer, error) {
	if err != nil {
		return nil, err
	}
	return &countingBuffer{b, d}, nil
}

type countingBuffer struct {
	arrowbuf.Buffer
	dev *countingDevice
}

func (b *countingBuffer) Device() arrowbuf.Device { return b.dev }
func (b *countingBuffer) Arrow() *memory.Buffer   { return arrowbuf.WrapArrow(b) }

func (b *countingBuffer) Slice(offset, n int64) (arrowbuf.Buffer, error) {
	return b.dev.wrap(b.Buffer.Slice(offset, n))
}

func (b *countingBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	if b.dev.failCopies.Load() {
		return 0, errBroken
	}
	b.dev.up.Add(1)
	b.dev.bytesUp.Add(int64(len(src)))
	return b.Buffer.CopyFromHost(src, pos)
}

func (b *countingBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	if b.dev.failCopies.Load() {
		return 0, errBroken
	}
	b.dev.down.Add(1)
	b.dev.bytesDown.Add(int64(len(dst)))
	return b.Buffer.CopyToHost(dst, pos)
}

func (b *countingBuffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	return b.Buffer.CopyFromDevice(uncounted(src), pos)
}

func (b *countingBuffer) Equal(other arrowbuf.Buffer) (bool, error) {
	return b.Buffer.Equal(uncounted(other))
}

func uncounted(b arrowbuf.Buffer) arrowbuf.Buffer {
	if c, ok := b.(*countingBuffer); ok {
		return c.Buffer
	}
	return b
}
