package arrowzarr

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// hostMemory is a device's allocator of host memory that remembers whether an
// allocation failed: of the panic that tells of it, arrow-go passes on no more
// than the text, which looks like a fault of the input.
type hostMemory struct {
	memory.Allocator
	failed atomic.Bool
}

func (m *hostMemory) Allocate(size int) (b []byte) {
	m.watch(func() { b = m.Allocator.Allocate(size) })
	return b
}

func (m *hostMemory) Reallocate(size int, b []byte) []byte {
	m.watch(func() { b = m.Allocator.Reallocate(size, b) })
	return b
}

// watch runs f. A panic goes on.
func (m *hostMemory) watch(f func()) {
	panics := true
	defer func() {
		if panics {
			m.failed.Store(true)
		}
	}()
	f()
	panics = false
}

// part says which part a failed read is to be blamed on.
func (m *hostMemory) part(err error) Part {
	if m.failed.Load() {
		return PartDevice
	}
	return partOf(err, PartInput)
}
