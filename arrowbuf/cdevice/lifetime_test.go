//go:build linux || darwin

package cdevice

import (
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

var pair = arrow.StructOf(
	arrow.Field{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	arrow.Field{Name: "lists", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true})

func TestExportsKeepMemoryUntilReleased(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 50, true)
		defer host.Release()
		arr := upload(t, dev, host)
		out := exported(t, arr, dev)
		arr.Release()
		runtime.GC() // which does not know what C has
		assert.Positive(t, outside())
		moved := *out // as C moves a struct
		out.array.release = 0
		out.Release()
		assert.Positive(t, outside(), "there was nothing to release")
		back, err := ImportArray(&moved, pair, dev)
		require.NoError(t, err)
		requireEqual(t, host, back)
		back.Release()
		assert.Zero(t, outside())
	})
}

func TestChildrenOutliveTheirParentWhereTheyAreMovedAway(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 50, false)
		defer host.Release()
		arr := upload(t, dev, host)
		out := exported(t, arr, dev)
		arr.Release()
		child := out.array.parts()[0]
		moved := &DeviceArray{array: *child, deviceType: out.deviceType, deviceID: out.deviceID}
		child.release = 0
		out.Release()
		assert.True(t, out.Released())
		assert.Equal(t, 1, outside(), "the child")
		back, err := ImportArray(moved, pair.Field(0).Type, dev)
		require.NoError(t, err)
		requireEqual(t, host.(*array.Struct).Field(0), back)
		back.Release()
	})
	clean(t)
	var s Schema
	require.NoError(t, ExportField(arrow.Field{Name: "pair", Type: pair}, &s))
	child := s.parts()[0]
	moved := *child
	child.release = 0
	s.Release()
	field, err := ImportField(&moved)
	require.NoError(t, err)
	assert.True(t, pair.Field(0).Equal(field))
}

func TestImportsHoldTheProducerUntilTheLastReferenceGoes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 50, false)
		defer host.Release()
		arr := upload(t, dev, host)
		batch, err := ImportBatch(exported(t, arr, dev), arrow.NewSchema(pair.Fields(), nil), dev)
		require.NoError(t, err)
		arr.Release()
		column := batch.Column(0)
		column.Retain()
		slice := batch.NewSlice(10, 20)
		batch.Release()
		assert.Positive(t, outside())
		column.Release()
		assert.Positive(t, outside(), "the slice is there")
		want := array.NewSlice(host.(*array.Struct).Field(0), 10, 20)
		defer want.Release()
		requireEqual(t, want, slice.Column(0))
		slice.Release()
		assert.Zero(t, outside())
	})
}

func TestImportsOfNothingReleaseTheProducerAtOnce(t *testing.T) {
	clean(t)
	null := array.NewNull(7)
	defer null.Release()
	arr, err := ImportArray(exported(t, null, arrowbuf.CPU()), arrow.Null)
	require.NoError(t, err)
	defer arr.Release()
	assert.Zero(t, outside())
	assert.Equal(t, 7, arr.NullN())
}

func TestReleasesMayComeFromAnyThread(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 50, true)
		defer host.Release()
		arr := upload(t, dev, host)
		defer arr.Release()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					var s Schema
					out := &DeviceArray{}
					if !assert.NoError(t, ExportArray(arr, dev, out)) || !assert.NoError(t, ExportField(arrow.Field{Type: pair}, &s)) {
						return
					}
					field, err := ImportField(&s)
					if !assert.NoError(t, err) {
						return
					}
					back, err := ImportArray(out, field.Type, dev)
					if !assert.NoError(t, err) {
						return
					}
					back.Retain()
					all.Go(back.Release)
					all.Go(back.Release)
				}
			})
		}
		all.Wait()
	})
}

func TestMemoryOnAnotherDeviceIsRefused(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		g := newGenerator(t)
		host := g.array(pair, 50, true)
		defer host.Release()
		arr := upload(t, dev, host)
		defer arr.Release()
		for _, tt := range []struct {
			arr arrow.Array
			dev arrowbuf.Device
		}{{host, dev}, {arr, arrowbuf.CPU()}, {arr, dev.Host()}, {host, dev.Host()}} {
			var out DeviceArray
			err := ExportArray(tt.arr, tt.dev, &out)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
			assert.True(t, out.Released())
		}
		_, err := ImportArray(exported(t, arr, dev), pair)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, "cuda:0")

		mixed := array.NewData(pair, 50, []*memory.Buffer{nil}, []arrow.ArrayData{arr.Data().Children()[0], host.Data().Children()[1]}, 0, 0)
		defer mixed.Release()
		both := arrowbuf.NewArray(mixed)
		defer both.Release()
		err = ExportArray(both, dev, &DeviceArray{})
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, `"lists"`)
	})
}

func TestPinnedMemoryGoesAsTheHostsOrTheCPUs(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		g := newGenerator(t)
		host := g.array(pair, 50, true)
		defer host.Release()
		arr := upload(t, dev.Host(), host)
		defer arr.Release()
		for _, on := range []arrowbuf.Device{dev.Host(), arrowbuf.CPU()} {
			out := exported(t, arr, on)
			kind, id := out.Device()
			assert.Equal(t, on.Type(), kind)
			assert.Equal(t, on.ID(), id)
			back, err := ImportArray(out, pair, dev) // whose Host need not be named
			require.NoError(t, err)
			assert.True(t, array.Equal(host, back))
			back.Release()
		}
	})
}

func TestConsumersComeAfterTheEventOfAnExport(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		for _, on := range []arrowbuf.Device{dev, dev.Host()} {
			ours, theirs := stream(t, dev), stream(t, dev)
			values, err := on.Alloc(4 << 20)
			require.NoError(t, err)
			later(t, ours)
			fill(t, ours, values, 7)
			arr := bytesArray(t, values)
			values.Release()
			out := exported(t, arr, on)
			arr.Release()

			// A consumer that knows nothing of our streams.
			e, err := dev.WrapEvent(*(*uintptr)(pointer(out.event)))
			require.NoError(t, err)
			require.NoError(t, theirs.WaitEvent(e))
			buffer := addresses(out.array.buffers, 2)[1]
			got := make([]byte, 4<<20)
			if on == dev {
				seen, err := dev.WrapExternal(buffer, 4<<20, nil)
				require.NoError(t, err)
				_, err = seen.CopyToHostAsync(got, 0, theirs)
				require.NoError(t, err)
				require.NoError(t, theirs.Synchronize())
				seen.Release()
			} else {
				require.NoError(t, e.Synchronize())
				copy(got, hostBytes(buffer, len(got)))
			}
			assert.Equal(t, byte(7), got[0])
			assert.Equal(t, byte(7), got[len(got)-1])
			out.Release()
		}
	})
}

func TestImportsComeAfterTheProducersEvent(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		for _, on := range []arrowbuf.Device{dev, dev.Host()} {
			for _, kind := range []arrowbuf.DeviceType{on.Type(), arrowbuf.DeviceCUDAManaged} {
				if kind == arrowbuf.DeviceCUDAManaged && on != dev {
					continue
				}
				theirs := stream(t, dev)
				values, err := on.Alloc(4 << 20)
				require.NoError(t, err)
				fill(t, theirs, values, 0)
				require.NoError(t, theirs.Synchronize())
				arr := bytesArray(t, values)
				out := exported(t, arr, on)
				arr.Release()

				// Its own work, which only its event tells of.
				later(t, theirs)
				fill(t, theirs, alias(t, dev, values), 9)
				e, err := dev.NewEvent(cudabuf.EventOptions{})
				require.NoError(t, err)
				require.NoError(t, theirs.Record(e))
				handle := e.Handle()
				out.event, out.deviceType = addressOf(&handle), int32(kind)

				back, err := ImportArray(out, arrow.PrimitiveTypes.Uint8, dev)
				require.NoError(t, err)
				got := download(t, back.Data().Buffers()[1])
				assert.Equal(t, byte(9), got[0])
				assert.Equal(t, byte(9), got[len(got)-1])
				back.Release()
				require.NoError(t, theirs.Synchronize())
				require.NoError(t, e.Close())
				values.Release()
			}
		}
	})
}

func stream(t *testing.T, dev *cudabuf.Device) *cudabuf.Stream {
	t.Helper()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// later lets what a stream is given next be late.
func later(t *testing.T, s *cudabuf.Stream) {
	t.Helper()
	require.NoError(t, s.Do(func() { time.Sleep(30 * time.Millisecond) }))
}

// fill gives a stream the work to set all bytes of a buffer.
func fill(t *testing.T, s *cudabuf.Stream, b arrowbuf.Buffer, v byte) {
	t.Helper()
	if onGPU, ok := b.(*cudabuf.Buffer); ok {
		require.NoError(t, onGPU.FillAsync(v, s))
		return
	}
	from, err := s.Device().NewBuffer(b.Len())
	require.NoError(t, err)
	defer from.Release()
	require.NoError(t, from.FillAsync(v, s))
	_, err = b.(*cudabuf.HostBuffer).CopyFromDeviceAsync(from, 0, s)
	require.NoError(t, err)
}

// alias is the same memory as another library sees it, whose streams are not
// known to the buffer's own.
func alias(t *testing.T, dev *cudabuf.Device, b arrowbuf.Buffer) arrowbuf.Buffer {
	t.Helper()
	if b.Device() != dev {
		return b // pinned memory is known by its address
	}
	same, err := dev.WrapExternal(b.Address(), b.Len(), nil)
	require.NoError(t, err)
	t.Cleanup(same.Release)
	return same
}

func bytesArray(t *testing.T, values arrowbuf.Buffer) arrow.Array {
	t.Helper()
	b := values.Arrow()
	defer b.Release()
	data := array.NewData(arrow.PrimitiveTypes.Uint8, b.Len(), []*memory.Buffer{nil, b}, nil, 0, 0)
	defer data.Release()
	return arrowbuf.NewArray(data)
}

func hostBytes(address uintptr, n int) []byte {
	return unsafe.Slice((*byte)(pointer(address)), n)
}

func TestCLibrariesCallTheRelease(t *testing.T) {
	clean(t)
	g := newGenerator(t)
	arr := g.array(pair, 5, true)
	out := exported(t, arr, arrowbuf.CPU())
	arr.Release()
	purego.SyscallN(out.array.release, addressOf(out))
	assert.True(t, out.Released())
}
