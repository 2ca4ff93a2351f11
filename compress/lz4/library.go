package lz4

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress/internal/syslib"
)

// liblz4 is the reference implementation as a shared library of the system. It compresses
// faster than Go, and decompresses faster on processors without decodeSequences.
type liblz4 struct {
	version string

	compressFast, decompressSafe uintptr
}

// library returns liblz4, or nil if the system has none.
var library = sync.OnceValue(func() *liblz4 {
	lib := &liblz4{}
	var version uintptr
	if !syslib.Open("liblz4.so.1", "liblz4.1.dylib", map[string]*uintptr{
		"LZ4_compress_fast":   &lib.compressFast,
		"LZ4_decompress_safe": &lib.decompressSafe,
		"LZ4_versionNumber":   &version,
	}) {
		return nil
	}
	n := uint32(syslib.Call(version))
	lib.version = fmt.Sprintf("liblz4 %d.%d.%d", n/10000, n/100%100, n%100)
	return lib
})

// Implementation returns what compresses blocks on the host in this process: the version of
// the system's library, such as "liblz4 1.9.4", or "Go". On amd64 with AVX, Go decompresses
// in any case; elsewhere the same library does.
func Implementation() string {
	if lib := library(); lib != nil {
		return lib.version
	}
	return "Go"
}

// encode fills the start of dst with the block of src, which is not empty. It returns
// the size, or 0 if dst is too small.
func (lib *liblz4) encode(dst, src []byte, acceleration int) int {
	if len(dst) == 0 {
		return 0
	}
	n := syslib.CallFor(len(src), lib.compressFast,
		uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(unsafe.Pointer(unsafe.SliceData(dst))),
		uintptr(len(src)), uintptr(min(len(dst), math.MaxInt32)), uintptr(acceleration))
	return int(int32(n))
}

// decode decodes src into dst and returns the size of the output. It returns false if that
// does not fit or src is not valid. Then dst has undefined bytes.
func (lib *liblz4) decode(dst, src []byte) (int, bool) {
	n := syslib.CallFor(max(len(dst), len(src)), lib.decompressSafe,
		uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(unsafe.Pointer(unsafe.SliceData(dst))),
		uintptr(len(src)), uintptr(len(dst)))
	return int(int32(n)), int32(n) >= 0
}
