package parquet

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/pierrec/lz4/v4"

	"github.com/quiver-gpu/quiver/compress/zstd"
)

func init() {
	if codec, err := compress.GetCodec(compress.Codecs.Zstd); err == nil {
		compress.RegisterCodec(compress.Codecs.Zstd, emptyPages{libraryZstd{codec}})
	}
	for _, c := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Lz4Raw} {
		if codec, err := compress.GetCodec(c); err == nil {
			compress.RegisterCodec(c, emptyPages{codec})
		}
	}
	if raw, err := compress.GetCodec(compress.Codecs.Lz4Raw); err == nil {
		compress.RegisterCodec(compress.Codecs.Lz4, emptyPages{legacyLZ4{raw}})
	}
}

// emptyPages is a codec that accepts no bytes as the compressed form of none. Spark 3.5
// writes such pages if all values are null.
type emptyPages struct{ compress.Codec }

func (c emptyPages) DecodeWithError(dst, src []byte) ([]byte, error) {
	if len(src) == 0 {
		return dst[:0], nil
	}
	return compress.Decode(c.Codec, dst, src)
}

// libraryZstd is Zstandard by libzstd, if the system has it.
type libraryZstd struct{ compress.Codec }

func (c libraryZstd) Encode(dst, src []byte) []byte {
	return c.EncodeLevel(dst, src, compress.DefaultCompressionLevel)
}

// EncodeLevel encodes with level 1 by default, as Arrow's C++ library does.
func (c libraryZstd) EncodeLevel(dst, src []byte, level int) []byte {
	if level == compress.DefaultCompressionLevel {
		level = 1
	}
	out, err := zstd.EncodeFrame(dst[:0], src, zstd.EncodeOptions{Level: level})
	if err != nil { // a level that libzstd does not have
		return c.Codec.EncodeLevel(dst, src, level)
	}
	return out
}

func (libraryZstd) DecodeWithError(dst, src []byte) ([]byte, error) {
	return zstd.DecodeFrames(dst, src, int64(len(dst)))
}

// legacyLZ4 is Parquet's codec LZ4, which arrow-go does not have. Writers disagree about
// it: Hadoop's frames are blocks, each after the lengths of its content and of itself;
// others write one block without lengths.
type legacyLZ4 struct{ compress.Codec }

// NewReader is not used: pages are decoded whole.
func (legacyLZ4) NewReader(io.Reader) io.ReadCloser { return io.NopCloser(brokenReader{}) }

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (c legacyLZ4) DecodeWithError(dst, src []byte) ([]byte, error) {
	if out, ok := decodeHadoopLZ4(dst, src); ok {
		return out, nil
	}
	return compress.Decode(c.Codec, dst, src)
}

// decodeHadoopLZ4 decodes frames of Hadoop, and reports whether src are such.
func decodeHadoopLZ4(dst, src []byte) (out []byte, ok bool) {
	dst = dst[:cap(dst)]
	n := 0
	for len(src) > 0 {
		if len(src) < 8 {
			return nil, false
		}
		size, length := int64(binary.BigEndian.Uint32(src)), int64(binary.BigEndian.Uint32(src[4:]))
		if src = src[8:]; length > int64(len(src)) || size > int64(len(dst)-n) {
			return nil, false
		}
		got, err := lz4.UncompressBlock(src[:length], dst[n:n+int(size)])
		if err != nil || int64(got) != size {
			return nil, false
		}
		n += got
		src = src[length:]
	}
	return dst[:n], true
}
