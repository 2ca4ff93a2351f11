package cudabuf_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	apitest.Zeros{
		Functions: map[string]any{
			"CheckDeviceName": cudabuf.CheckDeviceName, "CloseDevices": cudabuf.CloseDevices, "FromArrow": cudabuf.FromArrow,
			"In": cudabuf.In, "InOut": cudabuf.InOut, "LimitMemory": cudabuf.LimitMemory, "NewBufferReader": cudabuf.NewBufferReader,
			"NewBufferWriter": cudabuf.NewBufferWriter, "OpenDevice": cudabuf.OpenDevice, "ParsePyArrow": cudabuf.ParsePyArrow, "ParseUUID": cudabuf.ParseUUID,
			"Open":     nil, // without arguments
			"Elements": nil, // needs the launch that a host kernel is given
		},
		Values: valuesOfEachType(t),
		Args:   []any{[]byte("live"), int64(1), int32(1), cudabuf.Dim3{X: 1}},
		Skip:   []string{"Retain", "Release", "Close"},
		Optional: []string{
			"Device.OpenFD", "Device.SetPool", "Device.WrapExternal", "Device.WrapExternalAfter", "SharedPool.NewBuffer", // nil has a meaning that is documented
		},
		Panics: arrowbuf.ErrReleased,
	}.Run(t, ".")
}

// valuesOfEachType returns a live value of each exported type that has methods, or nil
// where only the driver or another process makes them.
func valuesOfEachType(t *testing.T) map[string]any {
	d := cudatest.Start(t, cudatest.Config{})
	must := func(v any, err error) any { require.NoError(t, err); return v }
	dev := must(d.Device(0)).(*cudabuf.Device)
	buffer := must(dev.FromHost([]byte("live"))).(*cudabuf.Buffer)
	host := must(dev.NewHostBuffer(8, cudabuf.HostOptions{})).(*cudabuf.HostBuffer)
	shared := must(dev.NewSharedPool()).(*cudabuf.SharedPool)
	stream := must(dev.NewStream(cudabuf.StreamOptions{})).(*cudabuf.Stream)
	event := must(dev.NewEvent(cudabuf.EventOptions{})).(*cudabuf.Event)
	graph := must(dev.Capture(func(*cudabuf.Stream) error { return nil })).(*cudabuf.Graph)
	pool := must(dev.NewPool(cudabuf.PoolOptions{})).(*cudabuf.Pool)
	k := kernel(t, dev, "add_int32")
	reader, writer := must(cudabuf.NewBufferReader(buffer)).(*cudabuf.BufferReader), must(cudabuf.NewBufferWriter(buffer)).(*cudabuf.BufferWriter)
	t.Cleanup(func() {
		require.NoError(t, reader.Close())
		require.NoError(t, writer.Close())
		buffer.Release()
		host.Release()
		for _, c := range []interface{ Close() error }{shared, stream, event, graph, pool} {
			require.NoError(t, c.Close())
		}
	})
	return map[string]any{
		"Buffer": buffer, "BufferReader": reader, "BufferWriter": writer,
		"Device": dev, "Driver": d, "Error": new(cudabuf.Error), "Event": event, "Graph": graph, "HostBuffer": host, "Kernel": k,
		"Leak": cudabuf.Leak{}, "MemHandle": cudabuf.MemHandle{}, "Module": must(dev.LoadModule([]byte("image"), nil)),
		"PinnedAllocator": dev.HostAllocator(), "Pool": pool, "PoolKind": cudabuf.PoolKind(99), "Region": cudabuf.Region{}, "Result": cudabuf.Result(0),
		"SharedPool": shared, "Stream": stream, "UUID": cudabuf.UUID{}, "memoryView": nil,
		"HostLaunch": nil, "PeerPool": nil, "PoolHandle": cudabuf.PoolHandle{}, "EventHandle": cudabuf.EventHandle{}, "hostDevice": nil, "ipcPool": nil,
	}
}

func TestNilKernelArgumentsAreErrors(t *testing.T) {
	k := kernel(t, cudatest.NewDevice(t), "add_int32")
	for _, arg := range []any{nil, (*cudabuf.Buffer)(nil), (*cudabuf.HostBuffer)(nil), cudabuf.In(nil, 0), cudabuf.InOut(nil, 0)} {
		assert.ErrorContains(t, k.LaunchN(1, arg, int64(1), int32(1)), "nil", "%T", arg)
	}
}
