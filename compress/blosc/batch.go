package blosc

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// EncodeOptions are the parameters of [Encode].
type EncodeOptions struct {
	Options
	// Scratch is that of compress.DecodeOptions.
	Scratch int64
	// Stats is where inputs are counted unless it is nil.
	Stats *compress.Stats
}

// Bound returns the largest size of the chunk of n bytes.
func Bound(n int64) int64 { return n + Overhead }

// Decode decodes the inputs of a batch, each exactly one chunk, and returns when it is
// done. An output may be shorter than its range. On a GPU the parts of all blocks are
// decoded at the same time; chunks of BloscLZ, Snappy and zlib, and those with blocks of
// less than 256 bytes, are decoded by the host. Blosc 2 is an error that wraps
// errors.ErrUnsupported. The output of an input with an error is undefined, and is within
// its range. The error of Decode is that of the whole batch: it is not valid, or the device
// failed.
func Decode(b compress.Batch, o compress.DecodeOptions) ([]compress.Result, error) {
	return batch.Run("blosc.Decode", b, o.Stats, func(dev *cudabuf.Device) ([]batch.Outcome, error) { return decodeCUDA(dev, b, o) }, decodeInto)
}

// Encode encodes each input of a batch as one chunk, and returns when it is done. An output
// of [Bound] bytes always suffices; a shorter one may be an error of its input, which wraps
// compress.ErrTooLarge. Inputs larger than [MaxSize] are errors that wrap
// errors.ErrUnsupported. On a GPU, the formats BloscLZ, Snappy, zlib and [LZ4HC] are encoded
// by the host. The error of Encode is that of the whole batch: it or the options are not
// valid, or the device failed.
func Encode(b compress.Batch, o EncodeOptions) ([]compress.Result, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("blosc.Encode: %w", err)
	}
	if o.TypeSize > 255 {
		o.TypeSize = 1
	}
	return batch.Run("blosc.Encode", b, o.Stats, func(dev *cudabuf.Device) ([]batch.Outcome, error) { return encodeCUDA(dev, b, o) }, o.encodeInto)
}

// decodeInto decodes src into dst on the host, and returns the size of the output.
func decodeInto(dst, src []byte) (int64, error) {
	out, err := DecodeChunk(dst[:0], src, int64(len(dst)))
	return int64(len(out)), err
}

// encodeInto encodes src into dst on the host, and returns the size of the chunk.
func (o Options) encodeInto(dst, src []byte) (int64, error) {
	if len(src) > MaxSize {
		return 0, errors.ErrUnsupported
	}
	out, err := EncodeChunk(dst[:0], src, o)
	if err != nil {
		return 0, err
	}
	if len(out) > len(dst) {
		return 0, compress.ErrTooLarge
	}
	copy(dst, out) // does nothing unless dst was shorter than Bound
	return int64(len(out)), nil
}

// jobs are ranges that one operation processes, and what to do with its results.
type jobs struct {
	in, out []compress.Range
	owner   []int // of each range, as its user numbers them
}

// newJobs returns jobs with memory for n of them.
func newJobs(n int) *jobs {
	return &jobs{in: make([]compress.Range, 0, n), out: make([]compress.Range, 0, n), owner: make([]int, 0, n)}
}

func (j *jobs) add(in, out compress.Range, owner int) {
	j.in, j.out, j.owner = append(j.in, in), append(j.out, out), append(j.owner, owner)
}

func (j *jobs) batch(dst, src arrowbuf.Buffer) compress.Batch {
	return compress.Batch{Src: src, In: j.in, Dst: dst, Out: j.out}
}
