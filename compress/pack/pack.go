package pack

import (
	"errors"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

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
	if err := b.Check(); err != nil {
		return fmt.Errorf("pack.Copy: %w", err)
	}
	for i, in := range b.In {
		if out := b.Out[i]; out.Length < in.Length {
			return fmt.Errorf("pack.Copy: output %d has %d bytes, want at least %d: %w", i, out.Length, in.Length, arrowbuf.ErrOutOfRange)
		}
	}
	run := copyHost
	if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
		run = func(b compress.Batch) error { return copyCUDA(dev, b) }
	}
	if err := run(b); err != nil {
		return fmt.Errorf("pack.Copy: %w", err)
	}
	return nil
}

// piece is the struct Copy of kernels/compress/pack.cu: a range that is copied, and the
// number of its first tile.
type piece struct{ src, dst, size, tile int64 }

const (
	tileBytes     = 16 << 10 // what a warp copies
	warp          = 32
	threads       = 256
	tilesPerBlock = threads / warp
)

// pieces returns the pieces of a batch that are not empty, and the number of their tiles.
func pieces(b compress.Batch) ([]piece, int64) {
	all, tiles := make([]piece, 0, len(b.In)), int64(0)
	for i, in := range b.In {
		if in.Length > 0 {
			all = append(all, piece{in.Offset, b.Out[i].Offset, in.Length, tiles})
			tiles += (in.Length + tileBytes - 1) / tileBytes
		}
	}
	return all, tiles
}

func copyHost(b compress.Batch) error {
	src, ok := arrowbuf.HostBytes(b.Src)
	dst, ok2 := arrowbuf.HostBytes(b.Dst)
	if !ok || !ok2 {
		return fmt.Errorf("%v has no kernels, and its memory is not the host's: %w", b.Src.Device(), arrowbuf.ErrDevice)
	}
	all, tiles := pieces(b)
	copyPieces(dst, src, all, tiles)
	return nil
}

// copyPieces is the host implementation of the kernel. Cores take some tiles at a time,
// because a piece may be short or have all bytes of the batch.
func copyPieces(dst, src []byte, all []piece, tiles int64) {
	const tilesPerStep = 64
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(int64(runtime.GOMAXPROCS(0)), (tiles+tilesPerStep-1)/tilesPerStep) {
		wait.Go(func() {
			for {
				end := next.Add(tilesPerStep)
				tile := end - tilesPerStep
				if tile >= tiles {
					return
				}
				end = min(end, tiles)
				first := sort.Search(len(all), func(i int) bool { return all[i].tile > tile }) - 1
				for i := first; i < len(all) && all[i].tile < end; i++ {
					p := all[i]
					from, to := max(tile-p.tile, 0)*tileBytes, min((end-p.tile)*tileBytes, p.size)
					copy(dst[p.dst+from:p.dst+to], src[p.src+from:p.src+to])
				}
			}
		})
	}
	wait.Wait()
}

var program = launch.Program("compress/pack", map[string]cudabuf.HostKernel{"quiver_pack": func(l *cudabuf.HostLaunch) {
	all, tiles := batch.Structs[piece](l, 2, l.Int64(3)), l.Int64(4)
	var src, dst int64
	for _, p := range all {
		src, dst = max(src, p.src+p.size), max(dst, p.dst+p.size)
	}
	copyPieces(l.Memory(l.Pointer(0), dst), l.Memory(l.Pointer(1), src), all, tiles)
}})

func copyCUDA(dev *cudabuf.Device, b compress.Batch) (err error) {
	all, tiles := pieces(b)
	if len(all) == 0 {
		return nil
	}
	memory, err := batch.Upload(dev, all)
	if err != nil {
		return err
	}
	defer memory.Release()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = launch.OnStream(s, program, "quiver_pack", (tiles+tilesPerBlock-1)/tilesPerBlock, threads,
		launch.InOut(b.Dst, 0), launch.In(b.Src, 0), launch.In(memory, 0), int64(len(all)), tiles)
	if err != nil {
		return err
	}
	return s.Synchronize()
}
