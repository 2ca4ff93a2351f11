package shuffle

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Transform is a shuffle or its inverse.
type Transform struct {
	Size    int  // of an element in bytes: 1 to 255
	Bits    bool // as [Bits] does, and otherwise as [Bytes]
	Inverse bool
}

// Apply transforms each input of a batch to the start of its output, whose length must be
// at least that of the input, and returns when it is done. Outputs must not overlap. It
// returns arrowbuf.ErrOutOfRange for a size that is not within 1 to 255 and for an output
// that is too short, and the errors of compress.Batch.Check.
func Apply(b compress.Batch, t Transform) error {
	err := b.Check()
	if err == nil {
		err = batch.CheckCapacities(b)
	}
	if err == nil && (t.Size < 1 || t.Size > 255) {
		err = fmt.Errorf("elements of %d bytes, want 1 to 255: %w", t.Size, arrowbuf.ErrOutOfRange)
	}
	if err == nil {
		if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
			err = t.applyCUDA(dev, b)
		} else {
			err = t.applyHost(b)
		}
	}
	if err != nil {
		return fmt.Errorf("shuffle.Apply: %w", err)
	}
	return nil
}

// run transforms one input on the host.
func (t Transform) run(dst, src []byte) error {
	switch {
	case t.Bits && t.Inverse:
		return UnshuffleBits(dst, src, t.Size)
	case t.Bits:
		return Bits(dst, src, t.Size)
	case t.Inverse:
		return UnshuffleBytes(dst, src, t.Size)
	default:
		return Bytes(dst, src, t.Size)
	}
}

func (t Transform) applyHost(b compress.Batch) error {
	_, err := batch.RunHost(b, func(dst, src []byte) (int64, error) {
		return int64(len(src)), t.run(dst[:len(src)], src)
	})
	return err
}

// name returns the name of the kernel: common sizes have kernels of their own.
func (t Transform) name() string {
	name := "quiver_shuffle"
	if t.Inverse {
		name = "quiver_unshuffle"
	}
	if t.Bits {
		name += "_bits"
	} else {
		name += "_bytes"
	}
	switch t.Size {
	case 1, 2, 4, 8, 16:
		return fmt.Sprintf("%s_%d", name, t.Size)
	}
	return name
}

// The kernels of kernels/compress/shuffle.cu.
var program = launch.Program("compress/shuffle", hostKernels())

const (
	tileBytes = 8 << 10
	threads   = 128
)

func hostKernels() map[string]cudabuf.HostKernel {
	kernels := map[string]cudabuf.HostKernel{}
	for _, size := range []int{1, 2, 4, 8, 16, 0} {
		for _, t := range []Transform{{}, {Bits: true}, {Inverse: true}, {Bits: true, Inverse: true}} {
			if size == 1 && !t.Bits {
				continue // a copy
			}
			t.Size = size
			kernels[t.name()] = t.hostKernel
		}
	}
	return kernels
}

// hostKernel is the host implementation of the kernels.
func (t Transform) hostKernel(l *cudabuf.HostLaunch) {
	pieces, dst, src := batch.LaunchedPieces(l)
	t.Size = int(l.Int64(4))
	items, outcomes := make([]batch.Item, len(pieces)), make([]batch.Outcome, len(pieces))
	for i, p := range pieces {
		items[i] = batch.Item{Src: p.Src, SrcSize: p.Size, Dst: p.Dst, DstSize: p.Size}
	}
	batch.DecodeItems(dst, src, items, outcomes, func(dst, src []byte) (int64, error) { return 0, t.run(dst, src) })
}

// applyCUDA runs the kernel for whole elements, and copies the other bytes.
func (t Transform) applyCUDA(dev *cudabuf.Device, b compress.Batch) error {
	size := int64(t.Size)
	pieces := batch.Pieces{All: make([]batch.Piece, 0, len(b.In)), TileBytes: tileBytes / size / 32 * 32 * size}
	copies := compress.Batch{Src: b.Src, Dst: b.Dst}
	for i, in := range b.In {
		n := in.Length / size
		if t.Bits && n%8 != 0 || !t.Bits && size == 1 {
			n = 0
		}
		out := b.Out[i].Offset
		pieces.Add(in.Offset, out, n*size)
		if rest := in.Length - n*size; rest > 0 {
			copies.In = append(copies.In, compress.Range{Offset: in.Offset + n*size, Length: rest})
			copies.Out = append(copies.Out, compress.Range{Offset: out + n*size, Length: rest})
		}
	}
	err := pieces.Launch(dev, program, t.name(), b, 1, threads, size)
	if len(copies.In) > 0 {
		err = errors.Join(err, pack.Copy(copies))
	}
	return err
}
