package dissociated

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// copyAlignment is the alignment of copies of one body, which share a room.
const copyAlignment = 64

// locate lends the parts of a body to the client, copied into the window where
// they do not lie in it, and answers where each buffer of the metadata is.
func (s *sender) locate(ctx context.Context, metadata []byte, parts arrowipc.Parts) (Locations, error) {
	info, err := arrowipc.Inspect(metadata)
	if err != nil {
		return nil, err
	}
	placed, err := s.options.Window.place(ctx, parts)
	if err != nil {
		return nil, err
	}
	locations := make(Locations, 0, len(info.Buffers))
	gone := false
	for _, extent := range info.Buffers {
		var l Location
		if extent.Length > 0 {
			l = Location{uint64(placed[0].offset), uint64(extent.Length)}
			gone = !s.lent.lend(l.Address, placed[0].giveBack) || gone
			placed = placed[1:]
		}
		locations = append(locations, l)
	}
	if gone {
		return nil, ErrPeerGone
	}
	return locations, nil
}

// placement is where in a window something lies, until giveBack is called.
type placement struct {
	offset   int64
	inPlace  bool // the part lies there, and is held
	giveBack func()
}

// place finds or makes the place of each part, whose bytes are there when it
// returns. The copies take one room.
func (w *Window) place(ctx context.Context, parts arrowipc.Parts) ([]placement, error) {
	placed := make([]placement, len(parts))
	var copies []int
	var size int64
	for i, part := range parts {
		if offset, ok := w.find(part.Buffer); ok {
			if err := settled(part.Buffer); err != nil {
				return nil, err
			}
			placed[i] = placement{offset: offset, inPlace: true, giveBack: part.Buffer.Release}
			continue
		}
		placed[i].offset = size
		copies = append(copies, i)
		size += (part.Buffer.Len() + copyAlignment - 1) / copyAlignment * copyAlignment
	}
	if err := w.copyIn(ctx, parts, copies, size, placed); err != nil {
		return nil, err
	}
	for i, part := range parts {
		if placed[i].inPlace {
			part.Buffer.Retain()
		}
	}
	return placed, nil
}

// copyIn copies some of the parts, to offsets from where there is room.
func (w *Window) copyIn(ctx context.Context, parts arrowipc.Parts, copies []int, size int64, placed []placement) error {
	if size == 0 {
		return nil
	}
	room, err := w.rooms.take(ctx, size)
	if err != nil {
		return err
	}
	left := new(atomic.Int64)
	left.Store(int64(len(copies)))
	for _, i := range copies {
		placed[i].offset += room
		placed[i].giveBack = func() {
			if left.Add(-1) == 0 {
				w.rooms.give(room, size)
			}
		}
		if err == nil {
			err = w.write(parts[i].Buffer, placed[i].offset)
		}
	}
	if err = errors.Join(err, settled(w.whole)); err != nil {
		w.rooms.give(room, size)
		return fmt.Errorf("copying into a window: %w", err)
	}
	return nil
}

// write copies a buffer of any device to an offset. On a GPU it may be done only
// when the window is settled, so that many copies are waited for once.
func (w *Window) write(src arrowbuf.Buffer, offset int64) error {
	gpu, ok := w.whole.(*cudabuf.Buffer)
	host, onHost := arrowbuf.HostBytes(src)
	if !ok || !onHost && src.Device() != w.dev {
		_, err := w.whole.CopyFromDevice(src, offset)
		return err
	}
	stream, err := w.dev.(*cudabuf.Device).DefaultStream()
	if err != nil {
		return err
	}
	if onHost {
		_, err = gpu.CopyFromHostAsync(host, offset, stream)
	} else {
		_, err = gpu.CopyFromDeviceAsync(src, offset, stream)
	}
	return err
}
