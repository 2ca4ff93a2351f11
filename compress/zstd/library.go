package zstd

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress/internal/syslib"
)

// libzstd is the reference implementation of Zstandard as a shared library, which
// nearly every Linux system has. It is faster than the Go implementation and supports
// all levels.
type libzstd struct {
	version string

	createCCtx, freeCCtx, setParameter, compress2, compressBound uintptr
	createDCtx, freeDCtx, decompressDCtx, frameSize              uintptr
	resetDCtx, decompressStream                                  uintptr
	isError, getErrorName                                        uintptr
}

// library returns libzstd, or nil if the system has no usable one.
var library = sync.OnceValue(func() *libzstd {
	lib := &libzstd{}
	var version uintptr
	if !syslib.Open("libzstd.so.1", "libzstd.1.dylib", map[string]*uintptr{
		"ZSTD_createCCtx":              &lib.createCCtx,
		"ZSTD_freeCCtx":                &lib.freeCCtx,
		"ZSTD_CCtx_setParameter":       &lib.setParameter,
		"ZSTD_compress2":               &lib.compress2,
		"ZSTD_compressBound":           &lib.compressBound,
		"ZSTD_createDCtx":              &lib.createDCtx,
		"ZSTD_freeDCtx":                &lib.freeDCtx,
		"ZSTD_decompressDCtx":          &lib.decompressDCtx,
		"ZSTD_findFrameCompressedSize": &lib.frameSize,
		"ZSTD_DCtx_reset":              &lib.resetDCtx,
		"ZSTD_decompressStream":        &lib.decompressStream,
		"ZSTD_isError":                 &lib.isError,
		"ZSTD_getErrorName":            &lib.getErrorName,
		"ZSTD_versionNumber":           &version,
	}) { // ZSTD_compress2 requires version 1.4
		return nil
	}
	n := uint32(syslib.Call(version))
	lib.version = fmt.Sprintf("libzstd %d.%d.%d", n/10000, n/100%100, n%100)
	return lib
})

// Implementation returns what compresses and decompresses Zstandard on the host in this
// process: the version of the system's library, such as "libzstd 1.5.4", or "Go".
func Implementation() string {
	if lib := library(); lib != nil {
		return lib.version
	}
	return "Go"
}

// Parameters of the stable interface in zstd.h.
const (
	paramCompressionLevel = 100
	paramHashLog          = 102
	paramMinMatch         = 105
	paramChecksumFlag     = 201
)

// matching is the parameters of the search for matches.
type matching struct{ hashLog, minMatch uintptr }

// Level 1 of libzstd searches large inputs for matches of at least 7 bytes. Numbers of few
// bytes often match in 6 only. Where they do, shortMatches gives smaller frames, and is
// faster, since its table fits the smallest cache.
var (
	ofLevel      = matching{} // as the level and the size of the input have it
	shortMatches = matching{12, 6}
)

const (
	// sampleSize is the number of bytes that choose a matching. They are samplePieces ranges
	// of the input, since one place may differ from the others.
	sampleSize   = 4 << 10
	samplePieces = 4
	// minSampled is the size of inputs that are sampled. libzstd searches those below 256 KiB
	// for short matches anyway.
	minSampled = 512 << 10
	// minInSixes is the percentage of a sample that matches of 6 bytes cover where short
	// matches pay. Rounded measurements had 17 to 37, and their frames became 6% smaller.
	// Text and programs had less than 15; most of their frames become larger.
	minInSixes = 16
)

// cctx is a compression context. It serves one caller at a time.
type cctx struct {
	lib      *libzstd
	handle   uintptr
	level    int
	matching matching
}

// newEncoder returns a compression context, which the garbage collector frees.
func (lib *libzstd) newEncoder(o EncodeOptions) (*cctx, error) {
	handle := syslib.Call(lib.createCCtx)
	if handle == 0 {
		return nil, fmt.Errorf("ZSTD_createCCtx: out of memory")
	}
	c := &cctx{lib: lib, handle: handle, level: o.Level}
	runtime.AddCleanup(c, func(handle uintptr) { syslib.Call(lib.freeCCtx, handle) }, handle)
	checksum := uintptr(0)
	if o.Checksum {
		checksum = 1
	}
	if err := lib.check(syslib.Call(lib.setParameter, handle, paramCompressionLevel, uintptr(o.Level))); err != nil {
		return nil, fmt.Errorf("level %d: %w", o.Level, err)
	}
	return c, lib.check(syslib.Call(lib.setParameter, handle, paramChecksumFlag, checksum))
}

// encode appends one frame to dst.
func (c *cctx) encode(dst, src []byte) ([]byte, error) {
	bound := syslib.Call(c.lib.compressBound, uintptr(len(src)))
	if err := c.lib.check(bound); err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, int(bound))
	out := dst[len(dst) : len(dst)+int(bound)]
	m := ofLevel
	if c.level == 1 && len(src) >= minSampled && hasShortMatches(src) {
		m = shortMatches
	}
	n, err := c.encodeWith(m, out, src)
	if err != nil {
		return nil, err
	}
	return dst[:len(dst)+n], nil
}

// hasShortMatches reports whether many matches in a sample of src have 6 bytes, and not more.
func hasShortMatches(src []byte) bool {
	var sample [sampleSize]byte
	const piece = sampleSize / samplePieces
	for i := range samplePieces {
		at := (2*i + 1) * (len(src) / (2 * samplePieces))
		at -= at % 64 // begins with an element
		copy(sample[i*piece:], src[at:][:piece])
	}
	const six = 6
	var last [1 << 10]uint16 // position of the last six bytes with a hash
	sixes := 0
	for i := 1; i+8 <= len(sample); {
		word := binary.LittleEndian.Uint64(sample[i:])
		entry := &last[word<<16*0xcf1bbcdcbf9b0000>>54]
		from := int(*entry)
		*entry = uint16(i)
		differs := word ^ binary.LittleEndian.Uint64(sample[from:])
		if from == 0 || differs<<16 != 0 {
			i++
			continue
		}
		n := bits.TrailingZeros64(differs) / 8
		if n == six {
			sixes++
		}
		for n >= 8 && i+n < len(sample) && sample[from+n] == sample[i+n] {
			n++
		}
		i += n
	}
	return six*sixes*100 >= minInSixes*sampleSize
}

// encodeWith fills the start of out with a frame and returns its size.
func (c *cctx) encodeWith(m matching, out, src []byte) (int, error) {
	if m != c.matching {
		for _, set := range [][2]uintptr{{paramHashLog, m.hashLog}, {paramMinMatch, m.minMatch}} {
			if err := c.lib.check(syslib.Call(c.lib.setParameter, c.handle, set[0], set[1])); err != nil {
				return 0, err
			}
		}
		c.matching = m
	}
	n := syslib.CallFor(c.work(len(src)), c.lib.compress2, c.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)),
		uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)))
	runtime.KeepAlive(c)
	return int(n), c.lib.check(n)
}

// defaultLevel is ZSTD_CLEVEL_DEFAULT of zstd.h, which level 0 means.
const defaultLevel = 3

// work estimates the time of encoding n bytes, as syslib.CallFor has it. Higher levels than 9
// take much longer.
func (c *cctx) work(n int) int {
	switch {
	case c.level > 9:
		return math.MaxInt
	case c.level == 0:
		return n * defaultLevel
	}
	return n * max(c.level, 1)
}

// dctx is a decompression context. It serves one caller at a time.
type dctx struct{ handle uintptr }

var libraryDecoders sync.Pool // of *dctx

// frameMagic begins a frame, as a number of 4 bytes.
const frameMagic = 0xfd2fb528

// isFrame reports whether src is exactly one frame.
func (lib *libzstd) isFrame(src []byte) bool {
	// The library may decode formats older than RFC 8878, too, which are foreign here.
	if len(src) < 4 || binary.LittleEndian.Uint32(src) != frameMagic {
		return false
	}
	return syslib.Call(lib.frameSize, uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src))) == uintptr(len(src))
}

// newDecoder returns a decompression context, which the garbage collector frees, or nil if
// there is no memory.
func (lib *libzstd) newDecoder() *dctx {
	handle := syslib.Call(lib.createDCtx)
	if handle == 0 {
		return nil
	}
	d := &dctx{handle}
	runtime.AddCleanup(d, func(handle uintptr) { syslib.Call(lib.freeDCtx, handle) }, handle)
	return d
}

// decode decodes one frame into dst and returns its size. It returns false if src is not
// exactly one frame, or anything else fails. Then dst has undefined bytes.
func (lib *libzstd) decode(dst, src []byte) (int, bool) {
	if !lib.isFrame(src) {
		return 0, false
	}
	d, ok := libraryDecoders.Get().(*dctx)
	if !ok {
		if d = lib.newDecoder(); d == nil {
			return 0, false
		}
	}
	defer libraryDecoders.Put(d)
	n := syslib.CallFor(max(len(dst), len(src)), lib.decompressDCtx, d.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(len(dst)),
		uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)))
	return int(n), n <= uintptr(len(dst)) // codes of errors are larger than any size
}

// check returns an error if a result is an error code.
func (lib *libzstd) check(result uintptr) error {
	if uint32(syslib.Call(lib.isError, result)) == 0 {
		return nil
	}
	return fmt.Errorf("libzstd: %s", cString(syslib.Call(lib.getErrorName, result)))
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
