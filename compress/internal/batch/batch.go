// Package batch runs batches: on the CPU with a function for each item, on a GPU with
// kernels that share the structs of kernels/compress/batch.cuh.
package batch

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Item is the input and the output of a kernel, in bytes of Src and Dst.
type Item struct{ Src, SrcSize, Dst, DstSize int64 }

// Status is what a kernel says of an item.
type Status int32

// The values of Status, as in batch.cuh.
const (
	OK Status = iota
	Truncated
	TooLarge
	BadOffset
	Corrupt
	BadChecksum
	Unsupported
)

// Outcome is the result of a kernel for an item.
type Outcome struct {
	Size   int64
	Status Status
	_      int32
}

// err returns the error that a status stands for.
func (s Status) err() error {
	switch s {
	case OK:
		return nil
	case Truncated:
		return fmt.Errorf("input ends too early: %w", compress.ErrCorrupt)
	case TooLarge:
		return compress.ErrTooLarge
	case BadOffset:
		return fmt.Errorf("match before the start of the output: %w", compress.ErrCorrupt)
	case BadChecksum:
		return compress.ErrChecksum
	case Unsupported:
		return errors.ErrUnsupported
	default:
		return compress.ErrCorrupt
	}
}

// StatusOf returns the status that a decoder on the host reports by an error.
func StatusOf(err error) Status {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, compress.ErrTooLarge):
		return TooLarge
	case errors.Is(err, compress.ErrChecksum):
		return BadChecksum
	case errors.Is(err, errors.ErrUnsupported):
		return Unsupported
	default:
		return Corrupt
	}
}

// Memory keeps slices of calls for later ones, because the first access to each page of new
// memory is slow.
type Memory[T any] struct{ pool sync.Pool }

// Get returns a slice of n values, which Put takes back. They are not cleared.
func (m *Memory[T]) Get(n int) []T {
	if kept, ok := m.pool.Get().(*[]T); ok && cap(*kept) >= n {
		return (*kept)[:n]
	}
	return make([]T, n)
}

// Put keeps a slice for a later Get. The caller must not use it any more.
func (m *Memory[T]) Put(values []T) { m.pool.Put(&values) }

// Outcomes is the memory of the outcomes of [Run].
var Outcomes Memory[Outcome]

// Items returns the items of a batch.
func Items(b compress.Batch) []Item { return FillItems(b, make([]Item, len(b.In))) }

// FillItems fills items with those of a batch, and returns them.
func FillItems(b compress.Batch, items []Item) []Item {
	for i, in := range b.In {
		items[i] = Item{in.Offset, in.Length, b.Out[i].Offset, b.Out[i].Length}
	}
	return items
}

// Results returns the results of a function of a package, such as "zstd.Decode".
func Results(function string, outcomes []Outcome) []compress.Result {
	results := make([]compress.Result, len(outcomes))
	for i, o := range outcomes {
		if o.Status == OK {
			results[i].Length = o.Size
		} else {
			results[i].Err = fmt.Errorf("%s: input %d: %w", function, i, o.Status.err())
		}
	}
	return results
}

// Upload returns a buffer with the bytes of values. The caller must release it.
func Upload[T any](dev *cudabuf.Device, values []T) (*cudabuf.Buffer, error) {
	bytes := Bytes(values)
	b, err := dev.NewBuffer(int64(len(bytes)))
	if err != nil {
		return nil, err
	}
	if _, err := b.CopyFromHost(bytes, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Bytes returns the memory of values.
func Bytes[T any](values []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(*new(T))))
}

// RunHost calls decode for each item of a batch in host memory, on all cores. decode
// writes to dst, whose length is the capacity, and returns the size of the output.
func RunHost(b compress.Batch, decode func(dst, src []byte) (int64, error)) ([]Outcome, error) {
	dst, src, err := HostMemory(b)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(b.In))
	DecodeItems(dst, src, Items(b), outcomes, decode)
	return outcomes, nil
}

// DecodeItems calls decode for each item, on all cores.
func DecodeItems(dst, src []byte, items []Item, outcomes []Outcome, decode func(dst, src []byte) (int64, error)) {
	ForEach(int64(len(items)), func(i int64) {
		it := items[i]
		n, err := decode(dst[it.Dst:it.Dst+it.DstSize:it.Dst+it.DstSize], src[it.Src:it.Src+it.SrcSize])
		outcomes[i] = Outcome{Size: n, Status: StatusOf(err)}
	})
}

// ForEach calls f with 0 to n - 1, on all cores.
func ForEach(n int64, f func(i int64)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(int64(runtime.GOMAXPROCS(0)), n) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				f(i)
			}
		})
	}
	wait.Wait()
}
