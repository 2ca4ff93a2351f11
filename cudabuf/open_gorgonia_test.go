//go:build gorgonia

package cudabuf_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// A program shares its Gorgonia context, stream and memory with this package, and destroys
// them afterwards.
func TestWrapGorgoniaObjects(t *testing.T) {
	d, err := cudabuf.Open()
	require.NoError(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	gpu, err := cu.GetDevice(0)
	require.NoError(t, err)
	context, err := gpu.MakeContext(cu.SchedAuto)
	require.NoError(t, err)
	theirs, err := cu.MakeStream(cu.NonBlocking)
	require.NoError(t, err)
	memory, err := cu.MemAlloc(64)
	require.NoError(t, err)

	dev, err := d.WrapCU(context)
	require.NoError(t, err)
	assert.Equal(t, context, dev.CU())
	s, err := dev.WrapCUStream(theirs)
	require.NoError(t, err)
	assert.Equal(t, theirs, s.CU())
	b, err := dev.WrapExternalCU(memory, 64, nil)
	require.NoError(t, err)
	assert.Equal(t, memory, b.CU())
	require.NoError(t, b.FillAsync(7, s))
	require.NoError(t, cu.SetCurrentContext(context))
	require.NoError(t, theirs.Synchronize())
	got, err := b.Bytes()
	require.NoError(t, err)
	assert.Equal(t, bytes.Repeat([]byte{7}, 64), got)

	own, err := dev.FromHost([]byte("quiver"))
	require.NoError(t, err)
	require.NoError(t, cu.SetCurrentContext(context))
	require.NoError(t, cu.MemcpyDtoD(memory, own.CU(), 6))
	got, err = b.Bytes()
	require.NoError(t, err)
	assert.Equal(t, "quiver", string(got[:6]))

	own.Release()
	b.Release()
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
	require.NoError(t, cu.SetCurrentContext(context))
	require.NoError(t, cu.MemFree(memory))
	require.NoError(t, theirs.Destroy())
	require.NoError(t, context.Destroy())
}
