//go:build linux || darwin

package codec

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libzstd is the reference implementation of Zstandard as a shared library, which
// nearly every Linux system has. It is opened at run time, so the build needs no C
// compiler. It is faster than the Go implementation and supports all levels.
type libzstd struct {
	version string

	createCCtx, freeCCtx, setParameter, compress2, compressBound, isError, getErrorName uintptr
}

// openLibzstd returns the library, or nil if the system has no usable one.
var openLibzstd = sync.OnceValue(func() *libzstd {
	name := "libzstd.so.1"
	if runtime.GOOS == "darwin" {
		name = "libzstd.1.dylib"
	}
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil
	}
	lib := &libzstd{}
	for symbol, address := range map[string]*uintptr{
		"ZSTD_createCCtx":        &lib.createCCtx,
		"ZSTD_freeCCtx":          &lib.freeCCtx,
		"ZSTD_CCtx_setParameter": &lib.setParameter,
		"ZSTD_compress2":         &lib.compress2,
		"ZSTD_compressBound":     &lib.compressBound,
		"ZSTD_isError":           &lib.isError,
		"ZSTD_getErrorName":      &lib.getErrorName,
	} {
		// ZSTD_compress2 requires version 1.4.
		if *address, err = purego.Dlsym(handle, symbol); err != nil {
			return nil
		}
	}
	version, err := purego.Dlsym(handle, "ZSTD_versionNumber")
	if err != nil {
		return nil
	}
	n, _, _ := purego.SyscallN(version)
	lib.version = fmt.Sprintf("libzstd %d.%d.%d", n/10000, n/100%100, n%100)
	return lib
})

// Parameters of the stable interface in zstd.h.
const (
	paramCompressionLevel = 100
	paramChecksumFlag     = 201
)

// cctx is a compression context. It serves one caller at a time.
type cctx struct {
	lib    *libzstd
	handle uintptr
}

// newContext returns a compression context, which the garbage collector frees.
func (lib *libzstd) newContext(z Zstd) (*cctx, error) {
	handle, _, _ := purego.SyscallN(lib.createCCtx)
	if handle == 0 {
		return nil, fmt.Errorf("ZSTD_createCCtx: out of memory")
	}
	c := &cctx{lib: lib, handle: handle}
	runtime.AddCleanup(c, func(handle uintptr) { purego.SyscallN(lib.freeCCtx, handle) }, handle)
	checksum := uintptr(0)
	if z.Checksum {
		checksum = 1
	}
	if err := lib.check(purego.SyscallN(lib.setParameter, handle, paramCompressionLevel, uintptr(z.Level))); err != nil {
		return nil, fmt.Errorf("level %d: %w", z.Level, err)
	}
	return c, lib.check(purego.SyscallN(lib.setParameter, handle, paramChecksumFlag, checksum))
}

// encode appends one frame to dst.
func (c *cctx) encode(dst, src []byte) ([]byte, error) {
	bound, _, _ := purego.SyscallN(c.lib.compressBound, uintptr(len(src)))
	if err := c.lib.check(bound, 0, 0); err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, int(bound))
	out := dst[len(dst) : len(dst)+int(bound)]
	n, _, _ := purego.SyscallN(c.lib.compress2, c.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), bound,
		uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)))
	// The library holds only addresses, which do not keep memory alive.
	runtime.KeepAlive(out)
	runtime.KeepAlive(src)
	runtime.KeepAlive(c)
	if err := c.lib.check(n, 0, 0); err != nil {
		return nil, err
	}
	return dst[:len(dst)+int(n)], nil
}

// check converts the results of SyscallN into an error if the first is an error code.
func (lib *libzstd) check(result, _, _ uintptr) error {
	if bad, _, _ := purego.SyscallN(lib.isError, result); uint32(bad) == 0 {
		return nil
	}
	text, _, _ := purego.SyscallN(lib.getErrorName, result)
	return fmt.Errorf("libzstd: %s", cString(text))
}

// cString returns a constant C string of the library.
func cString(address uintptr) string {
	p := *(**byte)(unsafe.Pointer(&address))
	var n int
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
