package arrowbuf_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestLargeHostMemoryIsAlignedAndStays(t *testing.T) {
	var buffers []arrowbuf.Buffer
	for i, n := range []int64{4<<20 - 1, 4 << 20, 4<<20 + 1, 9<<20 + 5} {
		b, err := arrowbuf.CPU().Alloc(n)
		require.NoError(t, err)
		assert.Zero(t, b.Address()%64)
		host, ok := arrowbuf.HostBytes(b)
		require.True(t, ok)
		require.Len(t, host, int(n))
		for j := range host {
			host[j] = byte(i + 1)
		}
		buffers = append(buffers, b)
		runtime.GC() // takes what nobody holds, for the next to be made of
	}
	for i, b := range buffers {
		host, _ := arrowbuf.HostBytes(b)
		assert.Equal(t, len(host), bytes.Count(host, []byte{byte(i + 1)}))
		b.Release()
	}
}

func TestMemoryThatArrowHasSeenIsNotUsedAgain(t *testing.T) {
	const n = 5 << 20
	b, err := arrowbuf.CPU().Alloc(n)
	require.NoError(t, err)
	seen := b.Arrow()
	values := seen.Bytes()
	for i := range values {
		values[i] = 7
	}
	seen.Release()
	b.Release()
	for range 3 {
		other, err := arrowbuf.CPU().Alloc(n)
		require.NoError(t, err)
		host, _ := arrowbuf.HostBytes(other)
		clear(host)
		defer other.Release()
	}
	assert.Equal(t, n, bytes.Count(values, []byte{7}))
}
