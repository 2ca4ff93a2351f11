package arrowbuf

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"
)

// inFlight copies at once keep a link busy while each is given and awaited.
const inFlight = 2

// move copies parts, wherever they are, to one new allocation on a device and
// returns a slice of it for each. Each starts at a multiple of 64 bytes; on the
// CPU at one of its own alignment, so that parts of one root buffer that lie
// close together can come in one copy, with the gaps between them. The caller
// owns a reference to each slice; the allocation goes back with the last. With a
// stream, copies are in its order and may not be done when move returns.
func move(parts []part, dev Device, s Stream) ([]*memory.Buffer, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	p := newPlan(parts, dev)
	defer p.release()
	whole, err := p.execute(dev, s)
	if err != nil {
		return nil, err
	}
	root := whole.Arrow()
	whole.Release()
	defer root.Release()
	moved := make([]*memory.Buffer, len(parts))
	for i, where := range p.places {
		var at int64
		if where.run >= 0 {
			at = p.runs[where.run].at + where.offset
		}
		moved[i] = memory.SliceBuffer(root, int(at), int(parts[i].to-parts[i].from))
	}
	return moved, nil
}

func (p *plan) execute(dev Device, s Stream) (whole Buffer, err error) {
	if s == nil {
		whole, err = dev.Alloc(p.size)
	} else {
		whole, err = allocOn(s, dev, p.size)
	}
	if err != nil {
		return nil, err
	}
	if s == nil {
		err = p.gather(whole)
		if err == nil {
			err = p.copyLarge(whole)
		}
	} else {
		err = p.copyOn(s, whole)
	}
	if err != nil {
		whole.Release()
		return nil, fmt.Errorf("copying to %s: %w", dev, err)
	}
	return whole, nil
}

// copyLarge copies the runs that are not gathered: those of the host together,
// where the device can, and else some at a time.
func (p *plan) copyLarge(dst Buffer) error {
	together, ok := dst.(rangeCopier)
	var ranges []HostRange
	var copies errgroup.Group
	copies.SetLimit(inFlight)
	for i := range p.runs {
		r := &p.runs[i]
		switch {
		case r.small:
		case ok && OnHost(r.root):
			ranges = append(ranges, HostRange{Bytes: r.root.Bytes()[r.from:r.to], Pos: r.at})
		case i == len(p.runs)-1: // this goroutine has nothing else to do
			return errors.Join(r.copyTo(dst), copies.Wait())
		default:
			copies.Go(func() error { return r.copyTo(dst) })
		}
	}
	var err error
	if len(ranges) > 0 {
		err = together.CopyRangesFromHost(ranges)
	}
	return errors.Join(err, copies.Wait())
}

func (r *run) copyTo(dst Buffer) error {
	src, err := BufferOf(r.root)
	if err != nil {
		return err
	}
	defer src.Release()
	if host, ok := HostBytes(src); ok {
		_, err = dst.CopyFromHost(host[r.from:r.to], r.at)
		return err
	}
	bytes, err := src.Slice(r.from, r.to-r.from)
	if err != nil {
		return err
	}
	defer bytes.Release()
	_, err = dst.CopyFromDevice(bytes, r.at)
	return err
}
