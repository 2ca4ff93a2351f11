package pack

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Copy copies each input of a batch to the start of its output, whose length must be at
// least that of the input, and returns when it is done. Inputs may overlap, outputs must
// not. It returns arrowbuf.ErrOutOfRange for an output that is too short, and the errors
// of compress.Batch.Check.
func Copy(b compress.Batch) error {
	err := b.Check()
	if err == nil {
		err = batch.CheckCapacities(b)
	}
	if err == nil {
		err = copyBatch(b)
	}
	if err != nil {
		return fmt.Errorf("pack.Copy: %w", err)
	}
	return nil
}

const (
	tileBytes     = 16 << 10 // what a warp copies
	threads       = 256
	tilesPerBlock = threads / 32
)

var program = launch.Program("compress/pack", map[string]cudabuf.HostKernel{"quiver_pack": func(l *cudabuf.HostLaunch) {
	all, dst, src := batch.LaunchedPieces(l)
	copyPieces(dst, src, batch.Pieces{All: all, Tiles: l.Int64(4), TileBytes: tileBytes})
}})

func copyBatch(b compress.Batch) error {
	pieces := batch.Pieces{All: make([]batch.Piece, 0, len(b.In)), TileBytes: tileBytes}
	for i, in := range b.In {
		pieces.Add(in.Offset, b.Out[i].Offset, in.Length)
	}
	if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
		return pieces.Launch(dev, program, "quiver_pack", b, tilesPerBlock, threads, pieces.Tiles)
	}
	dst, src, err := batch.HostMemory(b)
	if err != nil {
		return err
	}
	copyPieces(dst, src, pieces)
	return nil
}

// copyPieces is the host implementation of the kernel.
func copyPieces(dst, src []byte, pieces batch.Pieces) {
	const tiles = 64 // that a core takes at a time, as pieces may be short
	pieces.EachPart(tiles, func(p batch.Piece, begin, end int64) {
		copy(dst[p.Dst+begin:p.Dst+end], src[p.Src+begin:p.Src+end])
	})
}
