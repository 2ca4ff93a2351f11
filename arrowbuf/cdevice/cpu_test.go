//go:build linux || darwin

package cdevice

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// The structs of the interface that knows no devices are as long as C's.
func TestStructsOfTheCPUAreCs(t *testing.T) {
	assert.EqualValues(t, 80, unsafe.Sizeof(Array{}))
	var s Stream
	assert.EqualValues(t, 40, unsafe.Sizeof(s))
	assert.Equal(t, []uintptr{0, 8, 16, 24, 32}, []uintptr{
		unsafe.Offsetof(s.getSchema), unsafe.Offsetof(s.getNext), unsafe.Offsetof(s.getLastError), unsafe.Offsetof(s.release), unsafe.Offsetof(s.private),
	})
}

func TestArraysOfTheCPUGoThereAndBack(t *testing.T) {
	clean(t)
	g := newGenerator(t)
	for _, dtype := range types {
		arr := g.array(dtype, 23, true)
		out := &Array{}
		require.NoError(t, ExportCPUArray(arr, out), dtype)
		moved := *out // a consumer may
		out.release = 0
		back, err := ImportCPUArray(&moved, dtype)
		require.NoError(t, err, dtype)
		assert.True(t, moved.Released())
		requireEqual(t, arr, back)
		arr.Release()
		back.Release()
	}
	_, err := ImportCPUArray(nil, arrow.Null)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportCPUArray(&Array{}, arrow.Null)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportCPUBatch(nil, arrow.NewSchema(nil, nil))
	assert.ErrorIs(t, err, arrow.ErrInvalid)
}

func TestStreamsOfTheCPUGoThereAndBack(t *testing.T) {
	clean(t)
	from, hosts := someBatches(t, arrowbuf.CPU())
	out := &Stream{}
	require.NoError(t, ExportCPUStream(from, out))
	assert.Equal(t, 2, from.refs)
	r, err := ImportCPUStream(out)
	require.NoError(t, err)
	assert.True(t, out.Released())
	assert.True(t, from.schema.Equal(r.Schema()))
	n := 0
	for ; r.Next(); n++ {
		for j := range 2 {
			requireEqual(t, hosts[n].(*array.Struct).Field(j), r.RecordBatch().Column(j))
		}
	}
	require.NoError(t, r.Err())
	assert.Equal(t, 3, n)
	r.Release()
	assert.Equal(t, 1, from.refs)
}

func TestStreamsOfTheCPUTellWhatEndedThem(t *testing.T) {
	clean(t)
	from, _ := someBatches(t, arrowbuf.CPU())
	from.err = errors.New("the disk is full")
	out := &Stream{}
	require.NoError(t, ExportCPUStream(from, out))
	r, err := ImportCPUStream(out)
	require.NoError(t, err)
	for r.Next() {
	}
	assert.ErrorContains(t, r.Err(), "errno 5: the disk is full")
	r.Release()
	_, err = ImportCPUStream(nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportCPUStream(&Stream{})
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	require.NoError(t, ExportCPUStream(from, out))
	out.getNext = 0
	_, err = ImportCPUStream(out)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	assert.Equal(t, 1, from.refs)
}

func TestMemoryOfAGPUIsNoneOfTheCPUs(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		from, _ := someBatches(t, dev)
		assert.ErrorIs(t, ExportCPUBatch(from.all[0], &Array{}), arrowbuf.ErrDevice)
		assert.ErrorIs(t, ExportCPUArray(from.all[0].Column(1), &Array{}), arrowbuf.ErrDevice)
		out := &Stream{}
		require.NoError(t, ExportCPUStream(from, out))
		r, err := ImportCPUStream(out)
		require.NoError(t, err)
		assert.False(t, r.Next())
		assert.ErrorContains(t, r.Err(), "errno 22")
		r.Release()
	})
}

// On the CPU they are counted, in children too and behind an offset.
func TestNullsThatNobodyCountedAreCountedOnTheCPU(t *testing.T) {
	clean(t)
	g := newGenerator(t)
	for _, dtype := range []arrow.DataType{arrow.PrimitiveTypes.Int16, pair} {
		whole := g.array(dtype, 50, true)
		data := array.NewData(whole.DataType(), 37, whole.Data().Buffers(), whole.Data().Children(), array.UnknownNullCount, 7)
		arr := array.MakeFromData(data)
		want := 0
		if bits := data.Buffers()[0]; bits != nil && bits.Len() > 0 {
			want = 37 - bitutil.CountSetBits(bits.Bytes(), 7, 37)
		}
		out := exported(t, arr, arrowbuf.CPU())
		assert.EqualValues(t, want, out.array.nulls)
		for _, child := range out.array.parts() {
			assert.GreaterOrEqual(t, child.nulls, int64(0))
		}
		out.Release()
		arr.Release()
		data.Release()
		whole.Release()
	}
}
