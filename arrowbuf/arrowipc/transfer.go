package arrowipc

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Bodies are read and written in chunks by several goroutines: one alone moves
// memory at a fraction of the speed of a GPU's link.
const (
	minChunk   = 512 << 10
	maxChunk   = 4 << 20
	maxWorkers = 16
	// copyWorkers goroutines copy chunks to a GPU. They wait for it, and each wait
	// keeps a processor busy.
	copyWorkers = 3
)

// forEachChunk calls work with chunks of n bytes, in as many goroutines as there are
// processors. Chunks are a multiple of 4096 bytes, except the last. After an error
// no further chunk is begun.
func forEachChunk(n int64, work func(pos, length int64) error) error {
	return forEachChunkBy(runtime.GOMAXPROCS(0), n, work)
}

func forEachChunkBy(goroutines int, n int64, work func(pos, length int64) error) error {
	if n <= minChunk {
		if n == 0 {
			return nil
		}
		return work(0, n)
	}
	workers := int64(max(min(goroutines, maxWorkers), 1))
	size := min(max((n/(2*workers)+4095)&^4095, minChunk), maxChunk)
	var next atomic.Int64
	var failed atomic.Bool
	var group errgroup.Group
	for range min(workers, (n+size-1)/size) {
		group.Go(func() error {
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
	return group.Wait()
}

// fillChunked fills the first n bytes of a buffer. produce makes each chunk in
// staging memory, while other goroutines copy earlier chunks to the device. If the
// host can access dst, produce writes to it in place.
func fillChunked(dst arrowbuf.Buffer, n int64, produce func(b []byte, pos int64) error) error {
	if host, ok := arrowbuf.HostBytes(dst); ok {
		return forEachChunk(n, func(pos, length int64) error { return produce(host[pos:pos+length], pos) })
	}
	if n <= minChunk {
		return fillRange(dst, Extent{0, n}, func(b []byte) error { return produce(b, 0) })
	}
	type piece struct {
		b   []byte
		pos int64
	}
	dev := dst.Device()
	made := make(chan piece, copyWorkers)
	var failed atomic.Bool
	var group errgroup.Group
	for range copyWorkers {
		group.Go(func() error {
			var failure error
			for p := range made {
				if failure == nil {
					if _, failure = dst.CopyFromHost(p.b, p.pos); failure != nil {
						failed.Store(true)
					}
				}
				dev.HostAllocator().Free(p.b)
			}
			return failure
		})
	}
	err := forEachChunkBy(runtime.GOMAXPROCS(0)-copyWorkers, n, func(pos, length int64) error {
		if failed.Load() {
			return errStopped
		}
		b, err := allocStaging(dev, length)
		if err != nil {
			return err
		}
		if err := produce(b, pos); err != nil {
			dev.HostAllocator().Free(b)
			return err
		}
		made <- piece{b, pos}
		return nil
	})
	close(made)
	if failure := group.Wait(); failure != nil {
		return failure
	}
	return err
}

// errStopped ends workers after an error of another goroutine, which is returned
// instead.
var errStopped = errors.New("stopped")

// copyInto copies src, a buffer of any device, to position pos of dst.
func copyInto(dst, src arrowbuf.Buffer, pos int64) (err error) {
	if host, ok := arrowbuf.HostBytes(src); ok {
		_, err = dst.CopyFromHost(host, pos)
	} else {
		_, err = dst.CopyFromDevice(src, pos)
	}
	return err
}

func releaseAll[T interface{ Release() }](all []T) {
	for _, one := range all {
		one.Release()
	}
}

// fillRange fills a range of a buffer with the bytes that produce makes: in place if
// the host can access them, and otherwise in staging memory.
func fillRange(dst arrowbuf.Buffer, r Extent, produce func([]byte) error) error {
	if host, ok := arrowbuf.HostBytes(dst); ok {
		return produce(host[r.Offset : r.Offset+r.Length : r.Offset+r.Length])
	}
	mem, err := allocStaging(dst.Device(), r.Length)
	if err != nil {
		return err
	}
	defer dst.Device().HostAllocator().Free(mem)
	if err := produce(mem); err != nil {
		return err
	}
	_, err = dst.CopyFromHost(mem, r.Offset)
	return err
}

// allocStaging allocates memory of the device's HostAllocator. A panic of the
// allocator becomes an error.
func allocStaging(dev arrowbuf.Device, n int64) (b []byte, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			cause, ok := failure.(error)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("allocating staging memory: %w", cause)
		}
	}()
	return dev.HostAllocator().Allocate(int(n)), nil
}
