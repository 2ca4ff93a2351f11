package arrowbuftest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// buffer counts the references to one of another device, of which it has one.
type buffer struct {
	arrowbuf.Buffer
	dev    *device
	number int
	length int64
	how    string
	made   place
	refs   atomic.Int64
	ended  atomic.Pointer[place] // who released the last reference
}

// hostBuffer is a buffer whose bytes the host may touch.
type hostBuffer struct{ *buffer }

// HostBytes are the bytes, nil after the last release.
func (b hostBuffer) HostBytes() []byte {
	bytes, _ := arrowbuf.HostBytes(b.Buffer)
	return bytes
}

// Arrow holds the buffer that is watched, not the one behind it.
func (b hostBuffer) Arrow() *memory.Buffer { return arrowbuf.WrapArrow(b) }
func (b *buffer) Arrow() *memory.Buffer    { return arrowbuf.WrapArrow(b) }
func (b *buffer) Device() arrowbuf.Device  { return b.dev }

func (b *buffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	part, err := b.Buffer.Slice(offset, length)
	if err != nil {
		return nil, err
	}
	return b.dev.watch(part, "sliced"), nil
}

func (b *buffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	return b.Buffer.CopyFromDevice(behind(src), pos)
}

func (b *buffer) Equal(other arrowbuf.Buffer) (bool, error) { return b.Buffer.Equal(behind(other)) }

// behind is the buffer of the device itself.
func behind(b arrowbuf.Buffer) arrowbuf.Buffer {
	switch watched := b.(type) {
	case *buffer:
		return watched.Buffer
	case hostBuffer:
		return watched.Buffer
	}
	return b
}

func (b *buffer) Retain() {
	if b.refs.Add(1) <= 1 {
		b.refs.Add(-1)
		b.report("retained after its last release")
	}
}

func (b *buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		who := here()
		b.ended.Store(&who)
		b.dev.forget(b)
		b.Buffer.Release()
	case n < 0:
		b.refs.Add(1)
		b.report("released too often")
	}
}

// report fails the test over what somebody did with the buffer.
func (b *buffer) report(what string) {
	b.dev.t.Helper()
	ended := "another goroutine just now"
	if who := b.ended.Load(); who != nil {
		ended = who.String()
	}
	b.dev.t.Errorf("%s by %v: %v; its last reference was released by %s", what, here(), b, ended)
}

// place is a stack, from the innermost call outwards.
type place struct{ stack *[24]uintptr }

// here is the place of who calls it.
func here() place {
	var stack [24]uintptr
	runtime.Callers(2, stack[:])
	return place{&stack}
}

// shown is how many callers a place names.
const shown = 3

// String names the outermost function of this module that was called, if one was, and who
// called it, with file and line: test helpers have callers worth a name, too.
func (p place) String() string {
	n := len(p.stack)
	for n > 0 && p.stack[n-1] == 0 {
		n--
	}
	called := ""
	var callers []string
	for frames, more := runtime.CallersFrames(p.stack[:n]), n > 0; more && len(callers) < shown; {
		var f runtime.Frame
		f, more = frames.Next()
		name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
		switch {
		case len(callers) == 0 && isLibrary(f):
			called = strings.TrimPrefix(strings.TrimPrefix(name, "arrowbuftest.(*device)."), "arrowbuftest.(*buffer).")
		case strings.HasPrefix(f.Function, "testing.") || strings.HasPrefix(f.Function, "runtime."):
		default:
			callers = append(callers, fmt.Sprintf("%s (%s:%d)", name, filepath.Base(f.File), f.Line))
		}
	}
	by := strings.Join(callers, ", called by ")
	switch {
	case called == "":
		return by
	case by == "":
		return called
	}
	return called + ", called by " + by
}

// isLibrary tells whether a frame is of this module or of arrow-go, and not of
// their tests: a mistake is sought with who calls them.
func isLibrary(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	return strings.HasPrefix(f.Function, "github.com/quiver-gpu/quiver/") || strings.HasPrefix(f.Function, "github.com/apache/arrow-go/")
}
