package cudabuf_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// checkedBuffer returns a buffer of a device that wraps dev, with n bytes of value.
func checkedBuffer(t *testing.T, dev arrowbuf.Device, n int, value byte) arrowbuf.Buffer {
	t.Helper()
	b, err := arrowbuftest.Checked(t, dev).Alloc(int64(n))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	_, err = b.CopyFromHost(bytes.Repeat([]byte{value}, n), 0)
	require.NoError(t, err)
	return b
}

// Functions that take a buffer of any device accept one that wraps memory of a GPU or
// its host, and use that memory: only then is a copy on a stream possible.
func TestCopiesAcceptWrappedBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, source := range map[string]arrowbuf.Device{"gpu": dev, "pinned": dev.Host(), "twice": arrowbuftest.Checked(t, dev)} {
			t.Run(name, func(t *testing.T) {
				src := checkedBuffer(t, source, 100, 7)
				want := bytes.Repeat([]byte{7}, 100)
				got := make([]byte, 100)
				dst, err := dev.NewBuffer(100)
				require.NoError(t, err)
				defer dst.Release()
				check := func(err error) {
					t.Helper()
					require.NoError(t, err)
					_, err = dst.CopyToHost(got, 0)
					require.NoError(t, err)
					assert.Equal(t, want, got)
					require.NoError(t, dst.Fill(0))
				}
				_, err = dst.CopyFromDevice(src, 0)
				check(err)
				stream, err := dev.NewStream(cudabuf.StreamOptions{})
				require.NoError(t, err)
				_, err = dst.CopyFromDeviceAsync(src, 0, stream)
				check(err)
				check(stream.Copy(dst, 0, src))
				require.NoError(t, stream.Close())
				copied, err := dev.CopyOf(src)
				require.NoError(t, err)
				defer copied.Release()
				_, err = copied.CopyToHost(got, 0)
				require.NoError(t, err)
				assert.Equal(t, want, got)
				equal, err := copied.Equal(src)
				require.NoError(t, err)
				assert.True(t, equal)
				_, done, err := dev.EventAfter(src)
				require.NoError(t, err)
				done()
			})
		}
	})
}

// A copy from wrapped pinned memory waits for the streams that still write to it.
func TestCopiesFromWrappedPinnedMemoryWaitForItsWriters(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		full := checkedBuffer(t, dev, 100, 7)
		stream, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, stream.Close()) }()
		dst, err := dev.NewBuffer(100)
		require.NoError(t, err)
		defer dst.Release()
		for name, read := range map[string]func(src arrowbuf.Buffer) error{
			"CopyFromDevice": func(src arrowbuf.Buffer) error { _, err := dst.CopyFromDevice(src, 0); return err },
			"CopyOf": func(src arrowbuf.Buffer) error {
				b, err := dev.CopyOf(src)
				if err != nil {
					return err
				}
				defer b.Release()
				_, err = dst.CopyFromDevice(b, 0)
				return err
			},
		} {
			src := checkedBuffer(t, dev.Host(), 100, 0)
			pinned, ok := arrowbuf.As[*cudabuf.HostBuffer](src)
			require.True(t, ok)
			inner, ok := arrowbuf.As[*cudabuf.Buffer](full)
			require.True(t, ok)
			require.NoError(t, stream.LaunchHostFunc(func() { time.Sleep(30 * time.Millisecond) }))
			_, err = pinned.CopyFromDeviceAsync(inner, 0, stream)
			require.NoError(t, err)
			require.NoError(t, read(src))
			got := make([]byte, 100)
			_, err = dst.CopyToHost(got, 0)
			require.NoError(t, err)
			assert.Equal(t, bytes.Repeat([]byte{7}, 100), got, name)
			require.NoError(t, dst.Fill(0))
		}
	})
}
