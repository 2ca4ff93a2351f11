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

// folderVariable names a folder of batches for BenchmarkDecode. A batch is a file
// NAME.FORMAT of little-endian int64: the number of buffers, then for each its encoded
// and its decoded size; then all encoded bytes. NAME.raw has all decoded bytes.
const folderVariable = "QUIVER_BENCH_BATCHES"

// BenchmarkDecode decodes the batches of a format in the folder that QUIVER_BENCH_BATCHES
// names on the GPU, or a small batch of encoded samples on the CPU without it. The rate
// is that of the output.
func BenchmarkDecode(b *testing.B, format string, encode func([]byte) []byte, decode func(compress.Batch) ([]compress.Result, error)) {
	folder := os.Getenv(folderVariable)
	if folder == "" {
		var encoded, raw []byte
		head := binary.LittleEndian.AppendUint64(nil, 64)
		data := bytes.Repeat([]byte("0123456789 a column of words, "), 2000)
		for range 64 {
			e := encode(data)
			head = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(head, uint64(len(e))), uint64(len(data)))
			encoded, raw = append(encoded, e...), append(raw, data...)
		}
		b.Run("cpu", func(b *testing.B) { benchmarkBatch(b, arrowbuf.CPU(), append(head, encoded...), raw, decode) })
		return
	}
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
			benchmarkBatch(b, dev, encoded, raw, decode)
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

func benchmarkBatch(b *testing.B, dev arrowbuf.Device, file, raw []byte, decode func(compress.Batch) ([]compress.Result, error)) {
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
