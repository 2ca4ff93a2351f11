package cudabuf

import (
	"errors"
	"math"
	"math/bits"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// MemoryStats says what a device, or its allocator of pinned memory, has taken
// from the driver, in bytes. Sizes count as rounded up to their size class.
type MemoryStats struct {
	InUse int64 // held by callers
	Idle  int64 // kept for the next allocation of the same size class
}

// cache keeps freed memory for the next allocation of its size class: the
// driver takes tens of microseconds for device memory and milliseconds for
// pinned memory, and cuMemFree waits for the device.
//
// Memory may be used again the moment it comes back, because every operation
// of this package is complete when it returns and holds a reference to its
// buffers until then.
type cache struct {
	grain int64
	grow  func(n int64) (uintptr, error)
	drop  func(address uintptr) error

	mu      sync.Mutex
	limit   int64 // of stats.Idle
	stats   MemoryStats
	classes map[uintptr]int64   // of each address in use
	idle    map[int64][]uintptr // by class
	failure error               // the first of a drop; put can tell nobody
}

func newCache(grain, limit int64, grow func(int64) (uintptr, error), drop func(uintptr) error) *cache {
	return &cache{grain: grain, limit: limit, grow: grow, drop: drop, classes: map[uintptr]int64{}, idle: map[int64][]uintptr{}}
}

// maxStep is the driver's own granule for large memory: finer classes than
// this would save nothing.
const maxStep = 2 << 20

// class rounds a size up to its class: eight classes to each power of two, at
// least a grain and at most maxStep apart.
func (c *cache) class(n int64) int64 {
	if n > math.MaxInt64-maxStep {
		return n
	}
	step := int64(1) << max(bits.Len64(uint64(n))-4, 0)
	step = min(max(step, c.grain), maxStep)
	return (n + step - 1) / step * step
}

// get returns memory of at least n > 0 bytes. When the driver has none left,
// it gives the idle memory back and asks once more.
func (c *cache) get(n int64) (uintptr, error) {
	class := c.class(n)
	c.mu.Lock()
	c.stats.InUse += class
	if list := c.idle[class]; len(list) > 0 {
		address := list[len(list)-1]
		c.idle[class] = list[:len(list)-1]
		c.stats.Idle -= class
		c.classes[address] = class
		c.mu.Unlock()
		return address, nil
	}
	c.mu.Unlock()

	address, err := c.grow(class)
	if errors.Is(err, arrowbuf.ErrOutOfMemory) {
		if trimmed := c.trim(); trimmed == nil {
			address, err = c.grow(class)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stats.InUse -= class
		return 0, err
	}
	c.classes[address] = class
	return address, nil
}

// put takes memory back. It answers false for an address that is not in use.
func (c *cache) put(address uintptr) bool {
	c.mu.Lock()
	class, ok := c.classes[address]
	if !ok {
		c.mu.Unlock()
		return false
	}
	delete(c.classes, address)
	c.stats.InUse -= class
	c.idle[class] = append(c.idle[class], address)
	c.stats.Idle += class
	excess := c.takeIdle(c.limit, class)
	c.mu.Unlock()
	_ = c.release(excess) // kept for close to report
	return true
}

// size is the usable size of memory in use, 0 for any other address.
func (c *cache) size(address uintptr) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.classes[address]
}

// trim gives all idle memory back to the driver.
func (c *cache) trim() error {
	c.mu.Lock()
	idle := c.takeIdle(0, 0)
	c.mu.Unlock()
	return c.release(idle)
}

// setLimit bounds the idle memory from now on.
func (c *cache) setLimit(n int64) error {
	c.mu.Lock()
	c.limit = max(n, 0)
	excess := c.takeIdle(c.limit, 0)
	c.mu.Unlock()
	return c.release(excess)
}

// close trims, and reports the first failure of all the cache's life.
func (c *cache) close() error {
	_ = c.trim() // its failure is kept with the others
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

func (c *cache) read() MemoryStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// takeIdle removes idle memory until no more than limit is left, the class that
// was used last at the very end. The caller holds mu, and drops what it gets
// without.
func (c *cache) takeIdle(limit, last int64) []uintptr {
	var taken []uintptr
	take := func(class int64) {
		list := c.idle[class]
		n := 0
		for ; n < len(list) && c.stats.Idle > limit; n++ {
			c.stats.Idle -= class
		}
		taken = append(taken, list[:n]...)
		if c.idle[class] = list[n:]; n == len(list) {
			delete(c.idle, class)
		}
	}
	for class := range c.idle {
		if class != last {
			take(class)
		}
	}
	take(last)
	return taken
}

// release drops memory and returns the first failure, which it also keeps.
func (c *cache) release(addresses []uintptr) error {
	var failure error
	for _, address := range addresses {
		if err := c.drop(address); failure == nil {
			failure = err
		}
	}
	if failure != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.failure == nil {
			c.failure = failure
		}
	}
	return failure
}
