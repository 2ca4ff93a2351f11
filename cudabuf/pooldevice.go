package cudabuf

import "github.com/quiver-gpu/quiver/arrowbuf"

// poolDevice is a device that allocates from a pool.
type poolDevice struct {
	*Device
	pool *SharedPool
}

// AsDevice is the pool's device, but that Alloc takes memory of the pool, at once:
// for arrowbuf.CopyTo and whatever else allocates by itself. Its buffers are those
// of the device itself.
func (p *SharedPool) AsDevice() arrowbuf.Device { return poolDevice{p.dev, p} }

// Alloc is SharedPool.NewBuffer without a stream.
func (d poolDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.pool.NewBuffer(n, nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}
