package arrowbuftest

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

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
