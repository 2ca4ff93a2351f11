package batchtest

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// folderVariable names a folder of batches for BenchmarkDecode and BenchmarkEncode. A batch is a file
// NAME.FORMAT of little-endian int64: the number of buffers, then for each its encoded
// and its decoded size; then all encoded bytes. NAME.raw has all decoded bytes.
const folderVariable = "QUIVER_BENCH_BATCHES"

// BenchmarkDecode decodes the batches of a format in the folder that QUIVER_BENCH_BATCHES
// names on the GPU, or a small batch of encoded samples on the CPU without it. The rate
// is that of the output.
func BenchmarkDecode(b *testing.B, format string, encode func([]byte) []byte, decode func(compress.Batch) ([]compress.Result, error)) {
	if os.Getenv(folderVariable) == "" {
		var encoded, raw []byte
		head := binary.LittleEndian.AppendUint64(nil, 64)
		data := bytes.Repeat([]byte("0123456789 a column of words, "), 2000)
		for range 64 {
			e := encode(data)
			head = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(head, uint64(len(e))), uint64(len(data)))
			encoded, raw = append(encoded, e...), append(raw, data...)
		}
		b.Run("cpu", func(b *testing.B) { benchmarkDecode(b, arrowbuf.CPU(), append(head, encoded...), raw, decode) })
		return
	}
	forEachFile(b, format, func(b *testing.B, dev arrowbuf.Device, file, raw []byte) { benchmarkDecode(b, dev, file, raw, decode) })
}

// BenchmarkEncode encodes the decoded bytes of those batches, or a small batch on the CPU.
// The rate is that of the input. The metric "ratio" is the size of the input over that of
// the output.
func BenchmarkEncode(b *testing.B, format string, bound func(int64) int64, encode, decode func(compress.Batch) ([]compress.Result, error)) {
	if os.Getenv(folderVariable) == "" {
		raw, sizes := bytes.Repeat([]byte("0123456789 a column of words, "), 128_000), make([]int64, 64)
		for i := range sizes {
			sizes[i] = int64(len(raw) / len(sizes))
		}
		b.Run("cpu", func(b *testing.B) { benchmarkEncode(b, arrowbuf.CPU(), sizes, raw, bound, encode, decode) })
		return
	}
	forEachFile(b, format, func(b *testing.B, dev arrowbuf.Device, file, raw []byte) {
		benchmarkEncode(b, dev, sizesOf(file), raw, bound, encode, decode)
	})
}

// forEachFile runs a benchmark of each batch of a format on the GPU.
func forEachFile(b *testing.B, format string, run func(b *testing.B, dev arrowbuf.Device, file, raw []byte)) {
	folder := os.Getenv(folderVariable)
	files, err := filepath.Glob(filepath.Join(folder, "*."+format))
	require.NoError(b, err)
	require.NotEmpty(b, files, "batches of %s", format)
	dev := openGPU(b)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "."+format)
		b.Run("cuda/"+name, func(b *testing.B) {
			encoded, err := os.ReadFile(file)
			require.NoError(b, err)
			raw, err := os.ReadFile(filepath.Join(folder, name+".raw"))
			require.NoError(b, err)
			run(b, dev, encoded, raw)
		})
	}
}

func openGPU(b *testing.B) *cudabuf.Device {
	driver, err := cudabuf.Open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, driver.Close()) })
	dev, err := driver.Device(0)
	require.NoError(b, err)
	return dev
}

// BenchmarkDevice runs a benchmark of some bytes: 2 GiB on the GPU if QUIVER_TEST_DEVICE is
// cuda, and otherwise 64 MiB on the CPU.
func BenchmarkDevice(b *testing.B, run func(b *testing.B, dev arrowbuf.Device, total int64)) {
	if os.Getenv("QUIVER_TEST_DEVICE") == "cuda" {
		b.Run("cuda", func(b *testing.B) { run(b, openGPU(b), 2<<30) })
		return
	}
	b.Run("cpu", func(b *testing.B) { run(b, arrowbuf.CPU(), 64<<20) })
}

func benchmarkDecode(b *testing.B, dev arrowbuf.Device, file, raw []byte, decode func(compress.Batch) ([]compress.Result, error)) {
	next := func() int64 {
		v := int64(binary.LittleEndian.Uint64(file))
		file = file[8:]
		return v
	}
	var batch compress.Batch
	var in, out int64
	for range next() {
		encoded, decoded := next(), next()
		batch.In = append(batch.In, compress.Range{Offset: in, Length: encoded})
		batch.Out = append(batch.Out, compress.Range{Offset: out, Length: decoded})
		in, out = in+encoded, out+decoded
	}
	var err error
	batch.Src, err = dev.Alloc(in)
	require.NoError(b, err)
	defer batch.Src.Release()
	batch.Dst, err = dev.Alloc(out)
	require.NoError(b, err)
	defer batch.Dst.Release()
	_, err = batch.Src.CopyFromHost(file, 0)
	require.NoError(b, err)
	results, err := decode(batch)
	require.NoError(b, err)
	for _, r := range results {
		require.NoError(b, r.Err)
	}
	got := make([]byte, out)
	_, err = batch.Dst.CopyToHost(got, 0)
	require.NoError(b, err)
	require.True(b, bytes.Equal(raw, got), "decoded bytes")
	b.SetBytes(out)
	for b.Loop() {
		if _, err := decode(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeOwn is BenchmarkDecode of what encode makes of the same bytes, with a GPU
// only.
func BenchmarkDecodeOwn(b *testing.B, format string, bound func(int64) int64, encode, decode func(compress.Batch) ([]compress.Result, error)) {
	if os.Getenv(folderVariable) == "" {
		b.Skip("no GPU: BenchmarkDecode decodes on the CPU")
	}
	forEachFile(b, format, func(b *testing.B, dev arrowbuf.Device, file, raw []byte) {
		own := encodeOwn(b, dev, sizesOf(file), raw, bound, encode, decode)
		b.SetBytes(own.in)
		for b.Loop() {
			if _, err := decode(own.back); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// sizesOf returns the decoded sizes of the buffers of a file.
func sizesOf(file []byte) []int64 {
	sizes := make([]int64, binary.LittleEndian.Uint64(file))
	for i := range sizes {
		sizes[i] = int64(binary.LittleEndian.Uint64(file[16+16*i:]))
	}
	return sizes
}

// encoded is a batch that was encoded, and the one that decodes it.
type encoded struct {
	batch, back compress.Batch
	in, out     int64 // sizes of the buffers, before and after
}

// encodeOwn encodes raw, and checks that its decoding is equal. The buffers are released
// after the benchmark.
func encodeOwn(b *testing.B, dev arrowbuf.Device, sizes []int64, raw []byte, bound func(int64) int64, encode, decode func(compress.Batch) ([]compress.Result, error)) (own encoded) {
	var room int64
	batch := &own.batch
	for _, n := range sizes {
		batch.In = append(batch.In, compress.Range{Offset: own.in, Length: n})
		batch.Out = append(batch.Out, compress.Range{Offset: room, Length: bound(n)})
		own.in, room = own.in+n, room+bound(n)
	}
	alloc := func(n int64) arrowbuf.Buffer {
		buf, err := dev.Alloc(n)
		require.NoError(b, err)
		b.Cleanup(buf.Release)
		return buf
	}
	batch.Src, batch.Dst = alloc(own.in), alloc(room)
	_, err := batch.Src.CopyFromHost(raw, 0)
	require.NoError(b, err)
	results, err := encode(*batch)
	require.NoError(b, err)
	own.back = compress.Batch{Src: batch.Dst, Dst: alloc(own.in), Out: batch.In}
	for i, r := range results {
		require.NoError(b, r.Err)
		own.back.In = append(own.back.In, compress.Range{Offset: batch.Out[i].Offset, Length: r.Length})
		own.out += r.Length
	}
	results, err = decode(own.back)
	require.NoError(b, err)
	for _, r := range results {
		require.NoError(b, r.Err)
	}
	got := make([]byte, own.in)
	_, err = own.back.Dst.CopyToHost(got, 0)
	require.NoError(b, err)
	require.True(b, bytes.Equal(raw, got), "decoded bytes")
	return own
}

func benchmarkEncode(b *testing.B, dev arrowbuf.Device, sizes []int64, raw []byte, bound func(int64) int64, encode, decode func(compress.Batch) ([]compress.Result, error)) {
	own := encodeOwn(b, dev, sizes, raw, bound, encode, decode)
	b.SetBytes(own.in)
	for b.Loop() {
		if _, err := encode(own.batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(own.in)/float64(own.out), "ratio")
}
