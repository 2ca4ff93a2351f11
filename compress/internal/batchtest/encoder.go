package batchtest

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
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// Function runs a batch.
type Function = func(b compress.Batch) ([]compress.Result, error)

// Format is a format whose encoder is tested.
type Format struct {
	Name    string              // of the encoder in errors, such as "zstd.Encode"
	Bound   func(n int64) int64 // of the package
	MaxSize int64               // of an input
	Encode  Function            // with the default options
	Decode  Function
	// DecodeOnHost returns the decoded form of one input, of n bytes.
	DecodeOnHost func(in []byte, n int) ([]byte, error)
}

// Run encodes inputs at odd places of one buffer, with room for every result, unless capacities are given.
func (f *Format) Run(t *testing.T, dev arrowbuf.Device, encode Function, inputs [][]byte, capacities []int) ([][]byte, []compress.Result) {
	t.Helper()
	if capacities == nil {
		for _, in := range inputs {
			capacities = append(capacities, int(f.Bound(int64(len(in)))))
		}
	}
	return Run(t, dev, inputs, capacities, encode)
}

// inputs returns samples and hard cases of some sizes.
func inputs(r *rand.Rand, sizes ...int) (all [][]byte) {
	for _, n := range sizes {
		all = append(append(all, Samples(r, n)...), Adversarial(r, n)...)
	}
	return all
}

// DecodesWhatItEncodes checks that inputs of some sizes, encoded with options that have
// names, come back on the host and on the device.
func (f *Format) DecodesWhatItEncodes(t *testing.T, encoders map[string]Function, sizes ...int) {
	all := inputs(rand.New(rand.NewPCG(3, 4)), sizes...)
	lengths := make([]int, len(all))
	for i, in := range all {
		lengths[i] = len(in)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, encode := range encoders {
			t.Run(name, func(t *testing.T) {
				encoded, results := f.Run(t, dev, encode, all, nil)
				for i, in := range all {
					require.NoError(t, results[i].Err)
					got, err := f.DecodeOnHost(encoded[i], len(in))
					require.NoError(t, err, "input %d of %d bytes", i, len(in))
					require.True(t, bytes.Equal(in, got), "input %d of %d bytes", i, len(in))
				}
				got, results := Run(t, dev, encoded, lengths, f.Decode)
				for i, in := range all {
					require.NoError(t, results[i].Err)
					require.True(t, bytes.Equal(in, got[i]), "input %d of %d bytes", i, len(in))
				}
			})
		}
	})
}

// FailsOnlyWithoutRoom checks that only an input whose output is too small is an error.
func (f *Format) FailsOnlyWithoutRoom(t *testing.T) {
	all := Samples(rand.New(rand.NewPCG(5, 6)), 100_000)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		full, results := f.Run(t, dev, f.Encode, all, nil)
		capacities := make([]int, len(all))
		for i := range all {
			require.NoError(t, results[i].Err)
			capacities[i] = len(full[i]) - i%2
		}
		exact, results := f.Run(t, dev, f.Encode, all, capacities)
		for i := range all {
			if i%2 == 0 {
				require.NoError(t, results[i].Err)
				require.True(t, bytes.Equal(full[i], exact[i]))
				continue
			}
			assert.ErrorIs(t, results[i].Err, compress.ErrTooLarge)
			assert.ErrorContains(t, results[i].Err, fmt.Sprintf("%s: input %d: ", f.Name, i))
		}
		_, results = f.Run(t, dev, f.Encode, all, make([]int, len(all)))
		for i := range all {
			require.ErrorIs(t, results[i].Err, compress.ErrTooLarge)
		}
	})
}

// ChecksBatches checks that an invalid batch is an error, and that an empty one is none.
func (f *Format) ChecksBatches(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := dev.Alloc(10)
		require.NoError(t, err)
		defer b.Release()
		_, err = f.Encode(compress.Batch{Src: b, Dst: b, In: []compress.Range{{Offset: 0, Length: 1}}})
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		require.ErrorContains(t, err, f.Name+": ")
		results, err := f.Encode(compress.Batch{Src: b, Dst: b})
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// EncodesTheSameOnAllDevices compares each device that runs kernels with the host
// implementations. inSteps uses little memory, so that the batch is divided.
func (f *Format) EncodesTheSameOnAllDevices(t *testing.T, encode, inSteps Function) {
	r := rand.New(rand.NewPCG(7, 8))
	all := inputs(r, r.IntN(100), 40+r.IntN(100), 700+r.IntN(100), 9_000+r.IntN(100), 66_000+r.IntN(100), 200_000+r.IntN(100))
	want, _ := f.Run(t, Simulated(t), encode, all, nil)
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		got, results := f.Run(t, dev, inSteps, all, nil)
		for i, in := range all {
			require.NoError(t, results[i].Err)
			require.True(t, bytes.Equal(want[i], got[i]), "input %d of %d bytes", i, len(in))
		}
	})
}

// EncodesManyAndHugeInputs encodes a million inputs, and one of MaxSize, on a GPU.
func (f *Format) EncodesManyAndHugeInputs(t *testing.T) {
	many, huge := int64(20_000), int64(5<<20)
	if testing.Short() {
		many, huge = 1000, 1<<20
	}
	if cudatest.OnGPU() {
		many, huge = 1_000_000, f.MaxSize
	}
	data := make([]byte, max(100*many, huge))
	r := rand.New(rand.NewPCG(9, 10))
	for i := range data {
		if i%5 == 0 || i < len(data)/2 {
			data[i] = byte(r.Uint32()) // the first half is incompressible
		}
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if cudatest.OnGPU() != strings.HasSuffix(t.Name(), "cuda") {
			t.Skip("the test runs on the GPU")
		}
		f.roundTrip(t, dev, data[int64(len(data))-100*many:], 100)
		f.roundTrip(t, dev, data[:huge], huge)
	})
}

// roundTrip encodes inputs of one size, and decodes them on the device.
func (f *Format) roundTrip(t *testing.T, dev *cudabuf.Device, data []byte, size int64) {
	n := int64(len(data)) / size
	b := compress.Batch{Src: Upload(t, dev, data)}
	room := min(f.Bound(size), compress.MaxSize)
	var err error
	b.Dst, err = dev.Alloc(n * room)
	require.NoError(t, err)
	defer b.Dst.Release()
	for i := range n {
		b.In = append(b.In, compress.Range{Offset: i * size, Length: size})
		b.Out = append(b.Out, compress.Range{Offset: i * room, Length: room})
	}
	results, err := f.Encode(b)
	require.NoError(t, err)
	back := compress.Batch{Src: b.Dst, Out: b.In}
	for i, r := range results {
		require.NoError(t, r.Err)
		back.In = append(back.In, compress.Range{Offset: b.Out[i].Offset, Length: r.Length})
	}
	back.Dst, err = dev.Alloc(n * size)
	require.NoError(t, err)
	defer back.Dst.Release()
	results, err = f.Decode(back)
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
		require.Equal(t, size, r.Length)
	}
	require.True(t, bytes.Equal(data, Download(t, back.Dst)))
}

// FuzzEncode encodes by the host implementations of the kernels. The input is repeated some
// times, so that it may exceed a block.
func (f *Format) FuzzEncode(fuzz *testing.F) {
	for _, in := range inputs(rand.New(rand.NewPCG(17, 18)), 300) {
		fuzz.Add(in, uint8(1))
		fuzz.Add(in, uint8(200))
	}
	fuzz.Fuzz(func(t *testing.T, in []byte, times uint8) {
		in = bytes.Repeat(in, int(times))
		out, results := f.Run(t, Simulated(t), f.Encode, [][]byte{in}, nil)
		require.NoError(t, results[0].Err)
		got, err := f.DecodeOnHost(out[0], len(in))
		require.NoError(t, err)
		require.True(t, bytes.Equal(in, got))
	})
}
