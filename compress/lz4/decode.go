package lz4

import (
	"fmt"

	"github.com/pierrec/lz4/v4"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Decode decodes the blocks of a batch (lz4_Block_format.md) and returns when it is done.
// An empty input is corrupt. An output may be shorter than its range. The error is that
// of the whole batch: it is not valid, or the device failed.
func Decode(b compress.Batch, o compress.DecodeOptions) ([]compress.Result, error) {
	return batch.Run("lz4.Decode", b, o.Stats, func(dev *cudabuf.Device) ([]batch.Outcome, error) {
		return decodeCUDA(dev, b, o)
	}, decodeBlock)
}

// decodeBlock decodes a block on the host, and returns the size of the output.
func decodeBlock(dst, src []byte) (int64, error) {
	if len(src) == 0 {
		return 0, compress.ErrCorrupt
	}
	n, err := lz4.UncompressBlock(src, dst)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", compress.ErrCorrupt, err)
	}
	return int64(n), nil
}
