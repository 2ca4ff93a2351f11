package arrowipc

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// A body is read and written in pieces, by several goroutines: one alone moves
// memory at a fraction of the speed of a GPU's link.
const (
	leastOfPiece = 512 << 10
	mostOfPiece  = 4 << 20
	mostWorkers  = 16
)

// inPieces has n bytes worked on, piece by piece, each a multiple of 4096 bytes
// but the last. After a failure no other piece is begun.
func inPieces(n int64, work func(pos, length int64) error) error {
	if n <= leastOfPiece {
		if n == 0 {
			return nil
		}
		return work(0, n)
	}
	workers := int64(min(runtime.GOMAXPROCS(0), mostWorkers))
	size := min(max((n/(2*workers)+4095)&^4095, leastOfPiece), mostOfPiece)
	var next atomic.Int64
	var failed atomic.Bool
	var crew errgroup.Group
	for range min(workers, (n+size-1)/size) {
		crew.Go(func() error {
			for {
				pos := next.Add(size) - size
				if pos >= n || failed.Load() {
					return nil
				}
				if err := work(pos, min(size, n-pos)); err != nil {
					failed.Store(true)
					return err
				}
			}
		})
	}
	return crew.Wait()
}
