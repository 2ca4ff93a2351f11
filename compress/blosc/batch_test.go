package blosc_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func decodeWith(o compress.DecodeOptions) func(compress.Batch) ([]compress.Result, error) {
	return func(b compress.Batch) ([]compress.Result, error) { return blosc.Decode(b, o) }
}

func TestBatchesOfNumcodecsDecode(t *testing.T) {
	var chunks []struct {
		Size, TypeSize int
		Name           string
		Chunk          []byte
	}
	require.NoError(t, json.Unmarshal(golden, &chunks))
	var inputs, want [][]byte
	var sizes []int
	for _, c := range chunks {
		inputs, want, sizes = append(inputs, c.Chunk), append(want, recipe(c.Size, c.TypeSize)), append(sizes, c.Size)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, scratch := range []int64{0, 100_000} {
			var stats compress.Stats
			got, results := batchtest.Run(t, dev, inputs, sizes, decodeWith(compress.DecodeOptions{Scratch: scratch, Stats: &stats}))
			for i, c := range chunks {
				require.NoError(t, results[i].Err, c.Name)
				require.True(t, bytes.Equal(want[i], got[i]), "%s, %d bytes of %d", c.Name, c.Size, c.TypeSize)
			}
			require.EqualValues(t, len(inputs), stats.Device+stats.Host)
			if dev == arrowbuf.CPU() {
				require.Zero(t, stats.Device)
			} else {
				require.Greater(t, stats.Device, int64(len(inputs)/2))
				require.NotZero(t, stats.Host, "chunks of BloscLZ and zlib")
			}
		}
	})
}

// batchOptions are options of which each compressor and shuffle has several.
func batchOptions() []blosc.Options {
	var all []blosc.Options
	for c := blosc.BloscLZ; c <= blosc.Zstd; c++ {
		for _, o := range []blosc.Options{
			{Level: 5, TypeSize: 1}, {Level: 0, TypeSize: 4}, {Level: 9, TypeSize: 1, Shuffle: blosc.BitShuffle},
			{Level: 1, TypeSize: 4, Shuffle: blosc.ByteShuffle}, {Level: 3, TypeSize: 8, Shuffle: blosc.BitShuffle},
			{Level: 2, TypeSize: 3, Shuffle: blosc.ByteShuffle, BlockSize: 700}, {Level: 5, TypeSize: 17, Shuffle: blosc.BitShuffle},
			{Level: 1, TypeSize: 1000, Shuffle: blosc.ByteShuffle}, {Level: 1, TypeSize: 2, Shuffle: blosc.BitShuffle, BlockSize: 100},
		} {
			o.Compressor = c
			all = append(all, o)
		}
	}
	return all
}

func TestBatchesRoundTrip(t *testing.T) {
	lengths := []int{0, 1, 127, 128, 129, 1000, 4099}
	if !testing.Short() {
		lengths = append(lengths, 70_000, 300_001)
	}
	var want [][]byte
	var capacities []int
	for _, n := range lengths {
		for _, src := range inputs(n) {
			want, capacities = append(want, src), append(capacities, n+blosc.Overhead)
		}
	}
	var sizes []int
	for _, w := range want {
		sizes = append(sizes, len(w))
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for k, o := range batchOptions() {
			name := fmt.Sprintf("%s %+v", o.Compressor, o)
			scratch := []int64{0, 200_000}[k%2]
			var stats compress.Stats
			encoded, results := batchtest.Run(t, dev, want, capacities, func(b compress.Batch) ([]compress.Result, error) {
				return blosc.Encode(b, blosc.EncodeOptions{Options: o, Scratch: scratch, Stats: &stats})
			})
			onDevice := dev != arrowbuf.CPU() && (o.Level == 0 || o.Compressor == blosc.LZ4 || o.Compressor == blosc.Zstd)
			if onDevice {
				require.Equal(t, compress.Stats{Device: int64(len(want))}, stats, name)
			} else {
				require.Equal(t, compress.Stats{Host: int64(len(want))}, stats, name)
			}
			for i, w := range want {
				require.NoError(t, results[i].Err, name)
				got, err := blosc.DecodeChunk(nil, encoded[i], int64(len(w)))
				require.NoError(t, err, "%s, %d bytes", name, len(w))
				require.True(t, bytes.Equal(w, got), "%s, %d bytes", name, len(w))
			}
			got, results := batchtest.Run(t, dev, encoded, sizes, decodeWith(compress.DecodeOptions{Scratch: scratch}))
			for i, w := range want {
				require.NoError(t, results[i].Err, name)
				require.True(t, bytes.Equal(w, got[i]), "%s, %d bytes", name, len(w))
			}
		}
	})
}

func TestAnOutputThatIsTooShortIsAnErrorOfItsInput(t *testing.T) {
	want := [][]byte{recipe(5000, 4), inputs(5000)["random"], recipe(5000, 4)}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for c := blosc.BloscLZ; c <= blosc.Zstd; c++ {
			o := blosc.EncodeOptions{Options: blosc.Options{Compressor: c, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 4}}
			encoded, results := batchtest.Run(t, dev, want, []int{20, 5000, 5016}, func(b compress.Batch) ([]compress.Result, error) {
				return blosc.Encode(b, o)
			})
			require.ErrorIs(t, results[0].Err, compress.ErrTooLarge)
			require.ErrorIs(t, results[1].Err, compress.ErrTooLarge)
			require.NoError(t, results[2].Err)
			_, results = batchtest.Run(t, dev, [][]byte{encoded[2], encoded[2], {}, {9, 9}}, []int{4999, 5000, 10, 10}, decodeWith(compress.DecodeOptions{}))
			require.ErrorIs(t, results[0].Err, compress.ErrTooLarge)
			require.NoError(t, results[1].Err)
			require.ErrorIs(t, results[2].Err, compress.ErrCorrupt)
			require.ErrorIs(t, results[3].Err, compress.ErrCorrupt)
		}
	})
}

// mutate changes a chunk. The length in its header stays right, so that more is decoded.
func mutate(r *rand.Rand, in []byte) []byte {
	in = batchtest.Mutate(r, in)
	if len(in) >= 16 {
		binary.LittleEndian.PutUint32(in[12:], uint32(len(in)))
	}
	return in
}

// TestACorruptChunkIsAnErrorOfItself changes every second input. QUIVER_MUTATED_INPUTS is
// their number.
func TestACorruptChunkIsAnErrorOfItself(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	total := 4000
	if testing.Short() {
		total = 1000
	}
	if n, err := strconv.Atoi(os.Getenv("QUIVER_MUTATED_INPUTS")); err == nil {
		total = n
	}
	perBatch := min(max(1000, total/4), 20_000)
	var data, chunks [][]byte
	for range 60 {
		for _, o := range batchOptions() {
			if o.Compressor != blosc.LZ4 && o.Compressor != blosc.Zstd && r.IntN(10) > 0 {
				continue
			}
			samples := batchtest.Samples(r, 1+r.IntN(3000))
			src := samples[r.IntN(len(samples))]
			chunk, err := blosc.EncodeChunk(nil, src, o)
			require.NoError(t, err)
			data, chunks = append(data, src), append(chunks, chunk)
		}
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		failed, changed := 0, 0
		for changed < total {
			var inputs [][]byte
			var numbers, sizes []int
			want, hostErrs := make([][]byte, perBatch), make([]error, perBatch)
			for range perBatch {
				k := r.IntN(len(chunks))
				in := chunks[k]
				if len(inputs)%2 == 1 {
					in = mutate(r, in)
				}
				inputs, numbers, sizes = append(inputs, in), append(numbers, k), append(sizes, len(data[k]))
			}
			got, results := batchtest.Run(t, dev, inputs, sizes, decodeWith(compress.DecodeOptions{}))
			batch.ForEach(int64(perBatch/2), func(i int64) {
				i = 2*i + 1
				want[i], hostErrs[i] = blosc.DecodeChunk(nil, inputs[i], int64(sizes[i]))
			})
			for i, k := range numbers {
				if i%2 == 0 {
					require.NoError(t, results[i].Err)
					require.True(t, bytes.Equal(data[k], got[i]))
					continue
				}
				changed++
				switch {
				case results[i].Err != nil:
					failed++
					known := errors.Is(results[i].Err, compress.ErrCorrupt) || errors.Is(results[i].Err, compress.ErrTooLarge) || errors.Is(results[i].Err, errors.ErrUnsupported)
					require.True(t, known, "%v", results[i].Err)
				case hostErrs[i] == nil:
					require.True(t, bytes.Equal(want[i], got[i]), "%x", inputs[i])
				}
			}
		}
		assert.Greater(t, failed, total/4, "changed inputs that are errors")
	})
}

// FuzzDecodeBatch decodes on the simulated device what the CPU decodes, with the same
// result.
func FuzzDecodeBatch(f *testing.F) {
	for _, c := range []blosc.Compressor{blosc.LZ4, blosc.Zstd, blosc.Zlib} {
		for _, s := range []blosc.Shuffle{blosc.NoShuffle, blosc.ByteShuffle, blosc.BitShuffle} {
			enc, err := blosc.EncodeChunk(nil, recipe(1500, 4), blosc.Options{Compressor: c, Level: 1, Shuffle: s, TypeSize: 4, BlockSize: 1024})
			require.NoError(f, err)
			f.Add(enc)
		}
	}
	dev := cudatest.NewDevice(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		const limit = 1 << 14
		if len(src) >= 16 { // lets the fuzzer change lengths
			binary.LittleEndian.PutUint32(src[12:], uint32(len(src)))
		}
		want, err := blosc.DecodeChunk(nil, src, limit)
		got, results := batchtest.Run(t, dev, [][]byte{src}, []int{limit}, decodeWith(compress.DecodeOptions{}))
		if err == nil && results[0].Err == nil {
			require.True(t, bytes.Equal(want, got[0]))
		}
	})
}

// Inputs whose outputs may have 64 MiB are decoded at the same time.
func TestInputsWithLargeOutputsDecodeInParallel(t *testing.T) {
	const room, size = 64 << 20, 100_000
	want := func(i int) []byte { return bytes.Repeat([]byte{byte(i), 1}, size/2) }
	dev := cudatest.NewDevice(t)
	dst, err := dev.Alloc(4 * room)
	require.NoError(t, err)
	defer dst.Release()
	b := compress.Batch{Dst: dst}
	var src []byte
	for i := range 4 {
		chunk, err := blosc.EncodeChunk(nil, want(i), blosc.Options{Compressor: blosc.LZ4, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 2})
		require.NoError(t, err)
		b.In = append(b.In, compress.Range{Offset: int64(len(src)), Length: int64(len(chunk))})
		b.Out = append(b.Out, compress.Range{Offset: int64(i) * room, Length: room})
		src = append(src, chunk...)
	}
	b.In[1].Length--
	b.Src = batchtest.Upload(t, dev, src)
	var stats compress.Stats
	results, err := blosc.Decode(b, compress.DecodeOptions{Stats: &stats})
	require.NoError(t, err)
	require.Equal(t, compress.Stats{Device: 4}, stats)
	for i, r := range results {
		if i == 1 {
			require.ErrorIs(t, r.Err, compress.ErrCorrupt)
			continue
		}
		require.Equal(t, compress.Result{Length: size}, r)
		got := make([]byte, size)
		_, err := dst.CopyToHost(got, b.Out[i].Offset)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want(i), got), "chunk %d", i)
	}
}

// What the host processes crosses the link in steps, which need little memory of the GPU.
func TestFormatsOfTheHostStayWithinTheScratchMemory(t *testing.T) {
	const n, size, scratch = 24, 1 << 20, 4 << 20
	dev := cudatest.NewDevice(t)
	var src []byte
	b := compress.Batch{}
	want := recipe(size, 4)
	for i := range n {
		src = append(src, want...)
		b.In = append(b.In, compress.Range{Offset: int64(i) * size, Length: size})
		b.Out = append(b.Out, compress.Range{Offset: int64(i) * blosc.Bound(size), Length: blosc.Bound(size)})
	}
	dst, err := dev.Alloc(n * blosc.Bound(size))
	require.NoError(t, err)
	defer dst.Release()
	b.Src, b.Dst = batchtest.Upload(t, dev, src), dst
	free, _, err := dev.MemInfo()
	require.NoError(t, err)
	others, err := dev.Alloc(free - 4*scratch)
	require.NoError(t, err)
	defer others.Release()
	results, err := blosc.Encode(b, blosc.EncodeOptions{Options: blosc.Options{Compressor: blosc.BloscLZ, Level: 5, TypeSize: 4}, Scratch: scratch})
	require.NoError(t, err)
	back := compress.Batch{Src: dst, Dst: b.Src, Out: b.In}
	for i, r := range results {
		require.NoError(t, r.Err)
		back.In = append(back.In, compress.Range{Offset: b.Out[i].Offset, Length: r.Length})
	}
	_, err = b.Src.CopyFromHost(make([]byte, len(src)), 0)
	require.NoError(t, err)
	results, err = blosc.Decode(back, compress.DecodeOptions{Scratch: scratch})
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
	require.True(t, bytes.Equal(src, batchtest.Download(t, b.Src)))
}
