package gzip

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// encoded returns data in a format, at a random level. A gzip input has one or two members.
func encoded(t testing.TB, r *rand.Rand, f Format, data []byte) []byte {
	level := r.IntN(10)
	var out []byte
	var err error
	switch f {
	case Gzip:
		cut := len(data)
		if r.IntN(3) == 0 {
			cut = r.IntN(len(data) + 1)
		}
		if out, err = EncodeMember(nil, data[:cut], level); err == nil && cut < len(data) {
			out, err = EncodeMember(out, data[cut:], level)
		}
	case Zlib:
		out, err = EncodeZlib(nil, data, level)
	default:
		var b bytes.Buffer
		var w *flate.Writer
		w, err = flate.NewWriter(&b, []int{flate.HuffmanOnly, level}[min(r.IntN(6), 1)])
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
		if err = w.Close(); err == nil {
			out = b.Bytes()
		}
	}
	require.NoError(t, err)
	return out
}

func decodeAs(f Format) func(compress.Batch) ([]compress.Result, error) {
	return func(b compress.Batch) ([]compress.Result, error) { return Decode(b, f, compress.DecodeOptions{}) }
}

func TestBatchesDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for f := Gzip; f <= Deflate; f++ {
		var want, inputs [][]byte
		var sizes []int
		for _, n := range []int{0, 1, 2, 31, 32, 33, 1000, 70_000, 300_000} {
			for _, data := range batchtest.Samples(r, n) {
				want, inputs, sizes = append(want, data), append(inputs, encoded(t, r, f, data)), append(sizes, n+r.IntN(3))
			}
		}
		cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
			got, results := batchtest.Run(t, dev, inputs, sizes, decodeAs(f))
			for i := range want {
				require.NoError(t, results[i].Err, "format %d, %d bytes", f, len(want[i]))
				require.True(t, bytes.Equal(want[i], got[i]), "format %d, %d bytes", f, len(want[i]))
			}
		})
	}
}

// A header with all optional fields, and its checksum.
func TestBatchesDecodeEveryField(t *testing.T) {
	header := []byte{0x1f, 0x8b, 8, 2 | 4 | 8 | 16, 0, 0, 0, 0, 0, 3, 3, 0, 'e', 'x', 't', 'n', 'a', 'm', 'e', 0, 'c', 0}
	plain, err := EncodeMember(nil, []byte("data"), 6)
	require.NoError(t, err)
	sum := crc32.ChecksumIEEE(header)
	member := append(append(append([]byte{}, header...), byte(sum), byte(sum>>8)), plain[10:]...)
	wrong := bytes.Clone(member)
	wrong[len(header)]++
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		got, results := batchtest.Run(t, dev, [][]byte{member, wrong, append(bytes.Clone(member), 0)}, []int{4, 4, 4}, decodeAs(Gzip))
		require.NoError(t, results[0].Err)
		require.Equal(t, "data", string(got[0]))
		if dev != arrowbuf.CPU() {
			require.ErrorIs(t, results[1].Err, compress.ErrCorrupt)
		}
		require.ErrorIs(t, results[2].Err, compress.ErrCorrupt)
	})
}

func TestBatchErrorsSayWhatIsWrong(t *testing.T) {
	stream, err := EncodeZlib(nil, bytes.Repeat([]byte("words "), 1000), 6)
	require.NoError(t, err)
	sum := bytes.Clone(stream)
	sum[len(sum)-1]++
	dictionary := []byte{0x78, 0xbb, 0, 0, 0, 0, 3, 0}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, results := batchtest.Run(t, dev, [][]byte{stream, stream, sum, stream[:len(stream)-9], dictionary, nil}, []int{6000, 5999, 6000, 6000, 10, 10}, decodeAs(Zlib))
		require.NoError(t, results[0].Err)
		require.ErrorIs(t, results[1].Err, compress.ErrTooLarge)
		require.ErrorIs(t, results[2].Err, compress.ErrChecksum)
		require.ErrorIs(t, results[3].Err, compress.ErrCorrupt)
		require.Error(t, results[4].Err)
		require.ErrorIs(t, results[5].Err, compress.ErrCorrupt)
		_, err := Decode(compress.Batch{Src: batchtest.Upload(t, dev, nil), Dst: batchtest.Upload(t, dev, nil)}, 3, compress.DecodeOptions{})
		require.Error(t, err)
	})
}

// reference is what the decoder in Go makes of an input.
type reference struct {
	output []byte
	err    error
}

func references(f Format, inputs [][]byte, sizes []int) []reference {
	all := make([]reference, len(inputs))
	cores := runtime.GOMAXPROCS(0)
	var wait sync.WaitGroup
	for core := range cores {
		wait.Go(func() {
			for i := core; i < len(inputs); i += cores {
				dst := make([]byte, sizes[i])
				n, err := formats[f].decodeGoInto(dst, inputs[i])
				all[i] = reference{dst[:n], err}
			}
		})
	}
	wait.Wait()
	return all
}

// TestACorruptInputIsAnErrorOfItself changes every second input. QUIVER_MUTATED_INPUTS is
// their number per format.
func TestACorruptInputIsAnErrorOfItself(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	total, least := 1000, 1000
	if testing.Short() {
		total, least = 200, 400
	}
	if n, err := strconv.Atoi(os.Getenv("QUIVER_MUTATED_INPUTS")); err == nil {
		total = n
	}
	perBatch := min(max(least, total/4), 20_000)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for f := Gzip; f <= Deflate; f++ {
			var data, good [][]byte
			for range 100 {
				for _, d := range batchtest.Samples(r, 1+r.IntN(3000)) {
					data, good = append(data, d), append(good, encoded(t, r, f, d))
				}
			}
			failed := 0
			for changed := 0; changed < total; changed += perBatch / 2 {
				var inputs [][]byte
				var numbers, sizes []int
				for range perBatch {
					k := r.IntN(len(good))
					in := good[k]
					if len(inputs)%2 == 1 {
						in = batchtest.Mutate(r, in)
					}
					inputs, numbers, sizes = append(inputs, in), append(numbers, k), append(sizes, len(data[k]))
				}
				got, results := batchtest.Run(t, dev, inputs, sizes, decodeAs(f))
				want := references(f, inputs, sizes)
				for i, k := range numbers {
					err := want[i].err
					if dev == arrowbuf.CPU() && err != nil {
						continue // the library accepts more
					}
					require.Equal(t, err == nil, results[i].Err == nil, "%v, %v: %x", err, results[i].Err, inputs[i])
					if i%2 == 0 {
						require.NoError(t, err)
						require.Len(t, got[i], len(data[k]))
					}
					if err != nil {
						failed++
						continue
					}
					require.True(t, bytes.Equal(want[i].output, got[i]), "%x", inputs[i])
				}
			}
			if dev != arrowbuf.CPU() {
				assert.Greater(t, failed, total/10, "changed inputs that are errors")
			}
		}
	})
}

// FuzzDecodeBatch decodes on the simulated device what the CPU decodes.
func FuzzDecodeBatch(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for format := Gzip; format <= Deflate; format++ {
		for _, d := range batchtest.Samples(r, 300) {
			f.Add(encoded(f, r, format, d), uint8(format))
		}
	}
	dev := cudatest.NewDevice(f)
	f.Fuzz(func(t *testing.T, src []byte, format uint8) {
		const limit = 1 << 14
		which := Format(format % 3)
		host := make([]byte, limit)
		n, err := formats[which].decodeGoInto(host, src)
		got, results := batchtest.Run(t, dev, [][]byte{src}, []int{limit}, decodeAs(which))
		require.Equal(t, err == nil, results[0].Err == nil)
		if err == nil {
			require.True(t, bytes.Equal(host[:n], got[0]))
		}
	})
}

func BenchmarkDecodeBatch(b *testing.B) {
	batchtest.BenchmarkDecode(b, "gzip", func(data []byte) []byte {
		out, err := EncodeMember(nil, data, 6)
		require.NoError(b, err)
		return out
	}, decodeAs(Gzip))
}
