package parquet

import (
	"encoding/binary"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// frameLZ4 is LZ4 as Hadoop writes it, in blocks.
type frameLZ4 struct{ compress.Codec }

func (frameLZ4) CompressBound(n int64) int64 { return 2*n + 64 }

func (frameLZ4) Encode(_, src []byte) []byte {
	var out []byte
	for len(src) > 0 {
		part := src[:min(len(src), 1000)]
		src = src[len(part):]
		block := make([]byte, lz4.CompressBlockBound(len(part)))
		n, err := lz4.CompressBlock(part, block, nil)
		if err != nil || n == 0 {
			panic("a block that cannot be compressed")
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(binary.BigEndian.AppendUint32(out, uint32(n)), block[:n]...)
	}
	return out
}

func (c frameLZ4) EncodeLevel(dst, src []byte, _ int) []byte { return c.Encode(dst, src) }

func TestLegacyLZ4IsRead(t *testing.T) {
	before, err := compress.GetCodec(compress.Codecs.Lz4)
	require.NoError(t, err)
	defer compress.RegisterCodec(compress.Codecs.Lz4, before)
	raw, err := compress.GetCodec(compress.Codecs.Lz4Raw)
	require.NoError(t, err)
	want := tabletest.Numbers(0, 3000)
	for name, codec := range map[string]compress.Codec{"Hadoop's frames": frameLZ4{raw}, "one block": raw} {
		compress.RegisterCodec(compress.Codecs.Lz4, codec)
		content := want.Parquet(t, parquet.WithCompression(compress.Codecs.Lz4), parquet.WithDictionaryDefault(false))
		compress.RegisterCodec(compress.Codecs.Lz4, before)
		rows := sourcetest.Rows(t, fileOf(t, content))
		require.Len(t, rows, 3000, name)
		assert.Equal(t, "2999", rows[2999])
	}
}

// Spark 3.5 compresses the values of a page of nulls to no bytes.
func TestEmptyCompressedPagesAreRead(t *testing.T) {
	for _, c := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd, compress.Codecs.Lz4Raw, compress.Codecs.Lz4} {
		codec, err := compress.GetCodec(c)
		require.NoError(t, err)
		got, err := compress.Decode(codec, make([]byte, 8), nil)
		require.NoError(t, err, c)
		assert.Empty(t, got)
	}
}
