//go:build linux

package ndarray_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
	"github.com/quiver-gpu/quiver/ndview"
)

// Every dtype in every form crosses to another process, through each mechanism.
func TestArraysCrossProcessesWithDTypeShapeAndStrides(t *testing.T) {
	t.Run("cpu", func(t *testing.T) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		want := publishAll(t, catalog, hostMemory(t))
		assertSeen(t, want, inPeer(t, "cpu", peerTask{Path: s.Path()}))
	})
	forEachGPU(t, func(t *testing.T, m machine) {
		for name, allocate := range map[string]func(int64) (*cudabuf.Buffer, error){"cuda-fd": m.dev.NewFDBuffer, "cuda-ipc": m.dev.NewIPCBuffer, "copied": m.dev.NewBuffer} {
			t.Run(name, func(t *testing.T) {
				catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
				want := publishAll(t, catalog, func(n int64) arrowbuf.Buffer {
					b, err := allocate(n)
					require.NoError(t, err)
					return b
				})
				assertSeen(t, want, inPeer(t, m.kind, peerTask{Path: s.Path()}))
				for name, w := range want {
					w.Device = arrowbuf.CPU().Type().String()
					want[name] = w
				}
				assertSeen(t, want, inPeer(t, "cpu", peerTask{Path: s.Path()}))
			})
		}
	})
}

func hostMemory(t *testing.T) func(n int64) arrowbuf.Buffer {
	return func(n int64) arrowbuf.Buffer {
		b, err := arrowbuf.CPU().Alloc(n)
		require.NoError(t, err)
		return b
	}
}

// An array in this process is the published memory itself, and read-only, too.
func TestArraysOfThisProcessAreThePublishedMemory(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		a, err := ndview.FromSlice(m.device(), []float32{1, 2, 3, 4, 5, 6}, 2, 3)
		require.NoError(t, err)
		defer a.Release()
		turned, err := a.Transpose()
		require.NoError(t, err)
		defer turned.Release()
		require.NoError(t, ndarray.Publish(catalog, "a", turned))
		client, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{})
		require.NoError(t, err)
		defer client.Close()
		got, err := ndarray.Open(shortContext(t), client, "a")
		require.NoError(t, err)
		defer got.Release()
		assert.True(t, ndview.MayShareMemory(a, got))
		assert.Equal(t, m.device(), got.Device())
		assert.Equal(t, []int64{3, 2}, got.Shape())
		assert.Equal(t, []int64{4, 12}, got.Strides())
		assert.ErrorIs(t, got.Fill(7), ndview.ErrReadOnly)
		values, err := ndview.ToHost[float32](got)
		require.NoError(t, err)
		assert.Equal(t, []float32{1, 4, 2, 5, 3, 6}, values)
	})
}

// A write to memory of another process must be an error: the mapping is read-only, and
// a write would end the program.
func TestSharedArraysRefuseWrites(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		a, err := ndview.FromSlice(m.device(), []int32{1, 2, 3})
		require.NoError(t, err)
		defer a.Release()
		require.NoError(t, ndarray.Publish(catalog, "a", a))
		client, err := ipc.Dial(shortContext(t), s.Path(), m.dialOptions(handle.CUDAFD, handle.Memory))
		require.NoError(t, err)
		defer client.Close()
		got, err := ndarray.Open(shortContext(t), client, "a")
		require.NoError(t, err)
		defer got.Release()
		assert.False(t, ndview.MayShareMemory(a, got), "the memory is copied")
		assert.ErrorIs(t, got.Fill(7), ndview.ErrReadOnly)
		assert.ErrorIs(t, got.Assign(a), ndview.ErrReadOnly)
		b := got.Buffer()
		_, err = b.CopyFromHost([]byte{1}, 0)
		assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
		_, err = b.WriteAt([]byte{1}, 0)
		assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
		part, err := b.Slice(4, 4)
		require.NoError(t, err)
		defer part.Release()
		_, err = part.CopyFromDevice(a.Buffer(), 0)
		assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
		values, err := ndview.ToHost[int32](got)
		require.NoError(t, err)
		assert.Equal(t, []int32{1, 2, 3}, values)
	})
}

func (m machine) dialOptions(mechanisms ...handle.Mechanism) ipc.DialOptions {
	o := ipc.DialOptions{Mechanisms: mechanisms}
	if m.dev != nil {
		o.Devices = []arrowbuf.Device{m.dev}
	}
	return o
}

// Of a view, only its extent is published: the server neither copies nor counts other
// bytes of the array.
func TestOnlyTheExtentOfAViewIsShared(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		secret := make([]int64, 1<<17)
		for i := range secret {
			secret[i] = 0x5ec5e7
		}
		a, err := ndview.FromSlice(m.device(), secret)
		require.NoError(t, err)
		defer a.Release()
		view, err := a.Index(ndview.SpanStep(70000, 70010, 3))
		require.NoError(t, err)
		defer view.Release()
		require.NoError(t, ndarray.Publish(catalog, "view", view))
		assert.Equal(t, int64(3*3*8+8), catalog.List()[0].Bytes)
		client, err := ipc.Dial(shortContext(t), s.Path(), m.dialOptions(handle.CUDAFD, handle.Memory))
		require.NoError(t, err)
		defer client.Close()
		got, err := ndarray.Open(shortContext(t), client, "view")
		require.NoError(t, err)
		defer got.Release()
		assert.Equal(t, int64(80), got.Buffer().Len())
		for _, b := range s.Stat().Blocks {
			assert.LessOrEqual(t, b.Size, int64(2<<20), "a block is a granule, not the array")
		}
		held := client.Leases()
		require.Len(t, held, 1)
		assert.Equal(t, int64(80), held[0].Bytes)
	})
}

// Wrapped memory is shared as the memory itself is.
func TestArraysOfWrappedDevicesAreSharedInPlace(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		memory, err := m.dev.NewFDBuffer(100)
		require.NoError(t, err)
		defer memory.Release()
		require.NoError(t, memory.Fill(3))
		a, err := ndview.FromBuffer(wrapped{memory}, ndview.Uint8, 10, []int64{5}, nil)
		require.NoError(t, err)
		defer a.Release()
		require.NoError(t, ndarray.Publish(catalog, "a", a))
		checked := arrowbuftest.Checked(t, m.dev)
		client, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Devices: []arrowbuf.Device{checked}, Mechanisms: handle.Mechanisms{handle.CUDAFD}})
		require.NoError(t, err)
		defer client.Close()
		got, err := ndarray.Open(shortContext(t), client, "a")
		require.NoError(t, err)
		defer got.Release()
		require.NoError(t, memory.Fill(9))
		b, err := got.Bytes()
		require.NoError(t, err)
		assert.Equal(t, []byte{9, 9, 9, 9, 9}, b, "a copy would still have 3")
	})
}

// wrapped is a buffer that another one wraps, as arrowbuftest.Checked does.
type wrapped struct{ arrowbuf.Buffer }

func (w wrapped) Unwrap() arrowbuf.Buffer { return w.Buffer }

func (w wrapped) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	part, err := w.Buffer.Slice(offset, length)
	return wrapped{part}, err
}

// The counterpart of pygpu's get_ipc_handle, without a server: the handle has the
// place of the extent, the layout the rest.
func TestMemHandleAndLayoutOpenAnArrayInAnotherProcess(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		task := peerTask{Handles: map[string]cudabuf.MemHandle{}, Layouts: map[string][]byte{}}
		want := map[string]seen{}
		memory, err := m.dev.NewIPCBuffer(memoryBytes)
		require.NoError(t, err)
		defer memory.Release()
		_, err = memory.CopyFromHost(memoryFor(ndview.Float32), 0)
		require.NoError(t, err)
		for form, l := range layouts(4) {
			l.DType = ndview.Float32
			a, err := l.Array(memory)
			require.NoError(t, err)
			layout, extent, err := ndarray.Of(a)
			require.NoError(t, err)
			if extent.Len() > 0 { // an empty buffer has no handle
				task.Handles[form], err = extent.(*cudabuf.Buffer).ExportIPC()
				require.NoError(t, err)
				task.Layouts[form], err = layout.MarshalBinary()
				require.NoError(t, err)
				want[form], err = look(a)
				require.NoError(t, err)
			}
			extent.Release()
			a.Release()
		}
		assertSeen(t, want, inPeer(t, m.kind, task))
	})
}

func TestNamesOfOtherKindsAreErrors(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	b, err := arrowbuf.CPU().Alloc(8)
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, catalog.PublishBuffer("buffer", b))
	a, err := ndview.FromSlice(arrowbuf.CPU(), []int8{1})
	require.NoError(t, err)
	defer a.Release()
	require.NoError(t, ndarray.Publish(catalog, "array", a))
	assert.ErrorIs(t, ndarray.Publish(catalog, "array", a), ipc.ErrExists)
	assert.Equal(t, "array", catalog.List()[0].Kind.String())
	for _, mechanism := range []handle.Mechanism{handle.Local, handle.Memory} {
		client, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{mechanism}})
		require.NoError(t, err)
		defer client.Close()
		_, err = ndarray.Open(shortContext(t), client, "buffer")
		assert.ErrorIs(t, err, ipc.ErrWrongKind)
		_, err = ndarray.Open(shortContext(t), client, "nothing")
		assert.ErrorIs(t, err, ipc.ErrNotFound)
		_, err = client.Buffer(shortContext(t), "array")
		assert.ErrorIs(t, err, ipc.ErrWrongKind)
		_, err = client.Table(shortContext(t), "array")
		assert.ErrorIs(t, err, ipc.ErrWrongKind)
		_, err = client.Stream(shortContext(t), "array", 1)
		assert.ErrorIs(t, err, ipc.ErrWrongKind)
		require.NoError(t, client.Err(), "the connection stays open")
	}
	_, err = catalog.Buffer("array")
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
	_, _, err = catalog.Array("buffer")
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
}

// A malformed layout from a server is an error, and its lease ends.
func TestOpenRejectsInvalidLayouts(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	b, err := arrowbuf.CPU().Alloc(64)
	require.NoError(t, err)
	defer b.Release()
	client, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
	require.NoError(t, err)
	defer client.Close()
	for name, encoded := range invalidLayouts(t) {
		require.NoError(t, catalog.PublishArray(name, encoded, b))
		_, err := ndarray.Open(shortContext(t), client, name)
		assert.ErrorIs(t, err, ipc.ErrFault, name)
	}
	assert.Empty(t, client.Leases())
}
