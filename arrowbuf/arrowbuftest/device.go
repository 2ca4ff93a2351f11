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
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Checked returns a device that allocates the buffers of dev and checks them until
// the test ends. It is a device different from dev: arrowbuf.CopyTo copies a batch
// from dev to it, also from CPU() to Checked(t, CPU()). Memory of its HostAllocator is
// checked as well.
//
// Code that finds an implementation with arrowbuf.As uses the buffers of dev, as
// package ndview does: its kernels run on a checked GPU, and their results are checked
// buffers. So do the functions of package cudabuf that take an arrowbuf.Buffer, and
// package cdevice, which exports and imports memory of dev. CheckedStream returns a
// stream for arrowbuf.WithStream. Checked panics with an error if t or dev is nil.
//
// An extra Release or Retain is an error of the test when it happens. The buffer
// then continues as a released one: using it returns arrowbuf.ErrReleased.
func Checked(t testing.TB, dev arrowbuf.Device) arrowbuf.Device {
	if t == nil || dev == nil {
		panic(fmt.Errorf("arrowbuftest.Checked: nil test or device: %w", arrow.ErrInvalid))
	}
	host := memory.NewCheckedAllocator(dev.HostAllocator())
	d := &device{Device: dev, t: t, host: host, live: map[*buffer]struct{}{}}
	t.Cleanup(func() {
		t.Helper()
		for _, b := range d.leaks() {
			t.Errorf("leak: %v", b)
		}
		waitForStreams(host)
		host.AssertSize(t, 0)
	})
	return d
}

// waitForStreams waits, at most half a second, until host memory of copies on streams is
// released. Stream.After releases it in a goroutine that may run after Synchronize returns.
func waitForStreams(host *memory.CheckedAllocator) {
	for end := time.Now().Add(time.Second / 2); host.CurrentAlloc() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

type device struct {
	arrowbuf.Device
	t    testing.TB
	host *memory.CheckedAllocator

	mu    sync.Mutex
	count int // of all buffers that were made
	live  map[*buffer]struct{}
}

// Unwrap returns the device that allocates the memory.
func (d *device) Unwrap() arrowbuf.Device { return d.Device }

// CheckedStream returns a stream for arrowbuf.WithStream whose buffers are checked. It
// submits the work to s. dev is the result of Checked for the device of s; otherwise
// CheckedStream, or Alloc of its result, returns an error wrapping arrowbuf.ErrDevice.
func CheckedStream(dev arrowbuf.Device, s arrowbuf.Stream) (arrowbuf.Stream, error) {
	d, ok := dev.(*device)
	if !ok || s == nil {
		return nil, fmt.Errorf("arrowbuftest.CheckedStream: got device %v and stream %v, want a checked device and a stream: %w", dev, s, arrowbuf.ErrDevice)
	}
	return stream{s, d}, nil
}

// stream is a stream on checked buffers.
type stream struct {
	arrowbuf.Stream
	dev *device
}

func (s stream) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := s.Stream.Alloc(n)
	if err != nil {
		return nil, err
	}
	if b.Device() != s.dev.Device {
		defer b.Release()
		return nil, fmt.Errorf("arrowbuftest.CheckedStream: got a stream on %s, want %s: %w", b.Device(), s.dev.Device, arrowbuf.ErrDevice)
	}
	return s.dev.watch(b, "allocated"), nil
}

func (s stream) Copy(dst arrowbuf.Buffer, pos int64, src arrowbuf.Buffer) error {
	return s.Stream.Copy(unwrap(dst), pos, unwrap(src))
}

func (d *device) HostAllocator() memory.Allocator { return d.host }

func (d *device) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.Device.Alloc(n)
	if err != nil {
		return nil, err
	}
	return d.watch(b, "allocated"), nil
}

// watch takes over the reference to a buffer. origin names the operation that
// returned it.
func (d *device) watch(inner arrowbuf.Buffer, how string) arrowbuf.Buffer {
	b := &buffer{Buffer: inner, dev: d, length: inner.Len(), origin: how, allocated: currentStack()}
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

// leaks returns the buffers that were not released, in the order of allocation.
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

// String describes the buffer and the call that allocated it, in one line.
func (b *buffer) String() string {
	return fmt.Sprintf("%d bytes on %v, %s by %v", b.length, b.dev, b.origin, b.allocated)
}

// buffer counts the references to a buffer of the wrapped device, to which it holds
// one reference.
type buffer struct {
	arrowbuf.Buffer
	dev         *device
	number      int
	length      int64
	origin      string
	allocated   callStack
	refs        atomic.Int64
	lastRelease atomic.Pointer[callStack] // set by the last release
}

// hostBuffer is a buffer whose bytes the host can access.
type hostBuffer struct{ *buffer }

// HostBytes returns the bytes, or nil after the last release.
func (b hostBuffer) HostBytes() []byte {
	bytes, _ := arrowbuf.HostBytes(b.Buffer)
	return bytes
}

// Arrow wraps the checked buffer, not the buffer of the wrapped device.
func (b hostBuffer) Arrow() *memory.Buffer { return arrowbuf.WrapArrow(b) }
func (b *buffer) Arrow() *memory.Buffer    { return arrowbuf.WrapArrow(b) }
func (b *buffer) Device() arrowbuf.Device  { return b.dev }

// Unwrap returns the buffer of the wrapped device.
func (b *buffer) Unwrap() arrowbuf.Buffer { return b.Buffer }

func (b *buffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	part, err := b.Buffer.Slice(offset, length)
	if err != nil {
		return nil, err
	}
	return b.dev.watch(part, "sliced"), nil
}

func (b *buffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	return b.Buffer.CopyFromDevice(unwrap(src), pos)
}

func (b *buffer) Equal(other arrowbuf.Buffer) (bool, error) { return b.Buffer.Equal(unwrap(other)) }

// unwrap returns the buffer of the wrapped device.
func unwrap(b arrowbuf.Buffer) arrowbuf.Buffer {
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
		who := currentStack()
		b.lastRelease.Store(&who)
		b.dev.forget(b)
		b.Buffer.Release()
	case n < 0:
		b.refs.Add(1)
		b.report("released too often")
	}
}

// report fails the test: what names the misuse of the buffer.
func (b *buffer) report(what string) {
	b.dev.t.Helper()
	ended := "another goroutine just now"
	if who := b.lastRelease.Load(); who != nil {
		ended = who.String()
	}
	b.dev.t.Errorf("%s by %v: %v; its last reference was released by %s", what, currentStack(), b, ended)
}

// callStack is a stack of calls, from the innermost outwards.
type callStack struct{ stack *[24]uintptr }

// currentStack returns the stack of its caller.
func currentStack() callStack {
	var stack [24]uintptr
	runtime.Callers(2, stack[:])
	return callStack{&stack}
}

// maxCallers is the number of callers that a callStack prints. Test helpers have
// callers worth a name, too.
const maxCallers = 3

// String names the outermost function of this module that was called, if any, and
// its callers, with file and line.
func (p callStack) String() string {
	n := len(p.stack)
	for n > 0 && p.stack[n-1] == 0 {
		n--
	}
	called := ""
	var callers []string
	for frames, more := runtime.CallersFrames(p.stack[:n]), n > 0; more && len(callers) < maxCallers; {
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

// isLibrary reports whether a frame belongs to this module or to arrow-go, and not
// to their tests. A leak is the mistake of their callers.
func isLibrary(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	return strings.HasPrefix(f.Function, "github.com/quiver-gpu/quiver/") || strings.HasPrefix(f.Function, "github.com/apache/arrow-go/")
}
