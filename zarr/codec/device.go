package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/compress/zstd"
)

func (Zstd) decodeBatch(b compress.Batch, scratch int64) ([]compress.Result, error) {
	return zstd.Decode(b, compress.Options{Scratch: scratch})
}

func (Zstd) bound(n int64) int64 { return zstd.Bound(n) }

func (z Zstd) encodeBatch(b compress.Batch, scratch int64) ([]compress.Result, error) {
	return zstd.Encode(b, zstd.EncodeOptions{Level: z.Level, Checksum: z.Checksum, Scratch: scratch})
}

func (LZ4) bound(n int64) int64 { return lz4Header + lz4.Bound(n) }

// encodeBatch puts the sizes before the blocks.
func (c LZ4) encodeBatch(b compress.Batch, scratch int64) ([]compress.Result, error) {
	sizes := make([]byte, 0, lz4Header*len(b.In))
	blocks := b
	blocks.Out = make([]compress.Range, len(b.Out))
	for i, out := range b.Out {
		sizes = binary.LittleEndian.AppendUint32(sizes, uint32(b.In[i].Length))
		blocks.Out[i] = compress.Range{Offset: out.Offset + lz4Header, Length: out.Length - lz4Header}
	}
	if err := writeHeads(b.Dst, b.Out, sizes, lz4Header); err != nil {
		return nil, err
	}
	results, err := lz4.Encode(blocks, lz4.EncodeOptions{Acceleration: c.Acceleration, Scratch: scratch})
	for i := range results {
		if results[i].Err == nil {
			results[i].Length += lz4Header
		}
	}
	return results, err
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
func (LZ4) decodeBatch(b compress.Batch, _ int64) ([]compress.Result, error) {
	sizes, err := readHeads(b.Src, b.In, lz4Header)
	if err != nil {
		return nil, err
	}
	blocks := b
	blocks.In = make([]compress.Range, len(b.In))
	for i, in := range b.In {
		n := min(in.Length, lz4Header)
		blocks.In[i] = compress.Range{Offset: in.Offset + n, Length: in.Length - n}
	}
	results, err := lz4.Decode(blocks)
	for i := range results {
		size := int64(binary.LittleEndian.Uint32(sizes[lz4Header*i:]))
		if r := &results[i]; r.Err == nil && r.Length != size {
			*r = compress.Result{Err: fmt.Errorf("lz4: %d bytes decoded, want %d: %w", r.Length, size, compress.ErrCorrupt)}
		}
	}
	return results, err
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
