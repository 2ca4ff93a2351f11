package soft

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve returns addresses that nobody may touch, from a multiple of the
// granularity on.
func reserve(n int64) ([]byte, error) {
	n = pages(n)
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n+granularity), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	before := -uintptr(p) & (granularity - 1)
	if before > 0 {
		err = unix.MunmapPtr(p, before)
	}
	if after := granularity - before; after > 0 && err == nil {
		err = unix.MunmapPtr(unsafe.Add(p, before+uintptr(n)), after)
	}
	return unsafe.Slice((*byte)(unsafe.Add(p, before)), n), err
}

func unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}

// pages rounds up to whole pages.
func pages(n int64) int64 {
	page := int64(unix.Getpagesize())
	return (n + page - 1) / page * page
}
