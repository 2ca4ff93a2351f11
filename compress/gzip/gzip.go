package gzip

import (
	"bytes"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/quiver-gpu/quiver/compress"
)

// MaxRatio is the most bytes that one byte of a deflate stream decodes to: a match of
// 258 bytes takes at least 2 bits.
const MaxRatio = 1032

// DecodeMembers returns the decoding of src, one or more gzip members, in dst[:0], which it
// grows if needed. src and dst must not overlap. It returns [ErrCorrupt] unless src is
// exactly whole members with correct checksums, and an error if the result exceeds limit
// bytes. It may write to all of dst's capacity below limit.
func DecodeMembers(dst, src []byte, limit int64) ([]byte, error) {
	// The trailer has the size modulo 2^32, of the last member.
	hint := int64(0)
	if len(src) >= 4 {
		hint = int64(le.Uint32(src[len(src)-4:]))
	}
	dst, err := gzipFormat.decode(dst, src, limit, hint)
	if err != nil {
		return nil, fmt.Errorf("gzip.DecodeMembers: %w", err)
	}
	return dst, nil
}

// DecodeZlib is [DecodeMembers] for one zlib stream. A stream with a preset dictionary is
// errors.ErrUnsupported.
func DecodeZlib(dst, src []byte, limit int64) ([]byte, error) {
	dst, err := zlibFormat.decode(dst, src, limit, 0)
	if err != nil {
		return nil, fmt.Errorf("gzip.DecodeZlib: %w", err)
	}
	return dst, nil
}

// DecodePrefix decodes the one gzip member, zlib stream or deflate stream with which src
// begins, in dst[:0], which it grows if needed. It returns the size of the encoding too, for
// callers that allow other bytes after it. Errors and limit are as in [DecodeMembers].
func DecodePrefix(dst, src []byte, f Format, limit int64) (decoded []byte, size int, err error) {
	if int(f) >= len(formats) {
		return nil, 0, fmt.Errorf("gzip.DecodePrefix: unknown format %d: %w", f, errors.ErrUnsupported)
	}
	in := inflaters.Get().(*inflater)
	defer in.release()
	in.dst, in.out, in.limit = dst[:0], 0, max(limit, 0)
	if size, err = formats[f].one(in, src); err != nil {
		return nil, 0, fmt.Errorf("gzip.DecodePrefix: %w", err)
	}
	return in.dst[:in.out], size, nil
}

// format is a container of deflate streams.
type format struct {
	library  func(lib *libdeflate) uintptr // function of the library
	several  bool                          // a buffer may have several of them
	inflater func(f *inflater, src []byte) (int, error)
	one      func(f *inflater, src []byte) (int, error) // decompresses the first of them
}

var (
	gzipFormat = format{func(lib *libdeflate) uintptr { return lib.gzip }, true, (*inflater).members, (*inflater).member}
	zlibFormat = format{func(lib *libdeflate) uintptr { return lib.zlib }, false, (*inflater).zlibStream, (*inflater).zlibStream}
	rawFormat  = format{func(lib *libdeflate) uintptr { return lib.deflate }, false, (*inflater).rawStream, (*inflater).rawStream}
)

// decode decodes src in dst[:0]. hint is the expected size, or 0 if it is unknown.
func (o format) decode(dst, src []byte, limit, hint int64) ([]byte, error) {
	if limit = max(limit, 0); int64(len(src)) <= math.MaxInt64/MaxRatio {
		limit = min(limit, MaxRatio*int64(len(src)))
	}
	dst = dst[:0]
	if int64(cap(dst)) < limit {
		if hint <= 0 || hint > limit {
			hint = 4 * int64(len(src))
		}
		dst = slices.Grow(dst, int(min(hint, limit)))
	}
	dst = dst[:min(int64(cap(dst)), limit)]
	if lib := library(); lib != nil {
		if fastSteps && len(src) >= leastForSteps {
			out, err := o.decodeGo(dst, src, limit, true)
			if !errors.Is(err, errFewSteps) {
				return out, err
			}
		}
		if n, ok := lib.decode(o.library(lib), dst, src, o.several); ok {
			return dst[:n], nil
		}
		// The Go implementation decodes what is larger than expected, and has the error.
	}
	return o.decodeGo(dst, src, limit, false)
}

// leastForSteps is the size from which a look at the first block takes little of the time.
const leastForSteps = 1 << 16

// decodeGo decodes src in dst, which grows up to the limit. If onlyMostly is true, it
// returns errFewSteps for a stream that the library decodes faster.
func (o format) decodeGo(dst, src []byte, limit int64, onlyMostly bool) ([]byte, error) {
	f := inflaters.Get().(*inflater)
	defer f.release()
	f.onlyMostly = onlyMostly
	f.dst, f.out, f.limit = dst, 0, limit
	n, err := o.inflater(f, src)
	if err == nil && n != len(src) {
		err = fmt.Errorf("%w: %d bytes after the stream", ErrCorrupt, len(src)-n)
	}
	return f.dst[:f.out], err
}

// release returns the inflater to the pool, without the memory that it refers to.
func (f *inflater) release() {
	f.src, f.dst, f.onlyMostly = nil, nil, false
	inflaters.Put(f)
}

// stream decompresses the deflate stream at the start of src, for which f.dst grows, and
// returns the size of the stream and the output.
func (f *inflater) stream(src []byte) (n int, out []byte, err error) {
	f.begin(src)
	for {
		err := f.run()
		if !errors.Is(err, errFull) {
			return f.consumed(), f.dst[f.start:f.out], err
		}
		if int64(len(f.dst)) >= f.limit {
			return 0, nil, fmt.Errorf("%w: more than %d bytes decoded", compress.ErrTooLarge, f.limit)
		}
		grown := slices.Grow(f.dst[:f.out], len(f.dst)+1)
		f.dst = grown[:min(int64(cap(grown)), f.limit)]
	}
}

// The flags of a gzip header (RFC 1952, section 2.3.1).
const (
	flagHeaderCRC = 1 << 1
	flagExtra     = 1 << 2
	flagName      = 1 << 3
	flagComment   = 1 << 4
)

// members decompresses all of src: one or more members.
func (f *inflater) members(src []byte) (int, error) {
	at := 0
	for {
		n, err := f.member(src[at:])
		if at += n; err != nil || at == len(src) {
			return at, err
		}
	}
}

// member decompresses one gzip member and returns its size.
func (f *inflater) member(src []byte) (int, error) {
	at, err := gzipHeader(src)
	if err != nil {
		return 0, err
	}
	n, out, err := f.stream(src[at:])
	if err != nil {
		return 0, err
	}
	at += n
	if len(src)-at < 8 {
		return 0, errTruncated
	}
	if crc32.ChecksumIEEE(out) != le.Uint32(src[at:]) || uint32(len(out)) != le.Uint32(src[at+4:]) {
		return 0, errChecksum
	}
	return at + 8, nil
}

// gzipHeader returns the size of a member's header.
func gzipHeader(src []byte) (int, error) {
	if len(src) < 10 {
		return 0, errTruncated
	}
	if src[0] != 0x1f || src[1] != 0x8b || src[2] != 8 {
		return 0, corrupt("no gzip header")
	}
	flags, at := src[3], 10
	if flags&flagExtra != 0 {
		if len(src) < at+2 {
			return 0, errTruncated
		}
		at += 2 + int(le.Uint16(src[at:]))
	}
	for _, flag := range []byte{flagName, flagComment} {
		if flags&flag == 0 {
			continue
		}
		if at > len(src) {
			return 0, errTruncated
		}
		end := bytes.IndexByte(src[at:], 0)
		if end < 0 {
			return 0, errTruncated
		}
		at += end + 1
	}
	if flags&flagHeaderCRC != 0 {
		if len(src) < at+2 {
			return 0, errTruncated
		}
		if uint16(crc32.ChecksumIEEE(src[:at])) != le.Uint16(src[at:]) {
			return 0, corrupt("checksum of the header differs")
		}
		at += 2
	}
	if at > len(src) {
		return 0, errTruncated
	}
	return at, nil
}

// zlibStream decompresses a zlib stream and returns its size.
func (f *inflater) zlibStream(src []byte) (int, error) {
	switch {
	case len(src) < 2:
		return 0, errTruncated
	case src[0]&15 != 8 || src[0]>>4 > 7 || (uint(src[0])<<8|uint(src[1]))%31 != 0:
		return 0, corrupt("no zlib header")
	case src[1]&0x20 != 0:
		return 0, fmt.Errorf("preset dictionary: %w", errors.ErrUnsupported)
	}
	n, out, err := f.stream(src[2:])
	if err != nil {
		return 0, err
	}
	n += 2
	if len(src)-n < 4 {
		return 0, errTruncated
	}
	sum := src[n : n+4]
	if adler32.Checksum(out) != uint32(sum[0])<<24|uint32(sum[1])<<16|uint32(sum[2])<<8|uint32(sum[3]) {
		return 0, errChecksum
	}
	return n + 4, nil
}

// rawStream decompresses a deflate stream and returns its size.
func (f *inflater) rawStream(src []byte) (int, error) {
	n, _, err := f.stream(src)
	return n, err
}

// EncodeMember appends one gzip member of src to dst. The level is 0 (stored) to 9. Levels mean
// about the same effort in all implementations, but not the same bytes.
func EncodeMember(dst, src []byte, level int) ([]byte, error) {
	dst, err := gzipEncoder.encode(dst, src, level)
	if err != nil {
		return nil, fmt.Errorf("gzip.EncodeMember: %w", err)
	}
	return dst, nil
}

// EncodeZlib is [EncodeMember] for a zlib stream.
func EncodeZlib(dst, src []byte, level int) ([]byte, error) {
	dst, err := zlibEncoder.encode(dst, src, level)
	if err != nil {
		return nil, fmt.Errorf("gzip.EncodeZlib: %w", err)
	}
	return dst, nil
}

// writer is a writer of klauspost/compress.
type writer interface {
	io.WriteCloser
	Reset(io.Writer)
}

// encoder encodes into a container of deflate streams.
type encoder struct {
	library func(lib *libdeflate) (function, bound uintptr)
	create  func(w io.Writer, level int) (writer, error)
	// Writers hold tables of up to 1 MB, so they are reused, by level.
	writers [10]sync.Pool
}

var (
	gzipEncoder = &encoder{
		library: func(lib *libdeflate) (function, bound uintptr) { return lib.encodeGzip, lib.gzipBound },
		create:  func(w io.Writer, level int) (writer, error) { return gzip.NewWriterLevel(w, level) },
	}
	zlibEncoder = &encoder{
		library: func(lib *libdeflate) (function, bound uintptr) { return lib.encodeZlib, lib.zlibBound },
		create:  func(w io.Writer, level int) (writer, error) { return zlib.NewWriterLevel(w, level) },
	}
)

func (e *encoder) encode(dst, src []byte, level int) ([]byte, error) {
	if level < 0 || level > 9 {
		return nil, fmt.Errorf("level %d is not within 0 to 9", level)
	}
	if lib := library(); lib != nil {
		function, bound := e.library(lib)
		if out, ok := lib.encode(function, bound, dst, src, level); ok {
			return out, nil
		}
	}
	return e.encodeGo(dst, src, level)
}

func (e *encoder) encodeGo(dst, src []byte, level int) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w, ok := e.writers[level].Get().(writer)
	if ok {
		w.Reset(out)
	} else {
		var err error
		if w, err = e.create(out, level); err != nil {
			return nil, err
		}
	}
	defer func() {
		w.Reset(nil) // forget the output
		e.writers[level].Put(w)
	}()
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
