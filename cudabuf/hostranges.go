package cudabuf

import (
	"cmp"
	"slices"
	"sync"
)

// hostRanges knows page-locked memory of the host by its address, which costs
// less than asking the driver. Ranges do not overlap.
type hostRanges struct {
	mu     sync.RWMutex
	ranges []hostRange // by start
}

// hostRange is bytes [start, end) of the host, and the allocation of the
// HostBuffer that they belong to, if they do.
type hostRange struct {
	start, end uintptr
	memory     *allocation
}

func (r *hostRanges) add(address uintptr, n int64, memory *allocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.search(address)
	r.ranges = slices.Insert(r.ranges, i, hostRange{address, address + uintptr(n), memory})
}

func (r *hostRanges) remove(address uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.search(address); ok {
		r.ranges = slices.Delete(r.ranges, i, i+1)
	}
}

// find returns the range that all of b lies in.
func (r *hostRanges) find(b []byte) (found hostRange, ok bool) {
	start := addressOf(b)
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, exact := r.search(start)
	if !exact {
		i--
	}
	if i < 0 || start+uintptr(len(b)) > r.ranges[i].end {
		return hostRange{}, false
	}
	return r.ranges[i], true
}

// search is the place of a start, and whether there is a range with it.
func (r *hostRanges) search(start uintptr) (int, bool) {
	return slices.BinarySearchFunc(r.ranges, start, func(a hostRange, start uintptr) int { return cmp.Compare(a.start, start) })
}
