package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/zstd"
)

// DeviceCodec decodes batches of encoded chunks with the kernels of a GPU. The output of
// each is its elements, in C order and the host's byte order.
type DeviceCodec interface {
	// Payload returns the part of an encoded chunk that is the input of a batch. size is
	// that of the decoded chunk in bytes.
	Payload(encoded []byte, size int64) ([]byte, error)
	// Decode decodes a batch. It returns the results of all inputs, or the error of the
	// device.
	Decode(b compress.Batch, o compress.Options) ([]compress.Result, error)
}

// DeviceCodec returns how a GPU decodes chunks of the chain, or false if only the host
// can. A GPU decodes chunks that Bytes without a byte swap and then Zstd or LZ4 encode.
func (c *Chain) DeviceCodec() (DeviceCodec, bool) {
	raw, ok := c.serializer.(*bytesSerializer)
	if !ok || raw.swap || raw.chunk.Type.NeedsNormalize() || len(c.transforms) > 0 || c.axisOrder != nil || len(c.compressors) != 1 {
		return nil, false
	}
	switch c.compressors[0].(type) {
	case Zstd:
		return zstdOnDevice{}, true
	case LZ4:
		return lz4OnDevice{}, true
	default:
		return nil, false
	}
}

type zstdOnDevice struct{}

func (zstdOnDevice) Payload(encoded []byte, _ int64) ([]byte, error) { return encoded, nil }

func (zstdOnDevice) Decode(b compress.Batch, o compress.Options) ([]compress.Result, error) {
	return zstd.Decode(b, o)
}

type lz4OnDevice struct{}

func (lz4OnDevice) Payload(encoded []byte, size int64) ([]byte, error) {
	if len(encoded) < 4 {
		return nil, errors.New("lz4: no header")
	}
	if n := int64(binary.LittleEndian.Uint32(encoded)); n != size {
		return nil, fmt.Errorf("lz4: header says %d bytes, want %d", n, size)
	}
	return encoded[4:], nil
}

func (lz4OnDevice) Decode(b compress.Batch, _ compress.Options) ([]compress.Result, error) {
	return lz4.Decode(b)
}
