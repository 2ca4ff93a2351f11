package zstd

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Bound returns an upper bound on the size of the frame of n bytes, for each device and
// level.
func Bound(n int64) int64 { return n + n/256 + 64 }

// Encode encodes each input of a batch as one frame (RFC 8878), and returns when it is
// done. An output of [Bound] bytes suffices unless that exceeds compress.MaxSize. A
// shorter one may be an error of its input, which wraps compress.ErrTooLarge. A GPU has
// two levels: a fast one below 3, and one that finds more matches for 0 and from 3 on. The
// error of Encode is that of the whole batch: it is not valid, or the device failed.
func Encode(b compress.Batch, o EncodeOptions) ([]compress.Result, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("zstd.Encode: %w", err)
	}
	return batch.Run("zstd.Encode", b, nil, func(dev *cudabuf.Device) ([]batch.Outcome, error) { return encodeCUDA(dev, b, o) }, o.encodeInto)
}

// encodeInto encodes src into dst on the host, and returns the size of the frame.
func (o EncodeOptions) encodeInto(dst, src []byte) (int64, error) {
	out, err := o.encodeFrame(dst[:0], src)
	if err != nil {
		return 0, err
	}
	if len(out) > len(dst) {
		return 0, compress.ErrTooLarge
	}
	copy(dst, out) // does nothing unless dst was shorter than the encoder's own bound
	return int64(len(out)), nil
}

// Decode decodes the inputs of a batch (RFC 8878), each any number of frames, and returns
// when it is done. An output may be shorter than its range. A frame with a dictionary is
// an error that wraps errors.ErrUnsupported. The error of Decode is that of the whole
// batch: it is not valid, or the device failed.
func Decode(b compress.Batch, o compress.DecodeOptions) ([]compress.Result, error) {
	return batch.Run("zstd.Decode", b, o.Stats, func(dev *cudabuf.Device) ([]batch.Outcome, error) { return decodeCUDA(dev, b, o) }, decodeFrames)
}

// decodeFrames decodes src into dst on the host, and returns the size of the output.
func decodeFrames(dst, src []byte) (int64, error) {
	out, err := decodeAll(dst, src)
	return int64(len(out)), classify(err)
}

// classify returns an error of the decoder as one of package compress.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: %w", compress.ErrTooLarge, err)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return fmt.Errorf("dictionary: %w", errors.ErrUnsupported)
	case errors.Is(err, zstd.ErrCRCMismatch):
		return fmt.Errorf("%w: %w", compress.ErrChecksum, err)
	default:
		return fmt.Errorf("%w: %w", compress.ErrCorrupt, err)
	}
}
