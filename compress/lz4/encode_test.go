package lz4_test

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
	quiver "github.com/quiver-gpu/quiver/compress/lz4"
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
	for _, n := range []int{0, 1, 4, 5, 11, 12, 13, 14, 20, 100, 3000, 65_535, 65_536, 65_537, 131_073, 300_000} {
		inputs = append(inputs, batchtest.Samples(r, n)...)
	}
	for _, in := range inputs {
		sizes = append(sizes, len(in))
	}
	batchtest.ForEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, o := range []quiver.EncodeOptions{{}, {Acceleration: 5, Scratch: 1}, {Scratch: 1 << 20}} {
			blocks, results := encode(t, dev, inputs, bounds(inputs), o)
			for i, in := range inputs {
				require.NoError(t, results[i].Err)
				got := make([]byte, len(in))
				require.NoError(t, quiver.DecodeBlock(got, blocks[i]), "input %d of %d bytes", i, len(in))
				require.True(t, bytes.Equal(in, got), "input %d of %d bytes", i, len(in))
			}
			got, results := batchtest.Run(t, dev, blocks, sizes, quiver.Decode)
			for i, in := range inputs {
				require.NoError(t, results[i].Err)
				require.True(t, bytes.Equal(in, got[i]), "input %d of %d bytes", i, len(in))
			}
		}
	})
}

func TestOnlyAnInputWhoseOutputIsTooSmallFails(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	inputs := batchtest.Samples(r, 100_000)
	batchtest.ForEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		full, results := encode(t, dev, inputs, bounds(inputs), quiver.EncodeOptions{})
		capacities := make([]int, len(inputs))
		for i := range inputs {
			require.NoError(t, results[i].Err)
			capacities[i] = len(full[i]) - i%2
		}
		exact, results := encode(t, dev, inputs, capacities, quiver.EncodeOptions{})
		for i := range inputs {
			if i%2 == 0 {
				require.NoError(t, results[i].Err)
				require.True(t, bytes.Equal(full[i], exact[i]))
				continue
			}
			assert.ErrorIs(t, results[i].Err, compress.ErrTooLarge)
			assert.ErrorContains(t, results[i].Err, fmt.Sprintf("lz4.Encode: input %d: ", i))
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
		results, err := quiver.Encode(compress.Batch{Src: b, Dst: b}, quiver.EncodeOptions{})
		require.NoError(t, err)
		require.Empty(t, results)
	})
}
