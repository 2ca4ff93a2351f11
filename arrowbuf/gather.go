package arrowbuf

import "fmt"

const (
	// maxGathered is the size up to which parts of the host are put together
	// before they are copied: the processor moves as much in the time of one
	// copy call.
	maxGathered = 64 << 10
	// gatherPiece is how much of them goes in one call.
	gatherPiece = 1 << 20
)

// gather copies the small runs of the host, put together in memory from which
// the device copies fastest.
func (p *plan) gather(dst Buffer) error {
	if p.gathered == 0 {
		return nil
	}
	if host, ok := HostBytes(dst); ok {
		p.fill(host[:p.gathered], 0, 0)
		return nil
	}
	mem, err := stage(dst.Device(), min(p.gathered, gatherPiece))
	if err != nil {
		return err
	}
	defer dst.Device().HostAllocator().Free(mem)
	for at, next := int64(0), 0; at < p.gathered; {
		var n int64
		n, next = p.fill(mem, at, next)
		if _, err := dst.CopyFromHost(mem[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// fill writes small runs, from index next on, as they are to lie from position
// at on, until no other fits. It returns how many bytes that makes, and where
// to go on.
func (p *plan) fill(b []byte, at int64, next int) (n int64, after int) {
	for ; next < len(p.runs); next++ {
		r := &p.runs[next]
		if !r.small {
			continue
		}
		size := roundUp(r.to - r.from)
		if n+size > int64(len(b)) {
			break
		}
		copied := copy(b[r.at-at:], r.root.Bytes()[r.from:r.to])
		clear(b[r.at-at+int64(copied) : n+size])
		n += size
	}
	return n, next
}

// stage takes memory of the device's HostAllocator, which reports by a panic
// that it has none.
func stage(dev Device, n int64) (b []byte, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			cause, ok := failure.(error)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("memory to copy from: %w", cause)
		}
	}()
	return dev.HostAllocator().Allocate(int(n)), nil
}
