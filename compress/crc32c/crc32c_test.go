package crc32c_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/crc32c"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// sample returns random bytes and ranges of them, each with a place for its checksum after
// it.
func sample(r *rand.Rand, lengths []int64) (data []byte, in, out []compress.Range) {
	for _, n := range lengths {
		data = append(data, make([]byte, r.IntN(20))...)
		in = append(in, compress.Range{Offset: int64(len(data)), Length: n})
		data = append(data, make([]byte, n+crc32c.Size)...)
		out = append(out, compress.Range{Offset: int64(len(data)) - crc32c.Size, Length: crc32c.Size})
	}
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data, in, out
}

func lengths(r *rand.Rand) []int64 {
	all := []int64{0, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64 << 10, 3_000_001}
	for n := range int64(70) {
		all = append(all, n)
	}
	for range 100 {
		all = append(all, r.Int64N(70_000))
	}
	return all
}

func TestSumsAreThoseOfHashCRC32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	data, in, out := sample(r, lengths(r))
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := batchtest.Upload(t, dev, data)
		require.NoError(t, crc32c.Sums(compress.Batch{Src: buf, In: in, Dst: buf, Out: out}))
		got := batchtest.Download(t, buf)
		want := append([]byte(nil), data...)
		for i, part := range in {
			sum := crc32.Checksum(data[part.Offset:part.Offset+part.Length], crc32.MakeTable(crc32.Castagnoli))
			binary.LittleEndian.PutUint32(want[out[i].Offset:], sum)
			require.Equal(t, sum, binary.LittleEndian.Uint32(got[out[i].Offset:]), "%d bytes at %d", part.Length, part.Offset)
		}
		require.Equal(t, want, got, "other bytes")
	})
}

func TestAChangedBitIsAnErrorOfItsRange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	data, in, out := sample(r, lengths(r))
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := batchtest.Upload(t, dev, data)
		b := compress.Batch{Src: buf, In: in, Dst: buf, Out: out}
		require.NoError(t, crc32c.Sums(b))
		changed := batchtest.Download(t, buf)
		for i := 1; i < len(in); i += 2 {
			changed[in[i].Offset+r.Int64N(in[i].Length+crc32c.Size)] ^= 1 << r.IntN(8)
		}
		_, err := buf.CopyFromHost(changed, 0)
		require.NoError(t, err)
		results, err := crc32c.Verify(b)
		require.NoError(t, err)
		for i, result := range results {
			if i%2 == 1 {
				require.ErrorIs(t, result.Err, compress.ErrChecksum)
				require.Zero(t, result.Length)
			} else {
				require.NoError(t, result.Err)
				require.Equal(t, in[i].Length, result.Length)
			}
		}
	})
}

func TestAnOutputWithoutPlaceForTheSumIsAnError(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := batchtest.Upload(t, dev, make([]byte, 10))
		b := compress.Batch{Src: buf, In: []compress.Range{{Offset: 0, Length: 5}}, Dst: buf, Out: []compress.Range{{Offset: 5, Length: 3}}}
		require.ErrorIs(t, crc32c.Sums(b), arrowbuf.ErrOutOfRange)
		_, err := crc32c.Verify(b)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		results, err := crc32c.Verify(compress.Batch{Src: buf, Dst: buf})
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// BenchmarkSums computes the sums of ranges of equal sizes at odd offsets.
func BenchmarkSums(b *testing.B) {
	batchtest.BenchmarkDevice(b, func(b *testing.B, dev arrowbuf.Device, total int64) {
		for _, size := range []int64{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
			b.Run(fmt.Sprint(size), func(b *testing.B) {
				src, err := dev.Alloc(total)
				require.NoError(b, err)
				defer src.Release()
				batch := compress.Batch{Src: src, Dst: src}
				for at := int64(0); at+size+crc32c.Size <= total; at += size + crc32c.Size {
					batch.In = append(batch.In, compress.Range{Offset: at, Length: size})
					batch.Out = append(batch.Out, compress.Range{Offset: at + size, Length: crc32c.Size})
				}
				b.SetBytes(int64(len(batch.In)) * size)
				for b.Loop() {
					if err := crc32c.Sums(batch); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}
