//go:build linux || darwin

package cdevice

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// onDevices runs a test on the CPU, on each kind of CUDA device, and on what
// that has page-locked. It fails if C has anything left in the end.
func onDevices(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { clean(t); test(t, arrowbuf.CPU()) })
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		t.Run("device", func(t *testing.T) { test(t, dev) })
		t.Run("host", func(t *testing.T) { test(t, dev.Host()) })
	})
}

func onCUDA(t *testing.T, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	cudatest.ForEachDevice(t, test)
}

// clean checks at the end of a test that C gave everything back.
func clean(t *testing.T) {
	t.Cleanup(func() { assert.Zero(t, outside(), "structs that C still has") })
}

func outside() (n int) {
	given.Range(func(any, any) bool { n++; return true })
	return n
}

// onto copies data to a device, buffer by buffer, offsets and all.
func onto(t testing.TB, dev arrowbuf.Device, data arrow.ArrayData) *array.Data {
	t.Helper()
	return transform(data, func(b *memory.Buffer) *memory.Buffer {
		moved, err := dev.Alloc(int64(b.Len()))
		require.NoError(t, err)
		defer moved.Release()
		_, err = moved.CopyFromHost(b.Bytes(), 0)
		require.NoError(t, err)
		return moved.Arrow()
	})
}

// toHost copies data from wherever it is.
func toHost(t testing.TB, arr arrow.Array) arrow.Array {
	t.Helper()
	data := transform(arr.Data(), func(b *memory.Buffer) *memory.Buffer {
		return memory.NewBufferBytes(download(t, b))
	})
	defer data.Release()
	return array.MakeFromData(data)
}

func download(t testing.TB, b *memory.Buffer) []byte {
	t.Helper()
	from, err := arrowbuf.BufferOf(b)
	require.NoError(t, err)
	defer from.Release()
	raw := make([]byte, b.Len())
	_, err = from.CopyToHost(raw, 0)
	require.NoError(t, err)
	return raw
}

func transform(data arrow.ArrayData, change func(*memory.Buffer) *memory.Buffer) *array.Data {
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, b := range data.Buffers() {
		if b != nil {
			buffers[i] = change(b)
			defer buffers[i].Release()
		}
	}
	var children []arrow.ArrayData
	for _, child := range data.Children() {
		children = append(children, transform(child, change))
	}
	defer releaseData(children)
	made := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	if d, ok := data.Dictionary().(*array.Data); ok && d != nil {
		dictionary := transform(d, change)
		defer dictionary.Release()
		made.SetDictionary(dictionary)
	}
	return made
}

// upload makes an array of a device from one of the host.
func upload(t testing.TB, dev arrowbuf.Device, arr arrow.Array) arrow.Array {
	t.Helper()
	data := onto(t, dev, arr.Data())
	defer data.Release()
	return arrowbuf.NewArray(data)
}

func requireEqual(t testing.TB, want, got arrow.Array) {
	t.Helper()
	host := toHost(t, got)
	defer host.Release()
	require.True(t, array.Equal(want, host), "of %s: want %v\ngot %v", want.DataType(), want, host)
}

func exported(t testing.TB, arr arrow.Array, dev arrowbuf.Device) *DeviceArray {
	t.Helper()
	out := &DeviceArray{}
	require.NoError(t, ExportArray(arr, dev, out))
	return out
}

// children are the structs below one.
func (c *Array) parts() []*Array {
	var parts []*Array
	for _, address := range addresses(c.children, c.nChildren) {
		parts = append(parts, (*Array)(pointer(address)))
	}
	return parts
}

func (s *Schema) parts() []*Schema {
	var parts []*Schema
	for _, address := range addresses(s.children, s.nChildren) {
		parts = append(parts, (*Schema)(pointer(address)))
	}
	return parts
}
