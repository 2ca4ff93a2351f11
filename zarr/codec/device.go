package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/zstd"
)

// DeviceCodec is how a GPU decodes batches of encoded chunks. The output of each is its
// elements, in C order and the host's byte order.
type DeviceCodec struct {
	// Decode decodes a batch of payloads. It returns the results of all inputs, or the
	// error of the device. It is nil if encoded chunks are the elements already.
	Decode func(compress.Batch, compress.Options) ([]compress.Result, error)
	// Payload returns the part of an encoded chunk that is the input of a batch. size is
	// that of the decoded chunk in bytes.
	Payload func(encoded []byte, size int64) ([]byte, error)
	// EncodedSize returns the size in bytes that few encoded chunks of size bytes exceed.
	EncodedSize func(size int64) int64
}

// DeviceCodec returns how a GPU decodes chunks of the chain, or nil if only the host can.
// A GPU decodes chunks that Bytes without a byte swap encodes, and Zstd or LZ4 after it.
func (c *Chain) DeviceCodec() *DeviceCodec {
	raw, ok := c.serializer.(*bytesSerializer)
	if !ok || raw.swap || raw.chunk.Type.NeedsNormalize() || len(c.transforms) > 0 || c.axisOrder != nil || len(c.compressors) > 1 {
		return nil
	}
	whole := func(encoded []byte, _ int64) ([]byte, error) { return encoded, nil }
	if len(c.compressors) == 0 {
		return &DeviceCodec{Payload: whole, EncodedSize: func(size int64) int64 { return size }}
	}
	slightlyMore := func(size int64) int64 { return size + size/128 + 64 }
	switch c.compressors[0].(type) {
	case Zstd:
		return &DeviceCodec{zstd.Decode, whole, slightlyMore}
	case LZ4:
		decode := func(b compress.Batch, _ compress.Options) ([]compress.Result, error) { return lz4.Decode(b) }
		return &DeviceCodec{decode, lz4Payload, slightlyMore}
	default:
		return nil
	}
}

// lz4Payload returns the block after its size.
func lz4Payload(encoded []byte, size int64) ([]byte, error) {
	if len(encoded) <= lz4Header {
		return nil, fmt.Errorf("lz4: %d bytes are too few for a block", len(encoded))
	}
	if n := int64(binary.LittleEndian.Uint32(encoded)); n != size {
		return nil, fmt.Errorf("lz4: %d bytes decoded, want %d", n, size)
	}
	return encoded[lz4Header:], nil
}
