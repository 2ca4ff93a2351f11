package source

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// Mapping is a file that is read in place, through the page cache. A page counts as
// memory of the process from its first touch until it is unmapped. So readers retain
// what they read, and release it. A nil mapping contains no memory.
//
// The kernel maps more than the page that is touched: pages around it, or the whole
// large folio of the page cache, but nothing beyond the address range of one page
// table. So pages are counted, and unmapped, by windows of that size: a window is
// unmapped after its last reader has released it.
type Mapping struct {
	file  *os.File
	bytes []byte

	mu      sync.Mutex
	readers []int32 // by window
}

// WindowBytes is what one page table covers, with pages of 4 KiB.
const WindowBytes = 2 << 20

// NewMapping maps a local file, which must stay open.
func NewMapping(f *File) (*Mapping, error) {
	bytes, err := mapFile(f.local, f.Size)
	if err != nil {
		return nil, fmt.Errorf("mapping the file: %w", err)
	}
	m := &Mapping{file: f.local, bytes: bytes}
	_, n := m.windowsOf(bytes)
	m.readers = make([]int32, n)
	return m, nil
}

// Content returns the bytes of the file.
func (m *Mapping) Content() []byte { return m.bytes }

// Close unmaps the file.
func (m *Mapping) Close() error {
	if m == nil {
		return nil
	}
	return unmapFile(m.bytes)
}

// Read fills dst with a region, which is read from the file if it is in the mapping: its
// pages are not mapped, and a file that was truncated is an error.
func (m *Mapping) Read(dst, region []byte) error {
	if !m.contains(region) {
		copy(dst, region)
		return nil
	}
	_, err := m.file.ReadAt(dst, int64(addressOf(region)-addressOf(m.bytes)))
	return UnexpectedEOF(err)
}

// contains reports whether a region begins in the mapping.
func (m *Mapping) contains(region []byte) bool {
	return m != nil && len(region) > 0 && addressOf(region) >= addressOf(m.bytes) && addressOf(region) < m.end()
}

// LenOutside is the length of a buffer, or 0 if it is in the mapping.
func (m *Mapping) LenOutside(b *memory.Buffer) int64 {
	if m.contains(b.Bytes()) {
		return 0
	}
	return arrowdata.BufferLen(b)
}

// CountWindows returns the number of windows that regions touch, where a window
// counts once per region.
func (m *Mapping) CountWindows(regions [][]byte) (n int) {
	for _, region := range regions {
		if m.contains(region) {
			from, to := m.windowsOf(region)
			n += to - from
		}
	}
	return n
}

// Retain adds a reader to the windows of regions. It returns the number of windows
// that had none.
func (m *Mapping) Retain(regions [][]byte) (added int) {
	for _, region := range regions {
		if !m.contains(region) {
			continue
		}
		m.mu.Lock()
		from, to := m.windowsOf(region)
		for i := from; i < to; i++ {
			if m.readers[i] == 0 {
				added++
			}
			m.readers[i]++
		}
		m.mu.Unlock()
	}
	return added
}

// Release removes a reader from the windows of regions. It returns the number of
// windows that are unmapped, because they have none left.
func (m *Mapping) Release(regions [][]byte) (unmapped int) {
	for _, region := range regions {
		unmapped += m.releaseWindows(region, 1)
	}
	return unmapped
}

// EvictAll unmaps the windows that have no reader.
func (m *Mapping) EvictAll() {
	if m != nil {
		m.Evict(m.bytes)
	}
}

// Evict unmaps the windows of a region that have no reader.
func (m *Mapping) Evict(region []byte) { m.releaseWindows(region, 0) }

// releaseWindows removes a number of readers from each window of a region, and
// unmaps the windows without readers. The page cache keeps their pages. It returns
// the number of unmapped windows.
func (m *Mapping) releaseWindows(region []byte, readers int32) (unmapped int) {
	if !m.contains(region) {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to := m.windowsOf(region)
	for i := from; i < to; i++ {
		if m.readers[i] -= readers; m.readers[i] == 0 {
			unmapped++
			continue
		}
		m.unmapPages(from, i)
		from = i + 1
	}
	m.unmapPages(from, to)
	return unmapped
}

// unmapPages unmaps the pages of windows [from, to) until they are touched again.
func (m *Mapping) unmapPages(from, to int) {
	if from == to {
		return
	}
	base := addressOf(m.bytes)
	start := max((base/WindowBytes+uintptr(from))*WindowBytes, base) - base
	end := min((base/WindowBytes+uintptr(to))*WindowBytes, m.end()) - base
	releasePages(m.bytes[start:end])
}

func (m *Mapping) end() uintptr { return addressOf(m.bytes) + uintptr(len(m.bytes)) }

// windowsOf returns the windows [from, to) that a region touches. Window 0 is that in
// which the mapping begins.
func (m *Mapping) windowsOf(region []byte) (from, to int) {
	first := addressOf(m.bytes) / WindowBytes
	last := min(addressOf(region)+uintptr(len(region)), m.end()) - 1
	return int(addressOf(region)/WindowBytes - first), int(last/WindowBytes-first) + 1
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
