package lz4_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
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
		inputs = append(append(inputs, batchtest.Samples(r, n)...), batchtest.Adversarial(r, n)...)
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

// TestDevicesEncodeTheSameBytes compares each device that runs kernels with the host
// implementations.
func TestDevicesEncodeTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var inputs [][]byte
	for _, n := range []int{0, 40, 700, 9_000, 66_000, 200_000} {
		n += r.IntN(100)
		inputs = append(append(inputs, batchtest.Samples(r, n)...), batchtest.Adversarial(r, n)...)
	}
	want, _ := encode(t, batchtest.Simulated(t), inputs, bounds(inputs), quiver.EncodeOptions{})
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		got, results := encode(t, dev, inputs, bounds(inputs), quiver.EncodeOptions{Scratch: 1 << 20})
		for i, in := range inputs {
			require.NoError(t, results[i].Err)
			require.True(t, bytes.Equal(want[i], got[i]), "input %d of %d bytes", i, len(in))
		}
	})
}

// TestBatchesOfManyAndOfHugeInputsEncode has a million inputs, and one of 2 GiB, on a GPU.
func TestBatchesOfManyAndOfHugeInputsEncode(t *testing.T) {
	many, huge := int64(20_000), int64(5<<20)
	if testing.Short() {
		many, huge = 1000, 1<<20
	}
	if cudatest.OnGPU() {
		many, huge = 1_000_000, quiver.MaxSize
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if cudatest.OnGPU() != strings.HasSuffix(t.Name(), "cuda") {
			t.Skip("the test runs on the GPU")
		}
		check := func(data []byte, size int64) {
			n := int64(len(data)) / size
			b := compress.Batch{Src: batchtest.Upload(t, dev, data)}
			room := min(quiver.Bound(size), compress.MaxSize)
			var err error
			b.Dst, err = dev.Alloc(n * room)
			require.NoError(t, err)
			defer b.Dst.Release()
			for i := range n {
				b.In = append(b.In, compress.Range{Offset: i * size, Length: size})
				b.Out = append(b.Out, compress.Range{Offset: i * room, Length: room})
			}
			results, err := quiver.Encode(b, quiver.EncodeOptions{})
			require.NoError(t, err)
			back := compress.Batch{Src: b.Dst, Out: b.In}
			for i, r := range results {
				require.NoError(t, r.Err)
				back.In = append(back.In, compress.Range{Offset: b.Out[i].Offset, Length: r.Length})
			}
			back.Dst, err = dev.Alloc(n * size)
			require.NoError(t, err)
			defer back.Dst.Release()
			results, err = quiver.Decode(back)
			require.NoError(t, err)
			for _, r := range results {
				require.NoError(t, r.Err)
				require.Equal(t, size, r.Length)
			}
			require.True(t, bytes.Equal(data, batchtest.Download(t, back.Dst)))
		}
		data := make([]byte, max(100*many, huge))
		r := rand.New(rand.NewPCG(9, 10))
		for i := range data {
			if i%5 == 0 || i < len(data)/2 {
				data[i] = byte(r.Uint32()) // the first half is incompressible
			}
		}
		check(data[int64(len(data))-100*many:], 100)
		check(data[:huge], huge)
	})
}

// FuzzEncode encodes by the host implementations of the kernels. The input is repeated some
// times, so that it may exceed a block.
func FuzzEncode(f *testing.F) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, in := range append(batchtest.Samples(r, 300), batchtest.Adversarial(r, 300)...) {
		f.Add(in, uint8(1))
		f.Add(in, uint8(200))
	}
	f.Fuzz(func(t *testing.T, in []byte, times uint8) {
		in = bytes.Repeat(in, int(times))
		out, results := encode(t, batchtest.Simulated(t), [][]byte{in}, bounds([][]byte{in}), quiver.EncodeOptions{})
		require.NoError(t, results[0].Err)
		got := make([]byte, len(in))
		require.NoError(t, quiver.DecodeBlock(got, out[0]))
		require.True(t, bytes.Equal(in, got))
	})
}
