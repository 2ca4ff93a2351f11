package cudabuf

import (
	"fmt"
	"runtime"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// CopyRangesFromHost copies ranges of the host's memory to where they say, as
// CopyFromHost does one by one, but waits once: what is pinned goes in one train of
// copies, and ordinary memory is taken as one copy of all of it, so that much of it
// in many ranges is as fast as in one. Nothing is copied when a range does not lie
// in the buffer. Ranges that overlap there are the caller's to order.
func (b *Buffer) CopyRangesFromHost(ranges []arrowbuf.HostRange) error {
	if err := b.enterWriting(0, 0); err != nil {
		return err
	}
	defer b.Release()
	var pinned, ordinary []segment
	var uses []use
	var size int64
	for i, r := range ranges {
		if err := arrowbuf.CheckRange(r.Pos, int64(len(r.Bytes)), b.length); err != nil {
			return fmt.Errorf("range %d of %d: %w", i, len(ranges), err)
		}
		if len(r.Bytes) == 0 {
			continue
		}
		one := segment{b.address + uintptr(r.Pos), r.Bytes}
		if uses == nil {
			uses = []use{{b.memory, writes}}
		}
		if found, ok := b.dev.driver.hosted.find(r.Bytes); ok {
			uses = append(uses, use{found.memory, reads})
			pinned = append(pinned, one)
		} else if b.dev.isPinned(r.Bytes) {
			pinned = append(pinned, one)
		} else {
			ordinary = append(ordinary, one)
			size += int64(len(r.Bytes))
		}
	}
	if size < b.dev.staging.threshold { // then the driver does as well
		pinned, ordinary = append(pinned, ordinary...), nil
	}
	defer runtime.KeepAlive(ranges)
	if len(pinned) > 0 {
		err := b.dev.run(uses, func(h driver.Stream) error {
			for _, one := range pinned {
				if err := b.dev.api.MemcpyHtoDAsync(one.device, one.host, h); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(ordinary) > 0 {
		return b.dev.stage(ordinary, use{b.memory, writes}, nil)
	}
	return nil
}
