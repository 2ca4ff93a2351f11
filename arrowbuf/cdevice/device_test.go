//go:build linux || darwin

package cdevice

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// Arrays of a device that wraps another one are exported and imported as those of the
// inner device.
func TestArraysOfWrappedDevicesRoundTrip(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		checked := arrowbuftest.Checked(t, arrowbuftest.Checked(t, dev))
		g := newGenerator(t)
		for _, dtype := range types {
			host := g.array(dtype, 61, true)
			arr := upload(t, checked, host)
			out := exported(t, arr, checked)
			arr.Release()
			kind, id := out.Device()
			assert.Equal(t, dev.Type(), kind)
			assert.Equal(t, dev.ID(), id)
			assert.Equal(t, dev != arrowbuf.CPU(), out.event != 0)
			back, err := ImportArray(out, dtype, checked)
			require.NoError(t, err, dtype)
			requireEqual(t, host, back)
			back.Release()
			host.Release()
		}
	})
}

// The memory of a wrapped device and that of the inner one are of one device.
func TestWrappedAndPlainDevicesMix(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		checked := arrowbuftest.Checked(t, dev)
		g := newGenerator(t)
		host := g.array(arrow.PrimitiveTypes.Int32, 9, false)
		defer host.Release()
		for _, from := range []arrowbuf.Device{dev, checked} {
			for _, to := range []arrowbuf.Device{dev, checked} {
				arr := upload(t, from, host)
				back, err := ImportArray(exported(t, arr, to), arr.DataType(), from)
				require.NoError(t, err)
				requireEqual(t, host, back)
				back.Release()
				arr.Release()
			}
		}
	})
}

func TestStreamsOfWrappedDevices(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		checked := arrowbuftest.Checked(t, dev)
		g := newGenerator(t)
		host := g.array(arrow.PrimitiveTypes.Int32, 9, false)
		defer host.Release()
		arr := upload(t, checked, host)
		defer arr.Release()
		schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arr.DataType(), Nullable: true}}, nil)
		batch, err := arrowbuf.NewRecordBatch(schema, []arrow.Array{arr}, 9)
		require.NoError(t, err)
		defer batch.Release()
		reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch})
		require.NoError(t, err)
		out := &DeviceStream{}
		require.NoError(t, ExportStream(reader, checked, out))
		reader.Release()
		got, err := ImportStream(out, checked)
		require.NoError(t, err)
		defer got.Release()
		require.True(t, got.Next(), "%v", got.Err())
		requireEqual(t, host, got.RecordBatch().Column(0))
		assert.False(t, got.Next())
		require.NoError(t, got.Err())
	})
}

// Pinned memory belongs to the host of a GPU, also of a wrapped one.
func TestPinnedMemoryOfWrappedGPUIsFound(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		g := newGenerator(t)
		host := g.array(arrow.PrimitiveTypes.Int32, 9, false)
		defer host.Release()
		arr := upload(t, dev.Host(), host)
		defer arr.Release()
		back, err := ImportArray(exported(t, arr, dev.Host()), arr.DataType(), arrowbuftest.Checked(t, dev))
		require.NoError(t, err)
		defer back.Release()
		requireEqual(t, host, back)
	})
}
