package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Stream is a queue of work on a device: what it is given runs in that order, and
// may run after the call returned. A *cudabuf.Stream is one.
type Stream interface {
	// Alloc returns a buffer of the stream's device, n bytes of undefined contents,
	// which the stream is the first to use. The caller owns one reference to it.
	Alloc(n int64) (Buffer, error)
	// Copy copies all of src, which may live on any device that the stream's
	// reaches, to the bytes of dst, a buffer of the stream's device, that start at
	// pos. Memory of the host that is not pinned has been read when Copy returns;
	// whatever else src is must stay as it is until the copy is done.
	Copy(dst Buffer, pos int64, src Buffer) error
	// After runs f once, when all that the stream has been given so far is done; at
	// the latest, where it failed, when the stream's device is closed. f may use
	// devices.
	After(f func())
}

// WithStream lets CopyTo copy in the order of a stream, whose device is the one that is
// copied to. Pinned memory of the host (see Device.HostAllocator) and memory of
// GPUs is read when the stream comes to it, which may be after CopyTo returned:
// nobody may change it until then. Nor may anything still be writing it when CopyTo
// is called: offsets, validity and buffers of up to 64 KiB are read at once, by the
// host. CopyTo holds references to it, so that it may be
// released at once. Ordinary memory has been read when CopyTo returns; for much of
// it, CopyTo waits for the stream's earlier work.
//
// What uses the batch that CopyTo returned comes behind the copy, on whatever
// stream: memory on a device knows who uses it. Only who is given its address waits
// himself. What fails on the device later is what the stream's Synchronize reports.
//
// Where something is copied, a stream of another device is ErrDevice, and so is any
// for a copy to the CPU.
func WithStream(s Stream) CopyOption { return on{s} }

type on struct{ stream Stream }

func (o on) apply(how copying) copying {
	how.stream = o.stream
	return how
}

// allocOn allocates on a device for a stream.
func allocOn(s Stream, dev Device, n int64) (Buffer, error) {
	b, err := s.Alloc(n)
	if err == nil && b.Device() != dev {
		err = fmt.Errorf("copying to %s in the order of a stream of %s: %w", dev, b.Device(), ErrDevice)
		b.Release()
	}
	return b, err
}

// copyOn gives the copies to a stream, which then holds what they read.
func (p *plan) copyOn(s Stream, dst Buffer) error {
	var held []*memory.Buffer
	defer func() { s.After(func() { releaseAll(held) }) }()
	for at, next := int64(0), 0; at < p.gathered; {
		mem, err := stage(dst.Device(), min(p.gathered-at, gatherPiece))
		if err != nil {
			return err
		}
		piece := memory.NewBufferWithAllocator(mem, dst.Device().HostAllocator())
		held = append(held, piece)
		var n int64
		n, next = p.fill(mem, at, next)
		if err := copyPart(s, dst, at, piece, 0, n); err != nil {
			return err
		}
		at += n
	}
	for i := range p.runs {
		if r := &p.runs[i]; !r.small {
			r.root.Retain()
			held = append(held, r.root)
			if err := copyPart(s, dst, r.at, r.root, r.from, r.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyPart copies bytes [from, to) of a root buffer.
func copyPart(s Stream, dst Buffer, pos int64, root *memory.Buffer, from, to int64) error {
	whole, err := BufferOf(root)
	if err != nil {
		return err
	}
	defer whole.Release()
	bytes, err := whole.Slice(from, to-from)
	if err != nil {
		return err
	}
	defer bytes.Release()
	return s.Copy(dst, pos, bytes)
}
