package arrowzarr

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sys/unix"
)

// mapping is a file that is looked at in place, through the page cache. Its
// pages count as memory of the process from their first touch until they are
// dropped, so who reads it says so. A nil mapping shows nothing.
//
// The kernel brings in more than what is touched: around it, or the whole large
// folio that the page cache holds it in, but nothing beyond the part of the
// address space that one page table covers. So pages are counted, and dropped,
// by such windows: a window goes when the last reader of anything in it is done.
type mapping struct {
	bytes []byte

	mu      sync.Mutex
	readers []int32 // of each window that the mapping touches
}

// window is what one page table covers, with pages of 4 KiB.
const window = 2 << 20

func newMapping(file *os.File, size int64) (*mapping, error) {
	bytes, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the file: %w", err)
	}
	m := &mapping{bytes: bytes}
	_, n := m.windowsOf(bytes)
	m.readers = make([]int32, n)
	return m, nil
}

func (m *mapping) close() error {
	if m == nil {
		return nil
	}
	return unix.Munmap(m.bytes)
}

// shows tells whether memory is the mapping's.
func (m *mapping) shows(span []byte) bool {
	return m != nil && len(span) > 0 && addressOf(span) >= addressOf(m.bytes) && addressOf(span) < m.end()
}

// beside is the size of what is in a buffer, unless that is the mapping's.
func (m *mapping) beside(b *memory.Buffer) int64 {
	if m.shows(b.Bytes()) {
		return 0
	}
	return filled(b)
}

// use says that somebody will read spans. It returns how many windows
// come into memory with that, at most.
func (m *mapping) use(spans [][]byte) (n int) {
	for _, span := range spans {
		if !m.shows(span) {
			continue
		}
		m.mu.Lock()
		from, to := m.windowsOf(span)
		for i := from; i < to; i++ {
			if m.readers[i] == 0 {
				n++
			}
			m.readers[i]++
		}
		m.mu.Unlock()
	}
	return n
}

// done ends a use. It returns how many windows go from memory with that.
func (m *mapping) done(spans [][]byte) (n int) {
	for _, span := range spans {
		n += m.drop(span, 1)
	}
	return n
}

// clear drops what was read of a span without a use, and is in no use now.
func (m *mapping) clear(span []byte) { m.drop(span, 0) }

// drop takes readers from the windows of a span, and tells the kernel that this
// process is done with those that have none left. The page cache keeps them, and
// a page that is wanted again comes back from there. It returns their number.
func (m *mapping) drop(span []byte, readers int32) (n int) {
	if !m.shows(span) {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to := m.windowsOf(span)
	for i := from; i < to; i++ {
		if m.readers[i] -= readers; m.readers[i] == 0 {
			n++
			continue
		}
		m.forget(from, i)
		from = i + 1
	}
	m.forget(from, to)
	return n
}

// forget unmaps the pages of windows [from, to) until they are touched again.
func (m *mapping) forget(from, to int) {
	if from == to {
		return
	}
	base := addressOf(m.bytes)
	start := max((base/window+uintptr(from))*window, base) - base
	end := min((base/window+uintptr(to))*window, m.end()) - base
	// Advice that fails costs memory, not correctness.
	_ = unix.Madvise(m.bytes[start:end], unix.MADV_DONTNEED)
}

func (m *mapping) end() uintptr { return addressOf(m.bytes) + uintptr(len(m.bytes)) }

// windowsOf are the windows [from, to) that a span touches, counted from the one
// in which the mapping begins.
func (m *mapping) windowsOf(span []byte) (from, to int) {
	first := addressOf(m.bytes) / window
	last := min(addressOf(span)+uintptr(len(span)), m.end()) - 1
	return int(addressOf(span)/window - first), int(last/window-first) + 1
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
