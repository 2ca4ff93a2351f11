package blosc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// field returns n bytes of a smooth field of float32 with noise in its lower bits.
func field(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, n/4)
	for i := range values {
		x := float64(i) / 500
		values[i] = float32(math.Round(4096*(20+10*math.Sin(x)+3*math.Cos(7.3*x)+0.01*r.NormFloat64())) / 4096)
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), n)
}

// BenchmarkBatch encodes and decodes batches of chunks of float32 with byte shuffle at
// level 5. The rate is that of the decoded bytes; ratio is how much smaller chunks are.
func BenchmarkBatch(b *testing.B) {
	batchtest.BenchmarkDevice(b, func(b *testing.B, dev arrowbuf.Device, total int64) {
		total = min(total, 1<<30)
		const most = 16 << 20
		data := field(most)
		for _, c := range []blosc.Compressor{blosc.LZ4, blosc.Zstd} {
			for _, size := range []int64{64 << 10, 1 << 20, most} {
				o := blosc.EncodeOptions{Options: blosc.Options{Compressor: c, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 4}}
				encode, decode, length := prepare(b, dev, data, size, total, o)
				b.Run(fmt.Sprintf("encode-%s-%d", c, size), func(b *testing.B) {
					b.SetBytes(total)
					for b.Loop() {
						if _, err := blosc.Encode(encode, o); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(total)/float64(length), "ratio")
				})
				b.Run(fmt.Sprintf("decode-%s-%d", c, size), func(b *testing.B) {
					b.SetBytes(total)
					for b.Loop() {
						if _, err := blosc.Decode(decode, compress.DecodeOptions{}); err != nil {
							b.Fatal(err)
						}
					}
				})
				encode.Src.Release()
				encode.Dst.Release()
				decode.Dst.Release()
				decode.Src.Release()
			}
		}
	})
}

// prepare returns a batch of chunks of a size, one that decodes what the host encoded of
// them, and the encoded size.
func prepare(b *testing.B, dev arrowbuf.Device, data []byte, size, total int64, o blosc.EncodeOptions) (encode, decode compress.Batch, length int64) {
	alloc := func(n int64) arrowbuf.Buffer {
		buf, err := dev.Alloc(n)
		require.NoError(b, err)
		return buf
	}
	room := blosc.Bound(size)
	n := total / size
	encode.Src, encode.Dst, decode.Dst = alloc(total), alloc(n*room), alloc(total)
	for at := int64(0); at < total; at += int64(len(data)) {
		_, err := encode.Src.CopyFromHost(data, at)
		require.NoError(b, err)
	}
	var chunks [][]byte
	for at := int64(0); at < int64(len(data)); at += size {
		chunk, err := blosc.EncodeChunk(nil, data[at:at+size], o.Options)
		require.NoError(b, err)
		chunks = append(chunks, chunk)
	}
	var all []byte
	for i := range n {
		chunk := chunks[i%int64(len(chunks))]
		encode.In = append(encode.In, compress.Range{Offset: i * size, Length: size})
		encode.Out = append(encode.Out, compress.Range{Offset: i * room, Length: room})
		decode.In = append(decode.In, compress.Range{Offset: int64(len(all)), Length: int64(len(chunk))})
		all = append(all, chunk...)
	}
	decode.Out = encode.In
	decode.Src = alloc(int64(len(all)))
	_, err := decode.Src.CopyFromHost(all, 0)
	require.NoError(b, err)
	for what, run := range map[string]func() ([]compress.Result, error){
		"encode": func() ([]compress.Result, error) { return blosc.Encode(encode, o) },
		"decode": func() ([]compress.Result, error) { return blosc.Decode(decode, compress.DecodeOptions{}) },
	} {
		results, err := run()
		require.NoError(b, err)
		for _, r := range results {
			require.NoError(b, r.Err)
			if what == "encode" {
				length += r.Length
			}
		}
	}
	equal, err := decode.Dst.Equal(encode.Src)
	require.NoError(b, err)
	require.True(b, equal)
	return encode, decode, length
}
