package ndview_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestSharingMemoryIsToldAsExactlyAsByNumPy(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/overlaps.txt")
	require.NoError(t, err)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		pool := upload(t, dev, make([]byte, 8192))
		cases := map[string]int{}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			words := strings.Fields(line)
			cases[line[len(line)-1:]]++
			want := strings.HasSuffix(line, "1")
			if len(words) == 3 {
				require.Equal(t, want, parseRun(t, line[:len(line)-2]).Overlaps(), line)
				continue
			}
			var arrays []*ndview.NDBuffer
			for _, run := range [][]string{words[:2], words[2:4]} {
				dtype := ndview.Bytes(int32(parse(t, run[0])[0]))
				arrays = append(arrays, over(t, pool, dtype, strings.Join(run, " ")))
			}
			require.Equal(t, want, ndview.MayShareMemory(arrays[0], arrays[1]), line)
		}
		assert.Greater(t, min(cases["0"], cases["1"]), 1000)
	})
}

func TestSharingMemoryGoesByAddresses(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		whole := upload(t, dev, make([]byte, 64))
		part := func(offset, length int64) *ndview.NDBuffer {
			b, err := whole.Slice(offset, length)
			own(t, b, err)
			return at(t, b, ndview.Uint8, 0, length)
		}
		left, right, middle, none := part(0, 32), part(32, 32), part(31, 2), part(16, 0)
		assert.False(t, ndview.MayShareMemory(left, right))
		assert.True(t, ndview.MayShareMemory(left, middle))
		assert.True(t, ndview.MayShareMemory(middle, right))
		assert.False(t, ndview.MayShareMemory(left, none), "nothing is shared with nothing")
		assert.False(t, ndview.MayShareMemory(none, none))
		far := at(t, upload(t, otherThan(t, dev), make([]byte, 64)), ndview.Uint8, 0, 64)
		assert.False(t, ndview.MayShareMemory(left, far), "another device")
		gone, err := left.Index()
		require.NoError(t, err)
		assert.True(t, ndview.MayShareMemory(left, gone))
		gone.Release()
		assert.False(t, ndview.MayShareMemory(left, gone), "a released array")
	})
}

func TestRegisteredMemoryIsTheHostsToo(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		ours := upload(t, arrowbuf.CPU(), make([]byte, 1<<16))
		bytes, _ := arrowbuf.HostBytes(ours)
		pinned, err := dev.RegisterHost(bytes, cudabuf.RegisterOptions{})
		own(t, pinned, err)
		a, b := at(t, ours, ndview.Uint8, 0, 1<<16), at(t, pinned, ndview.Uint8, 0, 1<<16)
		assert.NotEqual(t, a.Device(), b.Device())
		assert.True(t, ndview.MayShareMemory(a, b))
	})
}
