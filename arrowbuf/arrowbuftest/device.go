package arrowbuftest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Checked returns a device whose buffers are those of dev, and are watched until
// the test ends. It is a device of its own: arrowbuf.CopyTo of a batch on dev, or
// from CPU() to Checked(t, CPU()), copies. What needs the buffers of dev themselves
// (a stream of package cudabuf, a kernel) refuses those of the result. Memory of
// its HostAllocator is watched as well.
//
// A buffer that was released too often is reported when that happens, as an error
// of the test, and goes on as one that was released: using it is ErrReleased.
func Checked(t testing.TB, dev arrowbuf.Device) arrowbuf.Device {
	host := memory.NewCheckedAllocator(dev.HostAllocator())
	d := &device{Device: dev, t: t, host: host, live: map[*buffer]struct{}{}}
	t.Cleanup(func() {
		t.Helper()
		for _, b := range d.leaks() {
			t.Errorf("leak: %v", b)
		}
		host.AssertSize(t, 0)
	})
	return d
}

type device struct {
	arrowbuf.Device
	t    testing.TB
	host *memory.CheckedAllocator

	mu    sync.Mutex
	count int // of all buffers
	live  map[*buffer]struct{}
}

func (d *device) HostAllocator() memory.Allocator { return d.host }

func (d *device) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.Device.Alloc(n)
	if err != nil {
		return nil, err
	}
	return d.watch(b, "allocated"), nil
}

// watch takes over the reference to a buffer. how says where it came from.
func (d *device) watch(inner arrowbuf.Buffer, how string) arrowbuf.Buffer {
	b := &buffer{Buffer: inner, dev: d, length: inner.Len(), how: how, made: here()}
	b.refs.Store(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	b.number = d.count
	d.live[b] = struct{}{}
	if _, ok := arrowbuf.HostBytes(inner); ok {
		return hostBuffer{b}
	}
	return b
}

func (d *device) forget(b *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, b)
}

// leaks are the buffers that were not released, in the order in which they were
// made.
func (d *device) leaks() []*buffer {
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []*buffer
	for b := range d.live {
		left = append(left, b)
	}
	slices.SortFunc(left, func(a, b *buffer) int { return cmp.Compare(a.number, b.number) })
	return left
}

// String is the buffer and who made it, in a line.
func (b *buffer) String() string {
	return fmt.Sprintf("%d bytes on %v, %s by %v", b.length, b.dev, b.how, b.made)
}
