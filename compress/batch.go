package compress

import (
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// MaxSize is the largest size in bytes of an input or an output.
const MaxSize = math.MaxInt32

// The errors of a buffer. Test with errors.Is.
var (
	// ErrCorrupt reports that an input is not valid in its format.
	ErrCorrupt = errors.New("corrupt compressed data")
	// ErrChecksum reports an output that differs from the checksum in the input. It
	// wraps ErrCorrupt.
	ErrChecksum = fmt.Errorf("wrong checksum: %w", ErrCorrupt)
	// ErrTooLarge reports that an output needs more bytes than it may have.
	ErrTooLarge = errors.New("output exceeds its capacity")
)

// Range is a part of a buffer: Length bytes from Offset.
type Range struct{ Offset, Length int64 }

// within reports whether the range is valid in a buffer of size bytes.
func (r Range) within(size int64) bool {
	return r.Offset >= 0 && r.Length >= 0 && r.Length <= MaxSize && r.Offset <= size-r.Length
}

// Batch is a number of independent inputs in one buffer, and their outputs in another
// one of the same device.
type Batch struct {
	Src arrowbuf.Buffer
	// In has the inputs. They may begin at any offset and may overlap.
	In []Range
	// Dst must be writable memory that Src does not overlap.
	Dst arrowbuf.Buffer
	// Out has the output of each input. Length is how many bytes it may have. Outputs
	// must not overlap.
	Out []Range
}

// Result is what became of one input of a batch.
type Result struct {
	// Length is the size of the output in bytes, 0 if Err is not nil.
	Length int64
	// Err wraps ErrCorrupt, ErrTooLarge, or errors.ErrUnsupported for an input that is
	// valid and needs what the decoder lacks. The bytes of the output are then
	// undefined.
	Err error
}

// Stats counts the inputs of batches. A call adds to it when it is done. Calls that run at
// the same time must not share one.
type Stats struct {
	// Device is the number of inputs that kernels decoded or encoded, or found an error in.
	Device int64
	// Host is the number of those that code on the host did: all of the CPU device, and
	// on a GPU those of formats that have no kernel.
	Host int64
}

// DecodeOptions are the options of the decoders of batches. The zero value is valid.
type DecodeOptions struct {
	// Scratch is the size in bytes up to which a GPU's memory is used at a time, beside
	// Src and Dst; 0 is a 32nd of the GPU's memory, at least 1 GiB. A batch that needs more
	// is decoded in several steps. One input may exceed the limit if it needs more by
	// itself. Formats whose kernels need no other memory ignore it.
	Scratch int64
	// Stats is where inputs are counted unless it is nil.
	Stats *Stats
}

// Check returns an error if the batch is not valid: arrowbuf.ErrDevice for a missing
// buffer or different devices, arrowbuf.ErrOutOfRange for ranges outside of their buffers
// or larger than MaxSize.
func (b Batch) Check() error {
	if b.Src == nil || b.Dst == nil {
		return fmt.Errorf("compress.Batch: nil buffer: %w", arrowbuf.ErrDevice)
	}
	if b.Src.Device() != b.Dst.Device() {
		return fmt.Errorf("compress.Batch: inputs on %v, outputs on %v: want one device: %w", b.Src.Device(), b.Dst.Device(), arrowbuf.ErrDevice)
	}
	if len(b.In) != len(b.Out) {
		return fmt.Errorf("compress.Batch: %d outputs of %d inputs: %w", len(b.Out), len(b.In), arrowbuf.ErrOutOfRange)
	}
	if len(b.In) > math.MaxInt32 {
		return fmt.Errorf("compress.Batch: %d inputs: at most %d: %w", len(b.In), math.MaxInt32, arrowbuf.ErrOutOfRange)
	}
	check := func(what string, i int, r Range, size int64) error {
		if r.Length > MaxSize {
			return fmt.Errorf("compress.Batch: %s %d has %d bytes: at most %d: %w", what, i, r.Length, MaxSize, arrowbuf.ErrOutOfRange)
		}
		if err := arrowbuf.CheckRange(r.Offset, r.Length, size); err != nil {
			return fmt.Errorf("compress.Batch: %s %d: %w", what, i, err)
		}
		return nil
	}
	src, dst := b.Src.Len(), b.Dst.Len()
	for i := range b.In {
		if b.In[i].within(src) && b.Out[i].within(dst) {
			continue // of a million ranges, those that are right take little time
		}
		if err := check("input", i, b.In[i], src); err != nil {
			return err
		}
		if err := check("output", i, b.Out[i], dst); err != nil {
			return err
		}
	}
	return nil
}
