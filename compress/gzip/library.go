package gzip

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress/internal/syslib"
)

// libdeflate compresses and decompresses whole buffers in C. Systems have it as a shared
// library with image formats and other packages. It does not say its version.
type libdeflate struct {
	alloc, free, gzip, zlib, deflate uintptr

	allocEncoder, freeEncoder, encodeGzip, encodeZlib, gzipBound, zlibBound uintptr
}

// library returns libdeflate, or nil if the system has none.
var library = sync.OnceValue(func() *libdeflate {
	lib := &libdeflate{}
	if !syslib.Open("libdeflate.so.0", "libdeflate.0.dylib", map[string]*uintptr{
		"libdeflate_alloc_decompressor":    &lib.alloc,
		"libdeflate_free_decompressor":     &lib.free,
		"libdeflate_gzip_decompress_ex":    &lib.gzip,
		"libdeflate_zlib_decompress_ex":    &lib.zlib,
		"libdeflate_deflate_decompress_ex": &lib.deflate,
		"libdeflate_alloc_compressor":      &lib.allocEncoder,
		"libdeflate_free_compressor":       &lib.freeEncoder,
		"libdeflate_gzip_compress":         &lib.encodeGzip,
		"libdeflate_zlib_compress":         &lib.encodeZlib,
		"libdeflate_gzip_compress_bound":   &lib.gzipBound,
		"libdeflate_zlib_compress_bound":   &lib.zlibBound,
	}) {
		return nil
	}
	return lib
})

// Implementation returns what compresses and decompresses in this process: "libdeflate", or
// "Go". Go decompresses streams of mostly short matches in any case.
func Implementation() string {
	if library() != nil {
		return "libdeflate"
	}
	return "Go"
}

// decompressor is memory of the library. It serves one caller at a time.
type decompressor struct{ handle uintptr }

var decompressors sync.Pool // of *decompressor

// results are where the library writes sizes.
type results struct{ in, out uintptr }

// decode decodes a stream, or several, with a function of the library into dst and returns the size of the result. It
// returns false if that does not fit or anything else fails. Then dst has undefined bytes.
func (lib *libdeflate) decode(function uintptr, dst, src []byte, several bool) (int, bool) {
	d, ok := decompressors.Get().(*decompressor)
	if !ok {
		handle := syslib.Call(lib.alloc)
		if handle == 0 {
			return 0, false
		}
		d = &decompressor{handle}
		runtime.AddCleanup(d, func(handle uintptr) { syslib.Call(lib.free, handle) }, handle)
	}
	defer decompressors.Put(d)
	out, sizes := 0, new(results)
	for {
		to := dst[out:]
		status := syslib.Call(function, d.handle,
			uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)),
			uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(len(to)),
			uintptr(unsafe.Pointer(&sizes.in)), uintptr(unsafe.Pointer(&sizes.out)))
		if uint32(status) != 0 {
			return 0, false
		}
		out += int(sizes.out)
		if src = src[sizes.in:]; len(src) == 0 {
			return out, true
		}
		if !several {
			return 0, false
		}
	}
}

// compressor is memory of the library for one level. It serves one caller at a time.
type compressor struct{ handle uintptr }

var compressors [10]sync.Pool // of *compressor, by level

// encode appends the encoding of src to dst, with a function of the library and that of
// its bound. It returns false if the library has no memory.
func (lib *libdeflate) encode(function, bound uintptr, dst, src []byte, level int) ([]byte, bool) {
	c, ok := compressors[level].Get().(*compressor)
	if !ok {
		handle := syslib.Call(lib.allocEncoder, uintptr(level))
		if handle == 0 {
			return dst, false
		}
		c = &compressor{handle}
		runtime.AddCleanup(c, func(handle uintptr) { syslib.Call(lib.freeEncoder, handle) }, handle)
	}
	defer compressors[level].Put(c)
	most := int(syslib.Call(bound, c.handle, uintptr(len(src))))
	dst = slices.Grow(dst, most)
	out := dst[len(dst) : len(dst)+most]
	n := syslib.Call(function, c.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)))
	return dst[:len(dst)+int(n)], n > 0 // it returns 0 if out is too small, which the bound excludes
}
