package arrowipc

import (
	"fmt"
	"sort"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Body is the body of a message, wherever its bytes are: an arrowbuf.Buffer, or
// Parts that need not lie together. Slice is that of arrowbuf.Buffer.
type Body interface {
	Len() int64
	Slice(offset, length int64) (arrowbuf.Buffer, error)
}

// Part is bytes of a body, from an offset on.
type Part struct {
	Offset int64
	Buffer arrowbuf.Buffer
}

// Parts are a body whose bytes are in several buffers, by offset. A buffer of the
// message lies in one of them; what is between them is in none.
type Parts []Part

// Len is where the last part ends.
func (p Parts) Len() int64 {
	if len(p) == 0 {
		return 0
	}
	last := p[len(p)-1]
	return last.Offset + last.Buffer.Len()
}

// Slice is bytes [offset, offset+length) of the body, without a copy. Where they
// are not in one part the error is arrowbuf.ErrOutOfRange.
func (p Parts) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	i := sort.Search(len(p), func(i int) bool { return p[i].Offset > offset }) - 1
	if i < 0 {
		return nil, fmt.Errorf("bytes [%d, %d+%d) of a body in %d parts: %w", offset, offset, length, len(p), arrowbuf.ErrOutOfRange)
	}
	part, err := p[i].Buffer.Slice(offset-p[i].Offset, length)
	if err != nil {
		return nil, fmt.Errorf("part %d of a body: %w", i, err)
	}
	return part, nil
}

// empty stands for every buffer without bytes.
var empty = memory.NewBufferBytes(nil)

// slicesOf returns the ranges of a body as arrow-go sees them. Those of one buffer
// share what it costs to be found again from arrow-go's buffers.
func slicesOf(body Body, ranges []Extent) (all []*memory.Buffer, err error) {
	all = make([]*memory.Buffer, 0, len(ranges))
	defer func() {
		if err != nil {
			releaseAll(all)
		}
	}()
	var root *memory.Buffer
	if whole, ok := body.(arrowbuf.Buffer); ok {
		root = whole.Arrow()
		defer root.Release()
	}
	for _, r := range ranges {
		switch {
		case r.Length == 0:
			all = append(all, empty)
		case root != nil:
			if err := arrowbuf.CheckRange(r.Offset, r.Length, int64(root.Len())); err != nil {
				return all, err
			}
			all = append(all, memory.SliceBuffer(root, int(r.Offset), int(r.Length)))
		default:
			part, err := body.Slice(r.Offset, r.Length)
			if err != nil {
				return all, err
			}
			all = append(all, part.Arrow())
			part.Release()
		}
	}
	return all, nil
}

// settled returns a buffer that lives on a device: the same where it does and is
// aligned, else a copy. The caller owns a reference.
func settled(b arrowbuf.Buffer, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if b.Device() == dev && b.Address()%8 == 0 {
		b.Retain()
		return b, nil
	}
	there, err := dev.Alloc(max(b.Len(), 1))
	if err != nil {
		return nil, err
	}
	if err := copyInto(there, b, 0); err != nil {
		there.Release()
		return nil, fmt.Errorf("copying to %s: %w", dev, err)
	}
	return there, nil
}

// bring returns a body that lives on a device: the same where it does, else a copy
// of it in one allocation, which release gives back.
func bring(body Body, dev arrowbuf.Device) (there Body, release func(), err error) {
	if whole, ok := body.(arrowbuf.Buffer); ok {
		moved, err := settled(whole, dev)
		if err != nil {
			return nil, nil, err
		}
		return moved, moved.Release, nil
	}
	parts, ok := body.(Parts)
	if !ok {
		all, err := body.Slice(0, body.Len())
		if err != nil {
			return nil, nil, err
		}
		defer all.Release()
		parts = Parts{{0, all}}
	}
	if parts.liveOn(dev) {
		return parts, func() {}, nil
	}
	whole, err := dev.Alloc(max(parts.Len(), 1))
	if err != nil {
		return nil, nil, err
	}
	defer whole.Release() // its slices keep it
	var moved Parts
	release = func() {
		for _, part := range moved {
			part.Buffer.Release()
		}
	}
	for _, part := range parts {
		// Slices, since what is between the parts has no bytes to be read.
		slice, err := whole.Slice(part.Offset, part.Buffer.Len())
		if err == nil {
			moved = append(moved, Part{part.Offset, slice})
			err = copyInto(whole, part.Buffer, part.Offset)
		}
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("copying to %s: %w", dev, err)
		}
	}
	return moved, release, nil
}

func (p Parts) liveOn(dev arrowbuf.Device) bool {
	for _, part := range p {
		if part.Buffer.Device() != dev || part.Buffer.Address()%8 != 0 {
			return false
		}
	}
	return true
}

// copyInto copies a buffer of any device.
func copyInto(dst, src arrowbuf.Buffer, pos int64) (err error) {
	if host, ok := arrowbuf.HostBytes(src); ok {
		_, err = dst.CopyFromHost(host, pos)
	} else {
		_, err = dst.CopyFromDevice(src, pos)
	}
	return err
}

func releaseAll[T interface{ Release() }](all []T) {
	for _, one := range all {
		one.Release()
	}
}
