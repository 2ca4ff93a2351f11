package ipc

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// copying is what goes to a block, and where in it.
type copying struct {
	buffers []arrowbuf.Buffer
	places  []int64
	end     int64
}

// begin is where the next body starts.
func (c *copying) begin() int64 { return (c.end + 63) &^ 63 }

func (c *copying) put(at int64, b arrowbuf.Buffer) int64 {
	c.buffers, c.places = append(c.buffers, b), append(c.places, at)
	c.end = max(c.end, at+b.Len())
	return at
}

func (c *copying) add(b arrowbuf.Buffer) int64 { return c.put(c.begin(), b) }

// copy fills a block, and names it in the regions that have none.
func (f *form) copy(c *copying, gpu *cudabuf.Device, owner string) error {
	if c.end == 0 {
		return nil
	}
	s := f.key.server
	m := f.key.mechanism
	switch m {
	case handle.Memory:
		gpu = nil
	case handle.CUDAPool: // beside what lies in a pool
		m = handle.CUDAFD
	}
	b, offset, err := s.store.take(place{m, gpu, owner}, c.end)
	if err != nil {
		return err
	}
	f.blocks = append(f.blocks, b)
	for i := range f.parts {
		for j := range f.parts[i].Regions {
			if r := &f.parts[i].Regions[j]; r.Block == 0 {
				r.Block = b.id
				r.Offset += offset
			}
		}
	}
	var stream *cudabuf.Stream
	if gpu != nil {
		if stream, err = s.stream(gpu); err != nil {
			return err
		}
	}
	for i, src := range c.buffers {
		if err := copyTo(b.buffer, src, offset+c.places[i], stream); err != nil {
			return fmt.Errorf("copying %d bytes to share: %w", src.Len(), err)
		}
	}
	return nil
}

// copyTo copies, in the order of a stream where the GPU can do it alone.
func copyTo(dst, src arrowbuf.Buffer, at int64, stream *cudabuf.Stream) (err error) {
	host, onHost := arrowbuf.HostBytes(src)
	to, onGPU := dst.(*cudabuf.Buffer)
	from, fromGPU := src.(*cudabuf.Buffer)
	switch {
	case onGPU && fromGPU:
		_, err = to.CopyFromDeviceAsync(from, at, stream)
	case onGPU && onHost:
		_, err = to.CopyFromHostAsync(host, at, stream)
	case onHost:
		_, err = dst.CopyFromHost(host, at)
	default:
		_, err = dst.CopyFromDevice(src, at)
	}
	return err
}
