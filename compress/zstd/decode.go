package zstd

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Decode decodes the inputs of a batch (RFC 8878), each any number of frames, and returns
// when it is done. An output may be shorter than its range. A frame with a dictionary is
// an error that wraps errors.ErrUnsupported. The error of Decode is that of the whole
// batch: it is not valid, or the device failed.
func Decode(b compress.Batch, o compress.DecodeOptions) ([]compress.Result, error) {
	return batch.Run("zstd.Decode", b, o.Stats, func(dev *cudabuf.Device) ([]batch.Outcome, error) { return decodeCUDA(dev, b, o) }, decodeFrames)
}

// decoders are reused, because each has tables of its own.
var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		// The window lies in the output, whose size is known.
		zstd.WithDecoderMaxWindow(1<<31))
	if err != nil {
		return err
	}
	return d
}}

// decodeFrames decodes src into dst on the host, and returns the size of the output.
func decodeFrames(dst, src []byte) (int64, error) {
	switch d := decoders.Get().(type) {
	case *zstd.Decoder:
		defer decoders.Put(d)
		out, err := d.DecodeAll(src, dst[:0])
		return int64(len(out)), classify(err)
	default:
		return 0, d.(error)
	}
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
