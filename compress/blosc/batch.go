package blosc

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Stats counts the inputs of batches. A call adds to it when it is done. Calls that run at
// the same time must not share one.
type Stats struct {
	// Device is the number of inputs that kernels decoded or encoded, or found an error in.
	Device int64
	// Host is the number of those that code on the host did: all of the CPU device. On a
	// GPU they are inputs that have no kernel: the formats BloscLZ, Snappy and zlib,
	// [LZ4HC] in encoding, and blocks of less than 256 bytes in decoding.
	Host int64
}

func (s *Stats) add(device, host int) {
	if s != nil {
		s.Device += int64(device)
		s.Host += int64(host)
	}
}

// DecodeOptions are the parameters of [DecodeBatch]. The zero value is valid.
type DecodeOptions struct {
	// Scratch is the size in bytes up to which a GPU's memory is used at a time, beside
	// Src and Dst; 0 is 1 GiB. A batch that needs more is decoded in several steps. One
	// input may exceed the limit if it needs more by itself.
	Scratch int64
	// Stats is where inputs are counted unless it is nil.
	Stats *Stats
}

// EncodeOptions are the parameters of [EncodeBatch].
type EncodeOptions struct {
	Options
	// Scratch is that of [DecodeOptions].
	Scratch int64
	// Stats is where inputs are counted unless it is nil.
	Stats *Stats
}

// Bound returns the largest size of the chunk of n bytes.
func Bound(n int64) int64 { return n + Overhead }

// DecodeBatch decodes the inputs of a batch, each exactly one chunk, and returns when it is
// done. An output may be shorter than its range. On a GPU the parts of all blocks are
// decoded at the same time. Blosc 2 is an error that wraps errors.ErrUnsupported. The
// output of an input with an error is undefined, and is within its range. The error of
// DecodeBatch is that of the whole batch: it is not valid, or the device failed.
func DecodeBatch(b compress.Batch, o DecodeOptions) ([]compress.Result, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("blosc.DecodeBatch: %w", err)
	}
	var outcomes []batch.Outcome
	var err error
	if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
		outcomes, err = decodeCUDA(dev, b, o)
	} else if outcomes, err = batch.RunHost(b, decodeInto); err == nil {
		o.Stats.add(0, len(b.In))
	}
	if err != nil {
		return nil, fmt.Errorf("blosc.DecodeBatch: %w", err)
	}
	return batch.Results("blosc.DecodeBatch", outcomes), nil
}

// EncodeBatch encodes each input of a batch as one chunk, and returns when it is done. An
// output of [Bound] bytes always suffices; a shorter one may be an error of its input,
// which wraps compress.ErrTooLarge. Inputs larger than [MaxSize] are errors that wrap
// errors.ErrUnsupported. The error of EncodeBatch is that of the whole batch: it or the
// options are not valid, or the device failed.
func EncodeBatch(b compress.Batch, o EncodeOptions) ([]compress.Result, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("blosc.EncodeBatch: %w", err)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("blosc.EncodeBatch: %w", err)
	}
	if o.TypeSize > 255 {
		o.TypeSize = 1
	}
	var outcomes []batch.Outcome
	var err error
	if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
		outcomes, err = encodeCUDA(dev, b, o)
	} else if outcomes, err = batch.RunHost(b, o.encodeInto); err == nil {
		o.Stats.add(0, len(b.In))
	}
	if err != nil {
		return nil, fmt.Errorf("blosc.EncodeBatch: %w", err)
	}
	return batch.Results("blosc.EncodeBatch", outcomes), nil
}

// decodeInto decodes src into dst on the host, and returns the size of the output.
func decodeInto(dst, src []byte) (int64, error) {
	out, err := Decode(dst[:0], src, int64(len(dst)))
	return int64(len(out)), err
}

// encodeInto encodes src into dst on the host, and returns the size of the chunk.
func (o Options) encodeInto(dst, src []byte) (int64, error) {
	if len(src) > MaxSize {
		return 0, errors.ErrUnsupported
	}
	out, err := Encode(dst[:0], src, o)
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

func (j *jobs) add(in, out compress.Range, owner int) {
	j.in, j.out, j.owner = append(j.in, in), append(j.out, out), append(j.owner, owner)
}

func (j *jobs) batch(dst, src arrowbuf.Buffer) compress.Batch {
	return compress.Batch{Src: src, In: j.in, Dst: dst, Out: j.out}
}
