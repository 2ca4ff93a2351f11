package cudabuf_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// upload returns a buffer on a device that holds the bytes.
func upload(t testing.TB, dev arrowbuf.Device, data []byte) arrowbuf.Buffer {
	t.Helper()
	b, err := dev.Alloc(int64(len(data)))
	require.NoError(t, err)
	n, err := b.CopyFromHost(data, 0)
	require.NoError(t, err)
	require.EqualValues(t, len(data), n)
	return b
}

// download returns what a buffer holds.
func download(t testing.TB, b arrowbuf.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Len())
	n, err := b.CopyToHost(data, 0)
	require.NoError(t, err)
	require.EqualValues(t, len(data), n)
	return data
}

// pattern returns n bytes that tell places apart.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// foreign makes a slice of an address that Go does not own.
func foreign(address uintptr, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}
