//go:build unix

package arrowipc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// MapFile returns a reader of a file that is mapped into memory instead of read.
// On the CPU its batches show the page cache, without a copy, and keep the mapping.
// For another device that is a Registrar the mapping is page-locked, which takes
// tens of milliseconds a GiB and pays where batches are read more than once; the
// device then copies from the page cache by itself. Other devices copy as they do
// from ordinary memory.
//
// Who cuts the file short meanwhile ends the program, by SIGBUS.
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

func mapMemory(file *os.File, size int64, dev arrowbuf.Device) (arrowbuf.Buffer, func(), error) {
	if size == 0 {
		none := arrowbuf.WrapExternal(nil, func() {})
		return none, none.Release, nil
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	unmap := func() { _ = unix.Munmap(memory) } // it was mapped so
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
