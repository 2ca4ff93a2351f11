package pack_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// randomBatch returns ranges of a buffer of size bytes in random order, and the size of
// the outputs.
func randomBatch(r *rand.Rand, size int64, lengths []int64) (b compress.Batch, end int64) {
	for _, n := range lengths {
		b.In = append(b.In, compress.Range{Offset: r.Int64N(size - n + 1), Length: n})
		end += r.Int64N(20)
		b.Out = append(b.Out, compress.Range{Offset: end, Length: n + r.Int64N(3)})
		end += b.Out[len(b.Out)-1].Length
	}
	r.Shuffle(len(b.In), func(i, k int) {
		if b.In[i].Length == b.In[k].Length {
			b.Out[i], b.Out[k] = b.Out[k], b.Out[i]
		}
	})
	return b, end + 3
}

func TestRangesAreCopiedAndNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const size = 1 << 20
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var short, mixed, many []int64
	for n := range int64(70) {
		for range 8 {
			short = append(short, n)
		}
	}
	for range 40 {
		mixed = append(mixed, r.Int64N(100_000), r.Int64N(20), 0, 16<<10, 32<<10, 16<<10-1, 16<<10+1)
	}
	for range 40_000 {
		many = append(many, r.Int64N(40))
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, lengths := range map[string][]int64{
			"short": short, "mixed": mixed, "many": many, "one": {size}, "empty": {0, 0}, "none": nil,
		} {
			t.Run(name, func(t *testing.T) {
				b, end := randomBatch(r, size, lengths)
				want := bytes.Repeat([]byte{0xEE}, int(end))
				b.Src, b.Dst = batchtest.Upload(t, dev, data), batchtest.Upload(t, dev, want)
				require.NoError(t, pack.Copy(b))
				for i, in := range b.In {
					copy(want[b.Out[i].Offset:], data[in.Offset:in.Offset+in.Length])
				}
				require.True(t, bytes.Equal(want, batchtest.Download(t, b.Dst)))
			})
		}
	})
}

func TestAnOutputThatIsTooShortIsAnError(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := compress.Batch{Src: batchtest.Upload(t, dev, make([]byte, 10)), Dst: batchtest.Upload(t, dev, make([]byte, 10))}
		b.In, b.Out = []compress.Range{{Offset: 0, Length: 5}}, []compress.Range{{Offset: 0, Length: 4}}
		require.ErrorIs(t, pack.Copy(b), arrowbuf.ErrOutOfRange)
		b.Out[0] = compress.Range{Offset: 6, Length: 5}
		require.ErrorIs(t, pack.Copy(b), arrowbuf.ErrOutOfRange)
	})
}
