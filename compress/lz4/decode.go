package lz4

import (
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Decode decodes the blocks of a batch (lz4_Block_format.md) and returns when it is done.
// An empty input is corrupt. An output may be shorter than its range. The error is that
// of the whole batch: it is not valid, or the device failed.
func Decode(b compress.Batch) ([]compress.Result, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("lz4.Decode: %w", err)
	}
	decode := decodeHost
	if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
		decode = func(b compress.Batch) ([]batch.Outcome, error) { return decodeCUDA(dev, b) }
	}
	outcomes, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("lz4.Decode: %w", err)
	}
	return batch.Results("lz4.Decode", outcomes), nil
}

func decodeHost(b compress.Batch) ([]batch.Outcome, error) { return batch.RunHost(b, decodeBlock) }

// decodeBlock is the host implementation of the kernel.
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

// decodeThreads is the number of threads per block of the kernel: a warp that reads
// sequences, and those that write the output.
const decodeThreads = 128

var decodeProgram = launch.Program("compress/lz4_decode", map[string]cudabuf.HostKernel{"quiver_lz4_decode": func(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	items, outcomes := batch.Structs[batch.Item](l, 2, n), batch.Structs[batch.Outcome](l, 3, n)
	var src, dst int64
	for _, it := range items {
		src, dst = max(src, it.Src+it.SrcSize), max(dst, it.Dst+it.DstSize)
	}
	batch.DecodeItems(l.Memory(l.Pointer(0), dst), l.Memory(l.Pointer(1), src), items, outcomes, decodeBlock)
}})

func decodeCUDA(dev *cudabuf.Device, b compress.Batch) (_ []batch.Outcome, err error) {
	outcomes := make([]batch.Outcome, len(b.In))
	if len(outcomes) == 0 {
		return outcomes, nil
	}
	items, err := batch.Upload(dev, batch.Items(b))
	if err != nil {
		return nil, err
	}
	defer items.Release()
	results, err := dev.NewBuffer(int64(len(batch.Bytes(outcomes))))
	if err != nil {
		return nil, err
	}
	defer results.Release()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = launch.OnStream(s, decodeProgram, "quiver_lz4_decode", int64(len(b.In)), decodeThreads,
		launch.InOut(b.Dst, 0), launch.In(b.Src, 0), launch.In(items, 0), launch.InOut(results, 0))
	if err != nil {
		return nil, err
	}
	_, err = results.CopyToHost(batch.Bytes(outcomes), 0)
	return outcomes, err
}
