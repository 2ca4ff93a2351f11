package arrowbuf_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestCopyToCPUSharesHostBatch(t *testing.T) {
	mem := checked(t)
	host := randomBatch(t, mem, 20, arrow.PrimitiveTypes.Int32, arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.BinaryTypes.String)
	same, err := arrowbuf.CopyTo(host, arrowbuf.CPU())
	require.NoError(t, err)
	assert.Same(t, host, same)
	same.Release()
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		same, _ := arrowbuf.CopyTo(host, arrowbuf.CPU())
		same.Release()
	}), "allocations")
}

func TestCopyToSameDeviceSharesBatch(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyBatch(t, randomBatch(t, checked(t), 20, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String), dev)
		defer moved.Release()
		copies := dev.up.Load()
		same, err := arrowbuf.CopyTo(moved, dev)
		require.NoError(t, err)
		defer same.Release()
		assert.Same(t, moved, same)
		assert.Equal(t, copies, dev.up.Load())
	})
}

func TestCopyToBetweenDevices(t *testing.T) {
	host := randomBatch(t, checked(t), 50, allTypes...)
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		var devices [2]*cudabuf.Device
		for i := range devices {
			var err error
			devices[i], err = d.Device(i)
			require.NoError(t, err)
		}
		first := copyBatch(t, host, devices[0])
		defer first.Release()
		second := copyBatch(t, first, devices[1])
		defer second.Release()
		requireSameBatch(t, host, second)
	})
}

func TestCopyToCopiesOnlyColumnsOfOtherDevices(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
		there := copyArray(t, host.Column(0), dev)
		defer there.Release()
		mixed, err := arrowbuf.NewRecordBatch(host.Schema(), []arrow.Array{there, host.Column(1)}, 20)
		require.NoError(t, err)
		defer mixed.Release()
		moved := copyBatch(t, mixed, dev)
		defer moved.Release()
		assert.Same(t, there, moved.Column(0))
		requireSameBatch(t, host, moved)
		back, err := arrowbuf.ToHost(mixed)
		require.NoError(t, err)
		defer back.Release()
		assert.Same(t, host.Column(1), back.Column(1))
		assert.True(t, array.RecordEqual(host, back))
	})
}

// Some libraries keep offsets in host memory, and values on the device.
func TestCopyToCopiesColumnWithMixedBuffers(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomArray(t, checked(t), rand.New(rand.NewPCG(3, 3)), arrow.BinaryTypes.String, 20, true)
		defer host.Release()
		there := copyArray(t, host, dev)
		defer there.Release()
		buffers := []*memory.Buffer{there.Data().Buffers()[0], host.Data().Buffers()[1], there.Data().Buffers()[2]}
		data := array.NewData(host.DataType(), 20, buffers, nil, host.NullN(), 0)
		defer data.Release()
		mixed := arrowbuf.NewArray(data).(*arrowbuf.Array)
		defer mixed.Release()
		requireSame(t, host, mixed)
		moved := copyArray(t, mixed, dev)
		defer moved.Release()
		assert.NotSame(t, mixed, moved)
		assert.Same(t, dev, bufferOf(t, moved.Data().Buffers()[1]).Device())
		requireSame(t, host, moved)
	})
}

func TestCopyToEmptyBatches(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		mem := checked(t)
		noRows := randomBatch(t, mem, 0, allTypes...)
		noColumns := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)
		never := array.NewRecordBatch(noRows.Schema(), buildEmpty(t, noRows.Schema()), 0)
		for name, host := range map[string]arrow.RecordBatch{"no rows": noRows, "no columns": noColumns, "no buffers": never} {
			t.Run(name, func(t *testing.T) {
				moved := copyBatch(t, host, dev)
				defer moved.Release()
				requireSameBatch(t, host, moved)
				assert.Equal(t, host.NumCols(), moved.NumCols())
			})
		}
	})
}

// buildEmpty makes columns whose buffers are all nil, as other libraries do.
func buildEmpty(t *testing.T, schema *arrow.Schema) []arrow.Array {
	columns := make([]arrow.Array, schema.NumFields())
	for i := range columns {
		dtype := schema.Field(i).Type
		arr := randomArray(t, memory.DefaultAllocator, rand.New(rand.NewPCG(1, 1)), dtype, 0, false)
		data := arr.Data().(*array.Data).Copy()
		clear(data.Buffers())
		columns[i] = array.MakeFromData(data)
	}
	return columns
}

func TestCopyToErrorNamesColumn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		short := array.NewData(arrow.PrimitiveTypes.Int32, 3, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 11))}, nil, 0, 0)
		schema := arrow.NewSchema([]arrow.Field{{Name: "fine", Type: arrow.Null}, {Name: "odd", Type: arrow.PrimitiveTypes.Int32}}, nil)
		host := array.NewRecordBatch(schema, []arrow.Array{array.NewNull(3), bare{short}}, 3)
		_, err := arrowbuf.CopyTo(host, dev)
		require.ErrorIs(t, err, arrow.ErrInvalid)
		assert.ErrorContains(t, err, `column 1, "odd", of type int32`)
		assert.Zero(t, dev.allocs.Load())
	})
}

func TestCopyToReturnsDeviceErrors(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, allTypes...)
		dev.failAlloc.Store(true)
		_, err := arrowbuf.CopyTo(host, dev)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		dev.failAlloc.Store(false)
		dev.failCopies.Store(true)
		_, err = arrowbuf.CopyTo(host, dev)
		assert.ErrorIs(t, err, errBroken)
		dev.failCopies.Store(false)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		dev.failCopies.Store(true)
		_, err = arrowbuf.ToHost(moved)
		assert.ErrorIs(t, err, errBroken)
		_, err = moved.MarshalJSON()
		assert.ErrorIs(t, err, errBroken)
		_, err = arrowbuf.CopyTo(host, nil)
		assert.ErrorContains(t, err, "arrowbuf.CopyTo: nil device")
	})
}

func TestCopyToCopiesOnlyBytesOfSlice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomArray(t, checked(t), rand.New(rand.NewPCG(3, 3)), arrow.PrimitiveTypes.Int64, 1<<16, true)
		defer host.Release()
		slice := array.NewSlice(host, 30003, 30013)
		defer slice.Release()
		moved := copyArray(t, slice, dev)
		defer moved.Release()
		assert.EqualValues(t, 64+128, dev.bytesUp.Load(), "2 bytes of bits and 80 of values, padded")
	})
}

func TestToHostCopiesOnlyBytesOfSlice(t *testing.T) {
	host := randomArray(t, checked(t), rand.New(rand.NewPCG(3, 3)), arrow.BinaryTypes.String, 1<<12, false)
	defer host.Release()
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyArray(t, host, dev)
		defer moved.Release()
		slice := moved.Slice(1000, 1010)
		defer slice.Release()
		back, err := arrowbuf.CopyArrayTo(slice, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		assert.Less(t, dev.bytesDown.Load(), int64(10*30+4*11+100))
		want := array.NewSlice(host, 1000, 1010)
		defer want.Release()
		assert.True(t, array.Equal(want, back))
	})
}

func TestCopyToComputesNullCounts(t *testing.T) {
	dtype := arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int32)
	host := randomArray(t, checked(t), rand.New(rand.NewPCG(3, 3)), dtype, 50, true)
	defer host.Release()
	values := host.(*array.FixedSizeList).ListValues()
	values.NullN() // known for all list values now, but not for a slice of them
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		slice := array.NewSlice(host, 11, 30)
		defer slice.Release()
		moved := copyArray(t, slice, dev)
		defer moved.Release()
		assert.Equal(t, slice.NullN(), moved.Data().NullN())
		shown := array.NewSlice(values, 2*11, 2*30)
		defer shown.Release()
		assert.Equal(t, shown.NullN(), moved.Data().Children()[0].NullN())
		assert.Zero(t, dev.down.Load())
	})
}

func TestValueStrCopiesOneElement(t *testing.T) {
	mem := checked(t)
	big := array.NewStringViewBuilder(mem)
	defer big.Release()
	for range 1000 {
		big.Append(strings.Repeat("long", 30))
	}
	views := big.NewArray()
	defer views.Release()
	indices := int8s(memory.NewBufferBytes(make([]byte, 100)))
	dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: views.DataType()}
	dictionary := array.NewDictionaryArray(dtype, indices, views)
	defer dictionary.Release()
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		for _, host := range []arrow.Array{views, dictionary} {
			moved := copyArray(t, host, dev)
			dev.bytesDown.Store(0)
			assert.Equal(t, host.ValueStr(7), moved.ValueStr(7))
			assert.Less(t, dev.bytesDown.Load(), int64(200))
			moved.Release()
		}
	})
}

// Long bitmaps are counted while they are copied. They are omitted if they have no
// null, and the count is right for a few nulls at any position.
func TestCopyToCountsNullsOfLongColumns(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		const rows = 1<<19 + 5
		for name, nulls := range map[string][]int{"none": nil, "early": {0, 5, 17}, "late": {rows - 1}, "both": {3, rows - 2}} {
			for _, dtype := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8, Nullable: true})} {
				bits := memory.NewBufferBytes(bytes.Repeat([]byte{0xff}, rows/8+1))
				for _, i := range nulls {
					bitutil.ClearBit(bits.Bytes(), i)
				}
				values := memory.NewBufferBytes(make([]byte, rows))
				data := array.NewData(arrow.PrimitiveTypes.Int8, rows, []*memory.Buffer{bits, values}, nil, array.UnknownNullCount, 0)
				if dtype.ID() == arrow.STRUCT {
					data = array.NewData(dtype, rows, []*memory.Buffer{nil}, []arrow.ArrayData{data}, 0, 0)
				}
				host := array.MakeFromData(data)
				moved, err := arrowbuf.CopyArrayTo(host, dev)
				require.NoError(t, err)
				column := moved.Data()
				if dtype.ID() == arrow.STRUCT {
					column = column.Children()[0]
				}
				assert.Equal(t, len(nulls), column.NullN(), name)
				assert.Equal(t, len(nulls) == 0, column.Buffers()[0] == nil, name)
				moved.Release()
			}
		}
	})
}

func TestCopyFunctionsRejectNil(t *testing.T) {
	batch := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)
	_, err := arrowbuf.CopyTo(nil, arrowbuf.CPU())
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = arrowbuf.CopyTo(batch, arrowbuf.CPU(), nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = arrowbuf.CopyArrayTo(nil, arrowbuf.CPU())
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = arrowbuf.NewReader(nil, arrowbuf.CPU())
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	buffer, err := arrowbuf.CPU().Alloc(3)
	require.NoError(t, err)
	defer buffer.Release()
	_, err = buffer.CopyFromDevice(nil, 0)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = buffer.Equal(nil)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
}

func newStream(t testing.TB, dev *cudabuf.Device) *cudabuf.Stream {
	t.Helper()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// blockStream blocks a stream until open is called, or the test ends.
func blockStream(t testing.TB, s *cudabuf.Stream) (open func()) {
	t.Helper()
	gate := make(chan struct{})
	opened := false
	open = func() {
		if !opened {
			close(gate)
		}
		opened = true
	}
	t.Cleanup(open)
	require.NoError(t, s.LaunchHostFunc(func() { <-gate }))
	return open
}

func TestWithStreamCopiesAllTypes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := newStream(t, dev)
		for name, mem := range map[string]memory.Allocator{"ordinary": memory.DefaultAllocator, "pinned": dev.HostAllocator()} {
			for _, rows := range []int{0, 1, 333, 20_000} {
				host := randomBatch(t, mem, rows, allTypes...)
				for _, options := range [][]arrowbuf.CopyOption{{arrowbuf.WithStream(s)}, {arrowbuf.WithStream(s), arrowbuf.WithSeparateAllocations()}} {
					moved, err := arrowbuf.CopyTo(host, dev, options...)
					require.NoError(t, err, "%s, %d rows", name, rows)
					requireAligned(t, moved.(*arrowbuf.RecordBatch))
					requireSameBatch(t, host, moved.(*arrowbuf.RecordBatch))
					moved.Release()
				}
			}
		}
	})
}

func TestWithReaderCopiesAllTypes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, rows := range []int{0, 1, 333, 20_000} {
			host := randomBatch(t, memory.DefaultAllocator, rows, allTypes...)
			var read atomic.Int64
			reader := arrowbuf.WithReader(func(dst, src []byte) error {
				read.Add(int64(len(dst)))
				require.Len(t, src, len(dst))
				copy(dst, src)
				return nil
			}, 2)
			for _, options := range [][]arrowbuf.CopyOption{{reader}, {reader, arrowbuf.WithSeparateAllocations()}} {
				read.Store(0)
				moved, err := arrowbuf.CopyTo(host, dev, options...)
				require.NoError(t, err, "%d rows", rows)
				if rows > 0 {
					require.Positive(t, read.Load(), "%d rows", rows)
				}
				requireSameBatch(t, host, moved.(*arrowbuf.RecordBatch))
				moved.Release()
			}
		}
	})
}

func TestWithReaderReturnsTheErrorOfTheReader(t *testing.T) {
	failure := errors.New("read error")
	broken := arrowbuf.WithReader(func(dst, src []byte) error { return failure }, 0)
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, rows := range []int{10, 100_000} {
			_, err := arrowbuf.CopyTo(wideInts(memory.DefaultAllocator, rows), dev, broken)
			assert.ErrorIs(t, err, failure)
		}
		moved, err := arrowbuf.CopyTo(wideInts(memory.DefaultAllocator, 10), dev)
		require.NoError(t, err)
		defer moved.Release()
		_, err = arrowbuf.CopyTo(moved, arrowbuf.CPU(), broken)
		assert.ErrorIs(t, err, errors.ErrUnsupported)
		_, err = arrowbuf.CopyTo(wideInts(memory.DefaultAllocator, 10), dev, broken, arrowbuf.WithStream(newStream(t, dev)))
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

// wideInts returns a batch with a buffer above maxStaged, and small ones.
func wideInts(mem memory.Allocator, rows int) arrow.RecordBatch {
	fields := []arrow.Field{{Name: "long", Type: arrow.PrimitiveTypes.Int64}, {Name: "short", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}
	b := array.NewRecordBuilder(mem, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if i%3 == 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Int8Builder).Append(int8(i))
		}
	}
	return b.NewRecordBatch()
}

const wideRows = 30_000 // 240 KB of 64-bit integers

func TestWithStreamReturnsBeforeCopyIsDone(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		want := wideInts(memory.DefaultAllocator, wideRows)
		defer want.Release()
		pinned := memory.NewCheckedAllocator(dev.HostAllocator())
		host := wideInts(pinned, wideRows)
		s := newStream(t, dev)
		open := blockStream(t, s)

		moved, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
		require.NoError(t, err)
		host.Release()
		done, err := s.Done()
		require.NoError(t, err)
		assert.False(t, done)
		assert.GreaterOrEqual(t, pinned.CurrentAlloc(), 8*wideRows, "the copy still reads what was released")

		// All users of the batch wait: here another stream, and the host.
		type result struct {
			batch arrow.RecordBatch
			err   error
		}
		back := make(chan result, 1)
		go func() {
			there, err := arrowbuf.ToHost(moved)
			back <- result{there, err}
		}()
		select {
		case <-back:
			t.Error("the batch was read before it was there")
		case <-time.After(20 * time.Millisecond):
		}
		open()
		got := <-back
		require.NoError(t, got.err)
		defer got.batch.Release()
		assert.True(t, array.RecordEqual(want, got.batch))
		moved.Release()
		assert.Eventually(t, func() bool { return pinned.CurrentAlloc() == 0 }, 5*time.Second, time.Millisecond, "the memory that was read is free")
	})
}

func TestWithStreamHasReadOrdinaryMemoryOnReturn(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		want := wideInts(memory.DefaultAllocator, 100)
		defer want.Release()
		host := wideInts(memory.DefaultAllocator, 100)
		defer host.Release()
		s := newStream(t, dev)
		open := blockStream(t, s)
		moved, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
		require.NoError(t, err)
		defer moved.Release()
		for _, column := range host.Columns() {
			clear(column.Data().Buffers()[1].Bytes())
		}
		open()
		requireSameBatch(t, want, moved.(*arrowbuf.RecordBatch))
	})
}

func TestWithStreamCopiesBetweenDevices(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		first, err := d.Device(0)
		require.NoError(t, err)
		second, err := d.Device(1)
		require.NoError(t, err)
		want := wideInts(memory.DefaultAllocator, wideRows)
		defer want.Release()
		there, behind := newStream(t, first), newStream(t, second)
		open := blockStream(t, there)
		moved, err := arrowbuf.CopyTo(want, first, arrowbuf.WithStream(there)) // not complete when it is copied on
		require.NoError(t, err)
		further, err := arrowbuf.CopyTo(moved, second, arrowbuf.WithStream(behind))
		moved.Release()
		open()
		require.NoError(t, err)
		defer further.Release()
		requireSameBatch(t, want, further.(*arrowbuf.RecordBatch))
		require.NoError(t, behind.Synchronize())
	})
}

func TestWithStreamRejectsOtherDevices(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		host := randomBatch(t, checked(t), 10, arrow.PrimitiveTypes.Int32)
		moved, err := arrowbuf.CopyTo(host, dev)
		require.NoError(t, err)
		defer moved.Release()
		other := cudatest.NewDevice(t)
		closed, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		for name, tt := range map[string]struct {
			batch arrow.RecordBatch
			to    arrowbuf.Device
			on    *cudabuf.Stream
			want  error
		}{
			"another GPU":            {host, other, newStream(t, dev), arrowbuf.ErrDevice},
			"the CPU":                {moved, arrowbuf.CPU(), newStream(t, dev), arrowbuf.ErrDevice},
			"pinned memory":          {moved, dev.Host(), newStream(t, dev), arrowbuf.ErrDevice},
			"from another driver's":  {moved, other, newStream(t, other), arrowbuf.ErrDevice},
			"a stream that is over":  {host, dev, closed, cudabuf.ErrClosed},
			"a device of the test's": {host, counted(dev), newStream(t, dev), arrowbuf.ErrDevice},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := arrowbuf.CopyTo(tt.batch, tt.to, arrowbuf.WithStream(tt.on))
				assert.ErrorIs(t, err, tt.want)
			})
		}
	})
}

func TestWithStreamRejectsCapturingStream(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		host := randomBatch(t, checked(t), 10, arrow.PrimitiveTypes.Int32)
		g, err := dev.Capture(func(s *cudabuf.Stream) error {
			_, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			return nil
		})
		if err == nil {
			require.NoError(t, g.Close())
		}
	})
}

// All memory is released, no matter which call fails.
func TestWithStreamReleasesMemoryOnFailure(t *testing.T) {
	for n := 1; ; n++ {
		var armed, failed atomic.Bool
		fail := cudatest.FailAt(n, cudatest.OutOfMemory)
		machine := cudatest.New(cudatest.Config{Fail: func(call string, i int) (r cudabuf.Result) {
			if armed.Load() {
				r = fail(call, i)
			}
			if r != 0 {
				failed.Store(true)
			}
			return r
		}})
		dev, err := machine.Device(0)
		require.NoError(t, err)
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		pinned := memory.NewCheckedAllocator(dev.HostAllocator())
		host := wideInts(pinned, wideRows)
		armed.Store(true)
		moved, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
		armed.Store(false)
		if err == nil {
			moved.Release()
		}
		host.Release()
		require.NoError(t, machine.Close(), "call %d", n)
		pinned.AssertSize(t, 0)
		if !failed.Load() {
			require.NoError(t, err)
			assert.Greater(t, n, 4)
			return
		}
	}
}
