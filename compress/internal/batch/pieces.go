package batch

import (
	"errors"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Piece is the struct Piece of kernels/compress/tiles.cuh: a range that a kernel processes
// a tile at a time, and the number of its first tile.
type Piece struct{ Src, Dst, Size, Tile int64 }

// Pieces are the pieces of a batch.
type Pieces struct {
	All       []Piece
	Tiles     int64 // their number
	TileBytes int64
}

// Add adds a piece unless it is empty.
func (p *Pieces) Add(src, dst, size int64) { p.AddFrom(src, dst, size, 0) }

// AddFrom is Add for a piece whose first tile begins some bytes before it.
func (p *Pieces) AddFrom(src, dst, size, before int64) {
	if size > 0 {
		p.All = append(p.All, Piece{src, dst, size, p.Tiles})
		p.Tiles += (before + size + p.TileBytes - 1) / p.TileBytes
	}
}

// Find returns the number of the piece that has a tile.
func (p *Pieces) Find(tile int64) int {
	return sort.Search(len(p.All), func(i int) bool { return p.All[i].Tile > tile }) - 1
}

// EachPart calls f on all cores with parts of pieces, each of which has some tiles:
// bytes from begin to end of a piece.
func (p *Pieces) EachPart(tiles int64, f func(piece Piece, begin, end int64)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(int64(runtime.GOMAXPROCS(0)), (p.Tiles+tiles-1)/tiles) {
		wait.Go(func() {
			for first := next.Add(tiles) - tiles; first < p.Tiles; first = next.Add(tiles) - tiles {
				end := min(first+tiles, p.Tiles)
				for i := p.Find(first); i < len(p.All) && p.All[i].Tile < end; i++ {
					q := p.All[i]
					f(q, max(first-q.Tile, 0)*p.TileBytes, min((end-q.Tile)*p.TileBytes, q.Size))
				}
			}
		})
	}
	wait.Wait()
}

// CheckCapacities returns arrowbuf.ErrOutOfRange if an output of a batch is shorter than
// its input.
func CheckCapacities(b compress.Batch) error {
	for i, in := range b.In {
		if out := b.Out[i]; out.Length < in.Length {
			return fmt.Errorf("output %d has %d bytes, want at least %d: %w", i, out.Length, in.Length, arrowbuf.ErrOutOfRange)
		}
	}
	return nil
}

// HostMemory returns the buffers of a batch in host memory.
func HostMemory(b compress.Batch) (dst, src []byte, err error) {
	src, ok := arrowbuf.HostBytes(b.Src)
	dst, ok2 := arrowbuf.HostBytes(b.Dst)
	if !ok || !ok2 {
		return nil, nil, fmt.Errorf("compress: %v has no kernels, and its memory is not the host's: %w", b.Src.Device(), arrowbuf.ErrDevice)
	}
	return dst, src, nil
}

// Launch launches a kernel of pieces with some tiles per block of threads, and returns when
// it is done. Its arguments are the buffers of the batch, the pieces, their number, and
// others.
func (p *Pieces) Launch(dev *cudabuf.Device, program *cudabuf.Program, kernel string, b compress.Batch, tilesPerBlock, threads int64, others ...any) (err error) {
	if len(p.All) == 0 {
		return nil
	}
	memory, err := Upload(dev, p.All)
	if err != nil {
		return err
	}
	defer memory.Release()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	arguments := append([]any{launch.InOut(b.Dst, 0), launch.In(b.Src, 0), launch.In(memory, 0), int64(len(p.All))}, others...)
	if err := launch.OnStream(s, program, kernel, (p.Tiles+tilesPerBlock-1)/tilesPerBlock, threads, arguments...); err != nil {
		return err
	}
	return s.Synchronize()
}

// LaunchedPieces returns the pieces of a host launch, and its buffers up to their ends.
func LaunchedPieces(l *cudabuf.HostLaunch) (all []Piece, dst, src []byte) {
	all = launch.Structs[Piece](l, 2, l.Int64(3))
	var dstEnd, srcEnd int64
	for _, p := range all {
		dstEnd, srcEnd = max(dstEnd, p.Dst+p.Size), max(srcEnd, p.Src+p.Size)
	}
	return all, l.Memory(l.Pointer(0), dstEnd), l.Memory(l.Pointer(1), srcEnd)
}
