package ipc

import (
	"os"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/memfile"
)

// newMemoryBlock makes a file of the host's memory, which this process alone
// writes.
func newMemoryBlock(n int64) (*block, error) {
	n = max(n, 1)
	file, data, err := memfile.Create("quiver shared columns", n)
	if err != nil {
		return nil, err
	}
	release := func() { _ = memfile.Unmap(data) }
	return &block{mechanism: handle.Memory, size: n, file: file, buffer: arrowbuf.WrapExternal(data, release)}, nil
}

// mapMemory maps a memory file of another process to read it. The file stays the
// caller's.
func mapMemory(file *os.File, size int64) (data []byte, unmap func(), err error) {
	if data, err = memfile.Map(file, size); err != nil {
		return nil, nil, err
	}
	return data, func() { _ = memfile.Unmap(data) }, nil
}
