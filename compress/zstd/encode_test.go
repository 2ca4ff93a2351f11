package zstd_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/zstd"
)

// encode encodes a batch of inputs at odd places of one buffer.
func encode(t *testing.T, dev arrowbuf.Device, inputs [][]byte, capacities []int, o quiver.EncodeOptions) ([][]byte, []compress.Result) {
	t.Helper()
	return batchtest.Run(t, dev, inputs, capacities, func(b compress.Batch) ([]compress.Result, error) { return quiver.Encode(b, o) })
}

// bounds returns the capacities that always suffice.
func bounds(inputs [][]byte) []int {
	all := make([]int, len(inputs))
	for i, in := range inputs {
		all[i] = int(quiver.Bound(int64(len(in))))
	}
	return all
}

func TestEncodedBatchesDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var inputs [][]byte
	var sizes []int
	most := 300_000
	if testing.Short() {
		most = 140_000
	}
	for _, n := range []int{0, 1, 2, 7, 8, 9, 100, 255, 256, 257, 3000, 65_535, 65_536, 65_537, 131_073, most} {
		inputs = append(inputs, batchtest.Samples(r, n)...)
	}
	for _, in := range inputs {
		sizes = append(sizes, len(in))
	}
	batchtest.ForEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, o := range []quiver.EncodeOptions{{}, {Level: 1, Checksum: true}, {Level: -5, Scratch: 1}, {Level: 9, Scratch: 1 << 20}} {
			t.Run(fmt.Sprintf("level %d", o.Level), func(t *testing.T) {
				frames, results := encode(t, dev, inputs, bounds(inputs), o)
				for i, in := range inputs {
					require.NoError(t, results[i].Err)
					got, err := quiver.DecodeFrames(nil, frames[i], int64(len(in)))
					require.NoError(t, err, "input %d of %d bytes", i, len(in))
					require.True(t, bytes.Equal(in, got), "input %d of %d bytes", i, len(in))
				}
				got, results := decode(t, dev, frames, sizes, compress.Options{})
				for i, in := range inputs {
					require.NoError(t, results[i].Err)
					require.True(t, bytes.Equal(in, got[i]), "input %d of %d bytes", i, len(in))
				}
			})
		}
	})
}

func TestOnlyAnInputWhoseOutputIsTooSmallFails(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	inputs := batchtest.Samples(r, 100_000)
	batchtest.ForEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		full, results := encode(t, dev, inputs, bounds(inputs), quiver.EncodeOptions{Checksum: true})
		capacities := make([]int, len(inputs))
		for i := range inputs {
			require.NoError(t, results[i].Err)
			capacities[i] = len(full[i]) - i%2
		}
		exact, results := encode(t, dev, inputs, capacities, quiver.EncodeOptions{Checksum: true})
		for i := range inputs {
			if i%2 == 0 {
				require.NoError(t, results[i].Err)
				require.True(t, bytes.Equal(full[i], exact[i]))
				continue
			}
			assert.ErrorIs(t, results[i].Err, compress.ErrTooLarge)
			assert.ErrorContains(t, results[i].Err, fmt.Sprintf("zstd.Encode: input %d: ", i))
		}
		_, results = encode(t, dev, inputs, make([]int, len(inputs)), quiver.EncodeOptions{})
		for i := range inputs {
			require.ErrorIs(t, results[i].Err, compress.ErrTooLarge)
		}
	})
}

func TestEncodeChecksItsArguments(t *testing.T) {
	batchtest.ForEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := dev.Alloc(10)
		require.NoError(t, err)
		defer b.Release()
		one := []compress.Range{{Offset: 0, Length: 1}}
		_, err = quiver.Encode(compress.Batch{Src: b, Dst: b, In: one}, quiver.EncodeOptions{})
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = quiver.Encode(compress.Batch{Src: b, Dst: b}, quiver.EncodeOptions{Level: 23})
		require.ErrorContains(t, err, "level 23")
		results, err := quiver.Encode(compress.Batch{Src: b, Dst: b}, quiver.EncodeOptions{})
		require.NoError(t, err)
		require.Empty(t, results)
	})
}
