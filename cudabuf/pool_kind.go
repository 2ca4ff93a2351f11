package cudabuf

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// PoolKind is how a Pool allocates memory.
type PoolKind int

const (
	// CachingPool keeps memory of the driver (cuMemAlloc) for reuse, and divides shared
	// allocations into small buffers. It makes the fewest driver calls.
	CachingPool PoolKind = iota
	// StreamOrderedPool uses a memory pool of the driver (cuMemAllocFromPoolAsync,
	// cuMemFreeAsync).
	StreamOrderedPool
	// DirectPool allocates each buffer from the driver (cuMemAlloc). On release it
	// waits for the streams that use the buffer and frees it (cuMemFree). It lets
	// compute-sanitizer check the bounds of each buffer.
	DirectPool
)

// String returns the name in lower case.
func (k PoolKind) String() string {
	switch k {
	case CachingPool:
		return "caching"
	case StreamOrderedPool:
		return "stream-ordered"
	case DirectPool:
		return "direct"
	}
	return fmt.Sprintf("PoolKind(%d)", int(k))
}

// poolBackend is the part of a Pool that differs between the kinds.
type poolBackend struct {
	blocks  pool.Pool[*cudaStream]
	account *pool.Account
	// setIdleLimit bounds the idle memory in bytes.
	setIdleLimit func(n int64) error
	// largestIdle returns the size of the largest idle block in bytes. It may be nil.
	largestIdle func() int64
	// reserved returns the bytes that the driver's pool holds, now and at the peak.
	// It is nil if account counts them.
	reserved func() (now, peak int64, err error)
	// close is called after blocks.Close.
	close func() error
}

func (d *Device) newPoolBackend(o PoolOptions) (poolBackend, error) {
	nothing := func() error { return nil }
	switch o.Kind {
	case CachingPool:
		c := pool.NewCaching(d.upstream(d.memAlloc, d.memFree), pool.Config{Slack: o.Slack})
		return poolBackend{blocks: c, account: c.Account(), setIdleLimit: c.SetIdleLimit, largestIdle: c.Largest, close: nothing}, c.SetIdleLimit(d.idleLimit)
	case DirectPool:
		p := pool.NewDirect(d.upstream(d.memAlloc, d.memFree))
		return poolBackend{blocks: p, account: p.Account(), setIdleLimit: func(int64) error { return nil }, close: nothing}, nil
	case StreamOrderedPool:
		return d.newStreamOrderedBackend()
	}
	return poolBackend{}, fmt.Errorf("%v: %w", o.Kind, errors.ErrUnsupported)
}

// upstream returns the driver calls and stream operations that a pool needs.
func (d *Device) upstream(alloc func(int64) (uintptr, error), free func(uintptr) error) pool.Upstream[*cudaStream] {
	return pool.Upstream[*cudaStream]{Alloc: alloc, Free: free, Done: (*cudaStream).isDone, Order: waitOnDevice, Wait: (*cudaStream).synchronize}
}

// waitOnDevice lets later work of after wait for all earlier work of before.
func waitOnDevice(before, after *cudaStream) error {
	return after.dev.withContext(func() error { return after.waitFor(before) })
}

// newStreamOrderedBackend creates a memory pool of the driver.
func (d *Device) newStreamOrderedBackend() (poolBackend, error) {
	freeStream, err := d.streams.get(streamKind{flags: driver.StreamNonBlocking})
	if err != nil {
		return poolBackend{}, err
	}
	var handle driver.MemPool
	err = d.withContext(func() (err error) { handle, err = d.api.MemPoolCreate(d.handle, false); return err })
	if err != nil {
		d.streams.put(freeStream)
		return poolBackend{}, err
	}
	ordered := pool.NewOrdered(pool.StreamOrdered[*cudaStream]{
		Alloc: func(n int64, cs *cudaStream) (address uintptr, err error) {
			err = d.withContext(func() error { address, err = d.api.MemAllocFromPoolAsync(n, handle, cs.handle); return err })
			return address, err
		},
		Free: func(address uintptr, cs *cudaStream) error {
			target := cs
			if cs.dev != d || cs.retired.Load() { // this device's memory cannot be freed on cs
				if target = freeStream; cs != freeStream {
					if err := waitOnDevice(cs, freeStream); err != nil {
						return err
					}
				}
			}
			return d.withContext(func() error { return d.api.MemFreeAsync(address, target.handle) })
		},
		Trim:  func() error { return d.withContext(func() error { return d.api.MemPoolTrimTo(handle, 0) }) },
		Order: waitOnDevice,
		Wait:  (*cudaStream).synchronize,
	}, freeStream)
	k := poolBackend{
		blocks:  ordered,
		account: ordered.Account(),
		setIdleLimit: func(n int64) error {
			return d.withContext(func() error { return d.api.MemPoolSetAttribute(handle, driver.PoolReleaseThreshold, uint64(max(n, 0))) })
		},
		reserved: func() (int64, int64, error) {
			var now, peak uint64
			err := d.withContext(func() (err error) {
				if now, err = d.api.MemPoolGetAttribute(handle, driver.PoolReservedCurrent); err == nil {
					peak, err = d.api.MemPoolGetAttribute(handle, driver.PoolReservedHigh)
				}
				return err
			})
			return int64(now), int64(peak), err
		},
		close: func() error {
			defer d.streams.put(freeStream)
			return d.withContext(func() error { return d.api.MemPoolDestroy(handle) })
		},
	}
	if err := k.setIdleLimit(d.idleLimit); err != nil {
		return poolBackend{}, errors.Join(err, k.close())
	}
	return k, nil
}
