package cudabuf_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// Ranges of ordinary and of pinned memory, of any length, fill parts of a buffer and
// nothing else.
func TestRangesArriveWhereTheySay(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		manyParts(t, dev)
		rng := rand.New(rand.NewPCG(1, 2))
		for _, most := range []int{10, 500, 5000, 40_000} {
			for name, kinds := range map[string]int{"ordinary": 1, "mixed": 3} {
				want := bytes.Repeat([]byte{0xee}, 40)
				var ranges []arrowbuf.HostRange
				for i := range 50 {
					data := pattern(rng.IntN(most))
					host := data
					switch i % kinds {
					case 1:
						host = pinnedBuffer(t, dev, int64(len(data))).HostBytes()
					case 2:
						host = dev.HostAllocator().Allocate(len(data))
						t.Cleanup(func() { dev.HostAllocator().Free(host) })
					}
					for j := range data {
						data[j] ^= byte(i)
					}
					copy(host, data)
					ranges = append(ranges, arrowbuf.HostRange{Bytes: host, Pos: int64(len(want))})
					want = append(append(want, data...), bytes.Repeat([]byte{0xee}, rng.IntN(3))...)
				}
				rng.Shuffle(len(ranges), func(i, j int) { ranges[i], ranges[j] = ranges[j], ranges[i] })
				b := newBuffer(t, dev, int64(len(want)))
				require.NoError(t, b.Fill(0xee))
				require.NoError(t, b.CopyRangesFromHost(ranges), name)
				assertBytes(t, want, download(t, b))
			}
		}
	})
}

func TestRangesThatDoNotFitCopyNothing(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := newBuffer(t, dev, 10)
		require.NoError(t, b.Fill(0xee))
		for _, bad := range []arrowbuf.HostRange{{Bytes: make([]byte, 2), Pos: 9}, {Bytes: make([]byte, 1), Pos: -1}, {Pos: 11}} {
			assert.ErrorIs(t, b.CopyRangesFromHost([]arrowbuf.HostRange{{Bytes: []byte{1}}, bad}), arrowbuf.ErrOutOfRange)
		}
		assert.Equal(t, bytes.Repeat([]byte{0xee}, 10), download(t, b))
		require.NoError(t, b.CopyRangesFromHost(nil))
		require.NoError(t, b.CopyRangesFromHost([]arrowbuf.HostRange{{Pos: 10}}))
		shown, err := b.ReadOnly()
		require.NoError(t, err)
		defer shown.Release()
		assert.ErrorIs(t, shown.CopyRangesFromHost(nil), cudabuf.ErrReadOnly)
		gone, err := dev.NewBuffer(4)
		require.NoError(t, err)
		gone.Release()
		assert.ErrorIs(t, gone.CopyRangesFromHost(nil), arrowbuf.ErrReleased)
	})
}

func TestRangesWaitForOtherStreams(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		manyParts(t, dev)
		for name, host := range map[string][]byte{"ordinary": pattern(50_000), "pinned": pinnedBuffer(t, dev, 50_000).HostBytes()} {
			copy(host, pattern(50_000))
			s, b := stream(t, dev), newBuffer(t, dev, 50_000)
			open := gate(t, s)
			require.NoError(t, b.FillAsync(7, s))
			go open()
			require.NoError(t, b.CopyRangesFromHost([]arrowbuf.HostRange{{Bytes: host[:30_000]}, {Bytes: host[30_000:], Pos: 30_000}}), name)
			assertBytes(t, host, download(t, b))
		}
	})
}

// Pinned memory goes in one train, ordinary memory as if it were one piece.
func TestManyRangesWaitOnce(t *testing.T) {
	dev, calls := tally(t)
	manyParts(t, dev)
	const each, n = 1024, 64
	b := newBuffer(t, dev, each*n)
	for name, host := range map[string][]byte{"ordinary": make([]byte, each*n), "pinned": pinnedBuffer(t, dev, each*n).HostBytes()} {
		var ranges []arrowbuf.HostRange
		for i := range n {
			ranges = append(ranges, arrowbuf.HostRange{Bytes: host[i*each:][:each], Pos: int64(i * each)})
		}
		calls("cuStreamSynchronize")
		calls("cuMemcpyHtoDAsync")
		calls("cuEventRecord")
		require.NoError(t, b.CopyRangesFromHost(ranges))
		assert.Equal(t, n, calls("cuMemcpyHtoDAsync"), name)
		assert.LessOrEqual(t, calls("cuStreamSynchronize"), 2, name)
		if name == "ordinary" {
			assert.Equal(t, each*n/8192, calls("cuEventRecord"), "pieces")
		}
	}
}
