package cudabuf

import (
	"iter"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// piece is how much of a buffer lies in host memory at once when bytes have to
// come there: large enough for the link's speed, small enough to be had.
const piece = 4 << 20

// copyThroughHost copies src, on whatever device, to the bytes at pos.
func (b *Buffer) copyThroughHost(src arrowbuf.Buffer, pos int64) (int64, error) {
	if err := b.enterWriting(pos, src.Len()); err != nil {
		return 0, err
	}
	defer b.Release()
	var done int64
	for part, err := range b.dev.contents(src) {
		if err != nil {
			return done, err
		}
		n, err := b.CopyFromHost(part, pos+done)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// contents yields the bytes of a buffer on whatever device, a piece at a time,
// each good until the next: the last is shorter. Those that the host does not
// reach come to pinned memory in which there is room for two, so that one is on
// its way while the other is used. After an error there is nothing more.
func (d *Device) contents(src arrowbuf.Buffer) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		host, ok := arrowbuf.HostBytes(src)
		if !ok {
			d.fetch(src, yield)
			return
		}
		if h, ok := src.(*HostBuffer); ok {
			if err := h.Wait(); err != nil {
				yield(nil, err)
				return
			}
		}
		for part := range slices.Chunk(host, piece) {
			if !yield(part, nil) {
				return
			}
		}
	}
}

// fetch is contents for what the host does not reach.
func (d *Device) fetch(src arrowbuf.Buffer, yield func([]byte, error) bool) {
	empty := make(chan []byte, 2)
	for range min(2, (src.Len()+piece-1)/piece) {
		b, free, err := d.pinned.take(min(piece, src.Len()))
		if err != nil {
			yield(nil, err)
			return
		}
		defer free()
		empty <- b
	}
	type filled struct {
		part []byte
		err  error
	}
	full := make(chan filled, 2)
	stop := make(chan struct{})
	var fetcher sync.WaitGroup
	fetcher.Go(func() {
		defer close(full)
		for pos := int64(0); pos < src.Len(); pos += piece {
			select {
			case b := <-empty:
				part := b[:min(piece, src.Len()-pos)]
				_, err := src.CopyToHost(part, pos)
				full <- filled{part, err}
				if err != nil {
					return
				}
			case <-stop:
				return
			}
		}
	})
	defer fetcher.Wait()
	defer close(stop)
	for f := range full {
		if !yield(f.part, f.err) || f.err != nil {
			return
		}
		empty <- f.part
	}
}
