package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/compress/crc32c"
	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/compress/zstd"
)

func (Zstd) hasEncodeKernels() bool           { return true }
func (Zstd) hasDecodeKernels(int64) bool      { return true }
func (LZ4) hasEncodeKernels() bool            { return true }
func (LZ4) hasDecodeKernels(int64) bool       { return true }
func (CRC32C) hasEncodeKernels() bool         { return true }
func (CRC32C) hasDecodeKernels(int64) bool    { return true }
func (s Shuffle) hasEncodeKernels() bool      { return s.size() <= 255 }
func (s Shuffle) hasDecodeKernels(int64) bool { return s.size() <= 255 }

// maxDeflateOnDevice is the size in bytes of the largest chunk whose deflate stream a GPU
// decodes. A warp decodes a stream at 5 to 10 MB/s, so large chunks are sooner decoded by
// the host.
const maxDeflateOnDevice = 256 << 10

func (Gzip) hasDecodeKernels(chunk int64) bool { return chunk <= maxDeflateOnDevice }
func (Zlib) hasDecodeKernels(chunk int64) bool { return chunk <= maxDeflateOnDevice }

// The other formats of Blosc have no kernels.
func (b Blosc) hasEncodeKernels() bool {
	return b.Compressor == blosc.Zstd || b.Compressor == blosc.LZ4
}
func (b Blosc) hasDecodeKernels(int64) bool {
	return b.hasEncodeKernels() || b.Compressor == blosc.LZ4HC
}

func (Blosc) bound(n int64) int64 { return blosc.Bound(n) }

func (b Blosc) encodeBatch(chunks compress.Batch, scratch int64) ([]compress.Result, int64, error) {
	var stats compress.Stats
	results, err := blosc.Encode(chunks, blosc.EncodeOptions{Options: b.options(), Scratch: scratch, Stats: &stats})
	return results, stats.Host, err
}

func (Blosc) decodeBatch(chunks compress.Batch, scratch int64) ([]compress.Result, int64, error) {
	var stats compress.Stats
	results, err := blosc.Decode(chunks, compress.DecodeOptions{Scratch: scratch, Stats: &stats})
	return results, stats.Host, err
}

func (Zstd) decodeBatch(b compress.Batch, scratch int64) ([]compress.Result, int64, error) {
	results, err := zstd.Decode(b, compress.DecodeOptions{Scratch: scratch})
	return results, 0, err
}

func (Zstd) bound(n int64) int64 { return zstd.Bound(n) }

func (z Zstd) encodeBatch(b compress.Batch, scratch int64) ([]compress.Result, int64, error) {
	results, err := zstd.Encode(b, zstd.EncodeOptions{Level: z.Level, Checksum: z.Checksum, Scratch: scratch})
	return results, 0, err
}

func (Gzip) decodeBatch(b compress.Batch, _ int64) ([]compress.Result, int64, error) {
	results, err := gzip.Decode(b, gzip.Gzip, compress.DecodeOptions{})
	return results, 0, err
}

func (Zlib) decodeBatch(b compress.Batch, _ int64) ([]compress.Result, int64, error) {
	results, err := gzip.Decode(b, gzip.Zlib, compress.DecodeOptions{})
	return results, 0, err
}

func (LZ4) bound(n int64) int64 { return lz4Header + lz4.Bound(n) }

// encodeBatch puts the sizes before the blocks.
func (c LZ4) encodeBatch(b compress.Batch, scratch int64) ([]compress.Result, int64, error) { //nolint:unparam // Blosc has others
	sizes := make([]byte, 0, lz4Header*len(b.In))
	blocks := b
	blocks.Out = make([]compress.Range, len(b.Out))
	for i, out := range b.Out {
		sizes = binary.LittleEndian.AppendUint32(sizes, uint32(b.In[i].Length))
		blocks.Out[i] = compress.Range{Offset: out.Offset + lz4Header, Length: out.Length - lz4Header}
	}
	if err := writeHeads(b.Dst, b.Out, sizes, lz4Header); err != nil {
		return nil, 0, err
	}
	results, err := lz4.Encode(blocks, lz4.EncodeOptions{Acceleration: c.Acceleration, Scratch: scratch})
	for i := range results {
		if results[i].Err == nil {
			results[i].Length += lz4Header
		}
	}
	return results, 0, err
}

// writeHeads copies n bytes to the start of each range of a buffer.
func writeHeads(buf arrowbuf.Buffer, ranges []compress.Range, heads []byte, n int64) error {
	if len(heads) == 0 {
		return nil
	}
	packed, err := buf.Device().Alloc(int64(len(heads)))
	if err != nil {
		return err
	}
	defer packed.Release()
	if _, err := packed.CopyFromHost(heads, 0); err != nil {
		return err
	}
	b := compress.Batch{Src: packed, Dst: buf}
	for i, r := range ranges {
		b.In = append(b.In, compress.Range{Offset: n * int64(i), Length: n})
		b.Out = append(b.Out, compress.Range{Offset: r.Offset, Length: n})
	}
	return pack.Copy(b)
}

// decodeBatch decodes the blocks after the sizes, which must be those of the outputs.
func (LZ4) decodeBatch(b compress.Batch, scratch int64) ([]compress.Result, int64, error) { //nolint:unparam // Blosc has others
	sizes, err := readHeads(b.Src, b.In, lz4Header)
	if err != nil {
		return nil, 0, err
	}
	blocks := b
	blocks.In = make([]compress.Range, len(b.In))
	for i, in := range b.In {
		n := min(in.Length, lz4Header)
		blocks.In[i] = compress.Range{Offset: in.Offset + n, Length: in.Length - n}
	}
	results, err := lz4.Decode(blocks, compress.DecodeOptions{Scratch: scratch})
	for i := range results {
		size := int64(binary.LittleEndian.Uint32(sizes[lz4Header*i:]))
		if r := &results[i]; r.Err == nil && r.Length != size {
			*r = compress.Result{Err: fmt.Errorf("lz4: %d bytes decoded, want %d: %w", r.Length, size, compress.ErrCorrupt)}
		}
	}
	return results, 0, err
}

func (Shuffle) bound(n int64) int64 { return n }

func (s Shuffle) encodeBatch(b compress.Batch, _ int64) ([]compress.Result, int64, error) {
	return s.applyBatch(b, shuffle.Transform{Size: s.size()})
}

func (s Shuffle) decodeBatch(b compress.Batch, _ int64) ([]compress.Result, int64, error) {
	return s.applyBatch(b, shuffle.Transform{Size: s.size(), Inverse: true})
}

// applyBatch transforms the inputs that are whole elements and fit their outputs.
func (s Shuffle) applyBatch(b compress.Batch, t shuffle.Transform) ([]compress.Result, int64, error) {
	results := make([]compress.Result, len(b.In))
	whole := compress.Batch{Src: b.Src, Dst: b.Dst}
	for i, in := range b.In {
		switch {
		case in.Length%int64(s.size()) != 0:
			results[i].Err = s.notWhole(in.Length)
		case in.Length > b.Out[i].Length:
			results[i].Err = compress.ErrTooLarge
		default:
			whole.In, whole.Out = append(whole.In, in), append(whole.Out, b.Out[i])
			results[i].Length = in.Length
		}
	}
	return results, 0, shuffle.Apply(whole, t)
}

func (CRC32C) bound(n int64) int64 { return n + crc32c.Size }

// encodeBatch copies the inputs, and writes their checksums beside them.
func (c CRC32C) encodeBatch(b compress.Batch, _ int64) ([]compress.Result, int64, error) { //nolint:unparam // Blosc has others
	results := make([]compress.Result, len(b.In))
	data, sums := b, b
	data.Out, sums.Out = make([]compress.Range, len(b.Out)), make([]compress.Range, len(b.Out))
	for i, in := range b.In {
		data.Out[i], sums.Out[i] = c.split(compress.Range{Offset: b.Out[i].Offset, Length: c.bound(in.Length)})
		results[i].Length = c.bound(in.Length)
	}
	if err := pack.Copy(data); err != nil {
		return nil, 0, err
	}
	return results, 0, crc32c.Sums(sums)
}

// decodeBatch verifies the checksums of the inputs, and copies those that are right.
func (c CRC32C) decodeBatch(b compress.Batch, _ int64) ([]compress.Result, int64, error) { //nolint:unparam // Blosc has others
	results := make([]compress.Result, len(b.In))
	data, sums := compress.Batch{Src: b.Src, Dst: b.Dst}, compress.Batch{Src: b.Src, Dst: b.Src}
	var ids []int
	for i, in := range b.In {
		switch {
		case in.Length < crc32c.Size:
			results[i].Err = fmt.Errorf("crc32c: %d bytes are too few for a checksum: %w", in.Length, compress.ErrCorrupt)
		case in.Length-crc32c.Size > b.Out[i].Length:
			results[i].Err = compress.ErrTooLarge
		default:
			bytes, sum := c.split(in)
			data.In, data.Out = append(data.In, bytes), append(data.Out, b.Out[i])
			sums.In, sums.Out = append(sums.In, bytes), append(sums.Out, sum)
			ids = append(ids, i)
		}
	}
	verified, err := crc32c.Verify(sums)
	if err != nil {
		return nil, 0, err
	}
	for i, r := range verified {
		results[ids[i]] = r
	}
	return results, 0, pack.Copy(data)
}

// split returns where the data and the checksum are in an encoded chunk.
func (c CRC32C) split(r compress.Range) (data, sum compress.Range) {
	n := r.Length - crc32c.Size
	if c.Location == Start {
		return compress.Range{Offset: r.Offset + crc32c.Size, Length: n}, compress.Range{Offset: r.Offset, Length: crc32c.Size}
	}
	return compress.Range{Offset: r.Offset, Length: n}, compress.Range{Offset: r.Offset + n, Length: crc32c.Size}
}

// readHeads returns the first n bytes of each range of a buffer. Those of shorter ranges
// are 0.
func readHeads(buf arrowbuf.Buffer, ranges []compress.Range, n int64) ([]byte, error) {
	heads := make([]byte, n*int64(len(ranges)))
	if len(heads) == 0 {
		return heads, nil
	}
	packed, err := buf.Device().Alloc(int64(len(heads)))
	if err != nil {
		return nil, err
	}
	defer packed.Release()
	if _, err := packed.CopyFromHost(heads, 0); err != nil {
		return nil, err
	}
	b := compress.Batch{Src: buf, Dst: packed}
	for i, r := range ranges {
		size := min(r.Length, n)
		b.In = append(b.In, compress.Range{Offset: r.Offset, Length: size})
		b.Out = append(b.Out, compress.Range{Offset: n * int64(i), Length: size})
	}
	if err := pack.Copy(b); err != nil {
		return nil, err
	}
	_, err = packed.CopyToHost(heads, 0)
	return heads, err
}
