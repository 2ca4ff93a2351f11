//go:build linux || darwin

package cdevice

import (
	"runtime"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// uncheckedArray is an array that arrow-go's constructors would reject.
type uncheckedArray struct {
	arrow.Array
	data *array.Data
}

func (l uncheckedArray) Data() arrow.ArrayData { return l.data }

func TestExportRejectsShortArrays(t *testing.T) {
	requireNoHandles(t)
	ints, text := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String
	pair := arrow.StructOf(arrow.Field{Name: "x", Type: ints})
	short := array.NewData(ints, 2, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, 0)
	for about, c := range map[string]struct {
		dtype    arrow.DataType
		length   int
		buffers  []*memory.Buffer
		children []arrow.ArrayData
		nulls    int
		reads    bool // the check reads offsets, which it does on the host only
		missing  bool // the children are nil
	}{
		"buffer 1 has 8 bytes, want at least 40": {ints, 10, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, false, false},
		"buffer 1 has 0 bytes, want at least 40": {ints, 10, []*memory.Buffer{nil, nil}, nil, 0, false, false},
		"validity bitmap of 1 bytes, want at le": {ints, 10, []*memory.Buffer{memory.NewBufferBytes(make([]byte, 1)), memory.NewBufferBytes(make([]byte, 40))}, nil, array.UnknownNullCount, false, false},
		"2 nulls, but no validity bitmap":        {ints, 10, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 40))}, nil, 2, false, false},
		"20 of 10 elements are null":             {ints, 10, []*memory.Buffer{memory.NewBufferBytes(make([]byte, 2)), memory.NewBufferBytes(make([]byte, 40))}, nil, 20, false, false},
		"buffer 2 has 2 bytes, want at least 9":  {text, 1, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{0, 0, 0, 0, 9, 0, 0, 0}), memory.NewBufferBytes([]byte("ab"))}, nil, 0, true, false},
		"buffer 1: offsets from 9 to 1":          {text, 1, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{9, 0, 0, 0, 1, 0, 0, 0}), memory.NewBufferBytes([]byte("ab"))}, nil, 0, true, false},
		"child 0 has 2 elements, want at least ": {pair, 10, []*memory.Buffer{nil}, []arrow.ArrayData{short}, 0, false, false},
		`"x": nil array`:                         {pair, 10, []*memory.Buffer{nil}, []arrow.ArrayData{short}, 0, false, true},
	} {
		onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
			if (c.reads || c.missing) && !hostReadable(dev) {
				return
			}
			data := copyDataTo(t, dev, array.NewData(c.dtype, c.length, c.buffers, c.children, c.nulls, 0))
			defer data.Release()
			if c.missing {
				child := data.Children()[0]
				data.Children()[0] = (*array.Data)(nil)
				defer func() { data.Children()[0] = child }() // arrow-go releases it
			}
			var out DeviceArray
			err := ExportArray(uncheckedArray{data: data}, dev, &out)
			require.ErrorIs(t, err, arrow.ErrInvalid, about)
			assert.ErrorContains(t, err, about)
			assert.True(t, out.Released())
		})
	}
}

func TestExportRejectsNil(t *testing.T) {
	requireNoHandles(t)
	var out DeviceArray
	ones := array.NewNull(1)
	assert.ErrorIs(t, ExportArray(nil, arrowbuf.CPU(), &out), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportArray(ones, arrowbuf.CPU(), nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportBatch(nil, arrowbuf.CPU(), &out), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportCPUArray(ones, nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportCPUBatch(nil, nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportSchema(nil, new(Schema)), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportField(arrow.Field{Type: arrow.Null}, nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportStream(nil, arrowbuf.CPU(), new(DeviceStream)), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportCPUStream(nil, nil), arrow.ErrInvalid)
}

var pair = arrow.StructOf(
	arrow.Field{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	arrow.Field{Name: "lists", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true})

func TestExportKeepsMemoryUntilRelease(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 50, true)
		defer host.Release()
		arr := upload(t, dev, host)
		out := exported(t, arr, dev)
		arr.Release()
		runtime.GC() // does not see C's pointers
		assert.Positive(t, handleCount())
		moved := *out // C moves structs by copying
		out.array.release = 0
		out.Release()
		assert.Positive(t, handleCount(), "there was nothing to release")
		back, err := ImportArray(&moved, pair, dev)
		require.NoError(t, err)
		requireEqual(t, host, back)
		back.Release()
		assert.Zero(t, handleCount())
	})
}

func TestMovedChildrenOutliveParent(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 50, false)
		defer host.Release()
		arr := upload(t, dev, host)
		out := exported(t, arr, dev)
		arr.Release()
		child := out.array.childStructs()[0]
		moved := &DeviceArray{array: *child, deviceType: out.deviceType, deviceID: out.deviceID}
		child.release = 0
		out.Release()
		assert.True(t, out.Released())
		assert.Equal(t, 1, handleCount(), "the child")
		back, err := ImportArray(moved, pair.Field(0).Type, dev)
		require.NoError(t, err)
		requireEqual(t, host.(*array.Struct).Field(0), back)
		back.Release()
	})
	requireNoHandles(t)
	var s Schema
	require.NoError(t, ExportField(arrow.Field{Name: "pair", Type: pair}, &s))
	child := s.childStructs()[0]
	moved := *child
	child.release = 0
	s.Release()
	field, err := ImportField(&moved)
	require.NoError(t, err)
	assert.True(t, pair.Field(0).Equal(field))
}

func TestReleaseFromAnyThread(t *testing.T) {
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

func TestConsumerWaitsForExportEvent(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		for _, on := range []arrowbuf.Device{dev, dev.Host()} {
			ours, theirs := stream(t, dev), stream(t, dev)
			values, err := on.Alloc(4 << 20)
			require.NoError(t, err)
			delay(t, ours)
			fill(t, ours, values, 7)
			arr := bytesArray(t, values)
			values.Release()
			out := exported(t, arr, on)
			arr.Release()

			// The consumer does not use the streams of this module.
			e, err := dev.WrapEvent(*(*uintptr)(pointer(out.event)))
			require.NoError(t, err)
			require.NoError(t, theirs.WaitEvent(e))
			buffer := readPointers(out.array.buffers, 2)[1]
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

func TestCLibraryCallsRelease(t *testing.T) {
	requireNoHandles(t)
	g := newGenerator(t)
	arr := g.array(pair, 5, true)
	out := exported(t, arr, arrowbuf.CPU())
	arr.Release()
	purego.SyscallN(out.array.release, addressOf(out))
	assert.True(t, out.Released())
}
