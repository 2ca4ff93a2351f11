package lz4

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// EncodeOptions are the parameters of [Encode]. The zero value is valid.
type EncodeOptions struct {
	// Acceleration is that of [EncodeBlock] on the CPU device. GPUs have one level.
	Acceleration int
	// Scratch is the size in bytes up to which a GPU's memory is used at a time, beside
	// Src and Dst; 0 is a 32nd of the GPU's memory, at least 1 GiB. A batch that needs more
	// is encoded in several steps. One input may exceed the limit if it needs more by
	// itself.
	Scratch int64
}

// Encode encodes each input of a batch as one block (lz4_Block_format.md), and returns
// when it is done. An output of [Bound] bytes always suffices; a shorter one may be an
// error of its input, which wraps compress.ErrTooLarge. Inputs larger than [MaxSize] are
// errors that wrap errors.ErrUnsupported. The error of Encode is that of the whole batch:
// it is not valid, or the device failed.
func Encode(b compress.Batch, o EncodeOptions) ([]compress.Result, error) {
	return batch.Run("lz4.Encode", b, nil, func(dev *cudabuf.Device) ([]batch.Outcome, error) { return encodeCUDA(dev, b, o) }, o.encodeInto)
}

// encodeInto encodes src into dst on the host, and returns the size of the block.
func (o EncodeOptions) encodeInto(dst, src []byte) (int64, error) {
	if len(src) > MaxSize {
		return 0, errors.ErrUnsupported
	}
	n, err := EncodeBlock(dst, src, o.Acceleration)
	if err == nil && n == 0 {
		err = compress.ErrTooLarge
	}
	return int64(n), err
}

// Decode decodes the blocks of a batch (lz4_Block_format.md) and returns when it is done.
// An empty input is corrupt. An output may be shorter than its range. The error is that
// of the whole batch: it is not valid, or the device failed.
func Decode(b compress.Batch, o compress.DecodeOptions) ([]compress.Result, error) {
	return batch.Run("lz4.Decode", b, o.Stats, func(dev *cudabuf.Device) ([]batch.Outcome, error) {
		return decodeCUDA(dev, b, o)
	}, decodeBlock)
}

// decodeBlock decodes a block on the host, as the kernels do, and returns the size of the
// output.
func decodeBlock(dst, src []byte) (int64, error) {
	if len(src) == 0 {
		return 0, compress.ErrCorrupt
	}
	run := decode
	if bytes.Contains(src, []byte{0, 0}) { // liblz4 accepts matches at offset 0
		run = decodeGo
	}
	n, err := run(dst, src)
	if err == nil {
		return int64(n), nil
	}
	p := parser{in: src}
	for p.status == batch.OK && p.out <= int64(len(dst)) {
		p.read()
	}
	if p.status <= batch.OK && p.out > int64(len(dst)) {
		return 0, compress.ErrTooLarge
	}
	return 0, fmt.Errorf("%w: %w", compress.ErrCorrupt, err)
}
