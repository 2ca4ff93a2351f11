package crc32c

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Size is the size of a stored checksum in bytes.
const Size = 4

// Sums writes the checksum of each input of a batch to the first 4 bytes of its output,
// and returns when it is done. Unlike for other functions, Dst may be Src or overlap it, as
// long as no output overlaps an input. It returns arrowbuf.ErrOutOfRange for an output of
// less than 4 bytes, and the errors of compress.Batch.Check.
func Sums(b compress.Batch) error {
	err := check(b)
	if err == nil {
		if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
			_, err = run(dev, b, false)
		} else {
			_, err = batch.RunHost(b, func(dst, src []byte) (int64, error) {
				binary.LittleEndian.PutUint32(dst, crc32.Checksum(src, table))
				return Size, nil
			})
		}
	}
	if err != nil {
		return fmt.Errorf("crc32c.Sums: %w", err)
	}
	return nil
}

// Verify compares the checksum of each input of a batch with the first 4 bytes of its
// output, which it does not change. A result has the length of the input, or an error that
// wraps compress.ErrChecksum. The error of Verify is that of the whole batch, as of [Sums].
func Verify(b compress.Batch) ([]compress.Result, error) {
	var outcomes []batch.Outcome
	err := check(b)
	if err == nil {
		if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
			outcomes, err = run(dev, b, true)
		} else {
			outcomes, err = batch.RunHost(b, func(dst, src []byte) (int64, error) {
				if binary.LittleEndian.Uint32(dst) != crc32.Checksum(src, table) {
					return 0, compress.ErrChecksum
				}
				return int64(len(src)), nil
			})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("crc32c.Verify: %w", err)
	}
	return batch.Results("crc32c.Verify", outcomes), nil
}

func check(b compress.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	for i, out := range b.Out {
		if out.Length < Size {
			return fmt.Errorf("output %d has %d bytes, want at least %d: %w", i, out.Length, Size, arrowbuf.ErrOutOfRange)
		}
	}
	return nil
}

// The launches of the kernels of kernels/compress/crc32c.cu.
const (
	tileBytes     = 16 * 44 * 128 // of which a warp computes the remainder
	alignment     = 128           // of the addresses at which tiles begin
	addThreads    = 256
	tilesPerBlock = addThreads / 32
	threads       = 256 // of kernels with a thread per item
)

// run computes the sums of a batch on a GPU. It compares them, or stores them.
func run(dev *cudabuf.Device, b compress.Batch, verify bool) (_ []batch.Outcome, err error) {
	n := int64(len(b.In))
	if n == 0 {
		return nil, nil
	}
	pieces := batch.Pieces{All: make([]batch.Piece, 0, n), TileBytes: tileBytes}
	address := int64(b.Src.Address())
	for i, in := range b.In {
		pieces.AddFrom(in.Offset, int64(i), in.Length, (address+in.Offset)%alignment)
	}
	items, err := batch.Upload(dev, batch.Items(b))
	if err != nil {
		return nil, err
	}
	defer items.Release()
	all, err := batch.Upload(dev, pieces.All)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	sums, err := dev.NewBuffer(n * Size)
	if err != nil {
		return nil, err
	}
	defer sums.Release()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	perItem := (n + threads - 1) / threads
	if err := launch.OnStream(s, program, "quiver_crc32c_begin", perItem, threads, launch.In(items, 0), launch.InOut(sums, 0), n); err != nil {
		return nil, err
	}
	if pieces.Tiles > 0 {
		err := launch.OnStream(s, program, "quiver_crc32c_add", (pieces.Tiles+tilesPerBlock-1)/tilesPerBlock, addThreads,
			launch.InOut(sums, 0), launch.In(b.Src, 0), launch.In(all, 0), int64(len(pieces.All)), pieces.Tiles)
		if err != nil {
			return nil, err
		}
	}
	if !verify {
		err := launch.OnStream(s, program, "quiver_crc32c_store", perItem, threads, launch.InOut(b.Dst, 0), launch.In(items, 0), launch.In(sums, 0), n)
		if err != nil {
			return nil, err
		}
		return nil, s.Synchronize()
	}
	outcomes := make([]batch.Outcome, n)
	results, err := dev.NewBuffer(int64(len(batch.Bytes(outcomes))))
	if err != nil {
		return nil, err
	}
	defer results.Release()
	err = launch.OnStream(s, program, "quiver_crc32c_verify", perItem, threads,
		launch.In(b.Dst, 0), launch.In(items, 0), launch.In(sums, 0), launch.InOut(results, 0), n)
	if err != nil {
		return nil, err
	}
	_, err = results.CopyToHost(batch.Bytes(outcomes), 0)
	return outcomes, err
}
