package zstd

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/zstd"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/syslib"
)

// DecodeRange fills dst with the bytes from a position on of the decoding of src, any number
// of frames, on the host. src and dst must not overlap. size is that of the whole decoding:
// it is an error if src tells another.
//
// With libzstd, a single frame that has its size and no checksum is decoded only up to the
// last byte of the range, so an error in what follows is not found. Others are decoded whole.
func DecodeRange(dst, src []byte, from, size int64) error {
	if from < 0 || from > size || int64(len(dst)) > size-from {
		return fmt.Errorf("zstd.DecodeRange: %d bytes from %d of %d", len(dst), from, size)
	}
	if lib := library(); lib != nil && tellsSize(src, size) && lib.decodeRange(dst, src, from) {
		return nil
	}
	buf := memories.Get().(*[]byte)
	defer memories.Put(buf)
	whole, err := DecodeFrames((*buf)[:0], src, size)
	if err != nil {
		return err
	}
	*buf = whole
	if int64(len(whole)) != size {
		return fmt.Errorf("zstd.DecodeRange: %w: %d bytes, want %d", compress.ErrCorrupt, len(whole), size)
	}
	copy(dst, whole[from:])
	return nil
}

// tellsSize reports whether src begins with a frame of the given size without a checksum.
func tellsSize(src []byte, size int64) bool {
	var header zstd.Header
	err := header.Decode(src)
	return err == nil && header.HasFCS && header.FrameContentSize == uint64(size) && !header.HasCheckSum
}

// streamIn and streamOut are ZSTD_inBuffer and ZSTD_outBuffer of zstd.h.
type (
	streamIn struct {
		src       unsafe.Pointer
		size, pos uintptr
	}
	streamOut struct {
		dst       unsafe.Pointer
		size, pos uintptr
	}
)

// resetSession is ZSTD_reset_session_only of zstd.h.
const resetSession = 1

var (
	streamDecoders sync.Pool // of *dctx: they hold the window of their last frame
	// memories holds memory for what is decoded and not asked for, as *[]byte.
	memories = sync.Pool{New: func() any { return new([]byte) }}
)

// decodeRange fills dst with bytes of a frame from a position on. It returns false if src is
// not exactly one frame, or anything else fails. Then dst has undefined bytes.
func (lib *libzstd) decodeRange(dst, src []byte, from int64) bool {
	if !lib.isFrame(src) {
		return false
	}
	d, ok := streamDecoders.Get().(*dctx)
	if !ok {
		if d = lib.newDecoder(); d == nil {
			return false
		}
	}
	defer streamDecoders.Put(d)
	if n := syslib.Call(lib.resetDCtx, d.handle, resetSession); uint32(syslib.Call(lib.isError, n)) != 0 {
		return false
	}
	in := streamIn{src: unsafe.Pointer(unsafe.SliceData(src)), size: uintptr(len(src))}
	buf := memories.Get().(*[]byte)
	defer memories.Put(buf)
	*buf = slices.Grow((*buf)[:0], maxBlock)
	for from > 0 {
		n := min(from, maxBlock)
		if !lib.fill(d, (*buf)[:n], &in) {
			return false
		}
		from -= n
	}
	return lib.fill(d, dst, &in)
}

// fill fills dst with the next bytes of a frame.
func (lib *libzstd) fill(d *dctx, dst []byte, in *streamIn) bool {
	out := streamOut{dst: unsafe.Pointer(unsafe.SliceData(dst)), size: uintptr(len(dst))}
	for out.pos < out.size {
		read, written := in.pos, out.pos
		n := syslib.Call(lib.decompressStream, d.handle, uintptr(unsafe.Pointer(&out)), uintptr(unsafe.Pointer(in)))
		if uint32(syslib.Call(lib.isError, n)) != 0 || in.pos == read && out.pos == written {
			return false
		}
	}
	return true
}
