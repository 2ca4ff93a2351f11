//go:build unix

package arrowipc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// MapFile returns a reader of a file that is mapped into memory. On the CPU its
// batches show the page cache without a copy, and keep the mapping. A device that
// implements Registrar page-locks the mapping and copies directly from the page
// cache. Page-locking takes tens of milliseconds per GiB, so it pays if batches are
// read more than once. Other devices copy as from ordinary memory. The caller must
// call Release.
//
// Truncating the file while it is mapped ends the program with SIGBUS.
func MapFile(path string, dev arrowbuf.Device) (*FileReader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	mapping, closing, err := mapMemory(file, info.Size(), dev)
	if err != nil {
		return nil, fmt.Errorf("%s: mapping the file: %w", path, err)
	}
	r, err := newFileReader(fileSource{mapping, info.Size(), mapping}, dev, closing)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// mapMemory returns the mapping of a file as a buffer for dev, and a function that
// releases it.
func mapMemory(file *os.File, size int64, dev arrowbuf.Device) (arrowbuf.Buffer, func(), error) {
	if size == 0 {
		none := arrowbuf.WrapExternal(nil, func() {})
		return none, none.Release, nil
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	unmap := func() { _ = unix.Munmap(memory) } // fails only for memory that is not mapped
	registrar, ok := dev.(Registrar)
	if !ok {
		whole := arrowbuf.WrapExternal(memory, unmap)
		return whole, whole.Release, nil
	}
	locked, err := registrar.RegisterReadOnly(memory)
	if err != nil {
		unmap()
		return nil, nil, err
	}
	return locked, func() {
		locked.Release()
		unmap()
	}, nil
}
