package zstd

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// EncodeOptions are the parameters of [Encode] and [EncodeFrame]. The zero value is valid.
type EncodeOptions struct {
	// Level is that of the reference implementation, -131072 to 22; 0 means its default,
	// 3. The Go implementation has four levels: it maps levels below 0, 1 and 2 to
	// fastest; 0 and 3 to 5 to default; 6 to 9 to better; and 10 to 22 to best. With
	// libzstd, level 1 searches inputs of at least 512 KiB for shorter matches where a
	// sample has many of them.
	Level int
	// Checksum adds a checksum to the frame.
	Checksum bool
	// Scratch is the size in bytes up to which a GPU's memory is used at a time, beside
	// Src and Dst; 0 is a 32nd of the GPU's memory, at least 1 GiB. A batch that needs more
	// is encoded in several steps. One input may exceed the limit if it needs more by
	// itself.
	Scratch int64
}

func (o EncodeOptions) check() error {
	if o.Level < MinLevel || o.Level > MaxLevel {
		return fmt.Errorf("level %d is not within %d to %d", o.Level, MinLevel, MaxLevel)
	}
	return nil
}

// The levels of [EncodeOptions].
const (
	MinLevel = -131072
	MaxLevel = 22
)

func (o EncodeOptions) goLevel() zstd.EncoderLevel {
	switch {
	case o.Level == 0 || o.Level >= 3 && o.Level <= 5:
		return zstd.SpeedDefault
	case o.Level < 3:
		return zstd.SpeedFastest
	case o.Level < 10:
		return zstd.SpeedBetterCompression
	default:
		return zstd.SpeedBestCompression
	}
}

// encoder appends the frame of src to dst. It serves one caller at a time.
type encoder struct {
	encode func(dst, src []byte) ([]byte, error)
}

func (o EncodeOptions) newEncoder(lib *libzstd) (*encoder, error) {
	if lib != nil {
		c, err := lib.newEncoder(o)
		if err != nil {
			return nil, err
		}
		return &encoder{c.encode}, nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(o.goLevel()), zstd.WithEncoderConcurrency(1),
		// Numbers often have a skewed distribution without repetitions. The
		// fastest level would store such literals uncompressed.
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderCRC(o.Checksum), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, err
	}
	return &encoder{func(dst, src []byte) ([]byte, error) { return e.EncodeAll(src, dst), nil }}, nil
}

// Encoders and decoders hold tables of up to many MB, so they are reused. Each serves
// one caller at a time.
var (
	encoders   sync.Map  // EncodeOptions -> *idleEncoders
	goDecoders sync.Pool // of *zstd.Decoder
)

// idleEncoders is a stack of unused encoders of one configuration. Their number never
// exceeds that of concurrent callers. A sync.Pool would keep encoders on every core, up
// to 1 GB at high levels. It would also drop them at each garbage collection, although
// a C library does not return freed memory to the system at once.
type idleEncoders struct {
	mu       sync.Mutex
	list     []idleEncoder // least recently used first
	expiring bool          // a call of expire is scheduled
}

type idleEncoder struct {
	*encoder
	since time.Time
}

// idleTimeout is how long an unused encoder is kept.
const idleTimeout = 5 * time.Second

// get returns the most recently used encoder, or nil if none is idle.
func (i *idleEncoders) get() *encoder {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.list) - 1
	if last < 0 {
		return nil
	}
	e := i.list[last].encoder
	i.list = slices.Delete(i.list, last, last+1)
	return e
}

// put adds an encoder and schedules its expiry.
func (i *idleEncoders) put(e *encoder) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, idleEncoder{e, time.Now()})
	if !i.expiring {
		i.expiring = true
		time.AfterFunc(idleTimeout, i.expire)
	}
}

// expire drops encoders that were idle for idleTimeout and reschedules itself if others
// remain.
func (i *idleEncoders) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := 0
	for old < len(i.list) && time.Since(i.list[old].since) >= idleTimeout {
		old++
	}
	i.list = slices.Delete(i.list, 0, old)
	if i.expiring = len(i.list) > 0; i.expiring {
		time.AfterFunc(idleTimeout-time.Since(i.list[0].since), i.expire)
	}
}

// maxWindow is the largest window of the format (RFC 8878, section 3.1.1.1.2). A window lies
// in the output, so that a large one takes no memory.
const maxWindow = 1<<41 + 7<<38

// EncodeFrame appends the frame of src to dst, on the host.
func EncodeFrame(dst, src []byte, o EncodeOptions) ([]byte, error) {
	dst, err := o.encodeFrame(dst, src)
	if err != nil {
		return nil, fmt.Errorf("zstd.EncodeFrame: %w", err)
	}
	return dst, nil
}

func (o EncodeOptions) encodeFrame(dst, src []byte) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Scratch = 0 // encoders of the host do not depend on it
	found, ok := encoders.Load(o)
	if !ok {
		found, _ = encoders.LoadOrStore(o, new(idleEncoders))
	}
	idle := found.(*idleEncoders)
	enc := idle.get()
	if enc == nil {
		var err error
		if enc, err = o.newEncoder(library()); err != nil {
			return nil, err
		}
	}
	defer idle.put(enc)
	return enc.encode(dst, src)
}

// DecodeFrames returns the decoding of src, any number of frames, in dst[:0], which it
// grows if needed, on the host. src and dst must not overlap. It verifies checksums, and
// returns compress.ErrTooLarge if the result exceeds limit bytes. It may write to all of
// dst's capacity below limit.
func DecodeFrames(dst, src []byte, limit int64) ([]byte, error) {
	limit = max(limit, 0)
	size := limit
	if int64(cap(dst)) < limit {
		size = initialSize(src, limit)
	}
	if lib := library(); lib != nil {
		dst = slices.Grow(dst[:0], int(size))
		if n, ok := lib.decode(dst[:size], src); ok {
			return dst[:n], nil
		}
		// The Go implementation decodes what is not a single frame, and has the error.
	}
	dst, err := decodeGo(dst, src, size, limit)
	if err != nil {
		return nil, fmt.Errorf("zstd.DecodeFrames: %w", classify(err))
	}
	return dst, nil
}

// decodeGo is DecodeFrames in Go. size is the expected size of the result.
func decodeGo(dst, src []byte, size, limit int64) ([]byte, error) {
	for { // if the size is larger than expected, double it
		dst = slices.Grow(dst[:0], int(size))[:0:size]
		out, err := decodeAll(dst, src)
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return out, err
		}
		if size == limit {
			return nil, fmt.Errorf("more than %d bytes: %w", limit, err)
		}
		size = min(2*size, limit)
	}
}

// decodeAll decodes src in dst[:0] in Go. It returns zstd.ErrDecoderSizeExceeded if the
// result exceeds the capacity of dst.
func decodeAll(dst, src []byte) ([]byte, error) {
	dec, ok := goDecoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(math.MaxInt64)); err != nil {
			return nil, err
		}
	}
	defer goDecoders.Put(dec)
	out, err := dec.DecodeAll(src, dst[:0])
	if err == nil || errors.Is(err, zstd.ErrDecoderSizeExceeded) || cap(dst)-len(out) >= maxBlock {
		return out, err
	}
	// A block that does not fit has the same error as one that is corrupt, but decodes if there
	// is room for one more.
	more, errMore := dec.DecodeAll(src, make([]byte, 0, cap(dst)+maxBlock))
	if errMore == nil || len(more) > cap(dst) || errors.Is(errMore, zstd.ErrDecoderSizeExceeded) {
		return nil, zstd.ErrDecoderSizeExceeded
	}
	return out, err
}

// initialSize returns the decoded size that a frame claims, at most limit, or an
// estimate if it claims none.
func initialSize(src []byte, limit int64) int64 {
	var header zstd.Header
	if header.Decode(src) == nil && header.HasFCS && header.FrameContentSize <= uint64(limit) {
		return max(int64(header.FrameContentSize), 1)
	}
	return min(limit, 4*int64(len(src))+512)
}
