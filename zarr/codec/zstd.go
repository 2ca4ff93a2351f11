package codec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Zstd compresses a chunk into one Zstandard frame (RFC 8878). Level is that of the
// reference implementation, -131072 to 22; 0 means its default, 3. Checksum adds a
// checksum to the frame. Decoding verifies a checksum if the frame has one.
//
// If the system has libzstd, it compresses; see [ZstdImplementation]. Otherwise the Go
// implementation does, which has four levels. It maps levels below 0, 1 and 2 to
// fastest; 0 and 3 to 5 to default; 6 to 9 to better; and 10 to 22 to best.
// Decompression always uses Go, since the input is foreign.
type Zstd struct {
	Level    int
	Checksum bool
}

// Name returns "zstd".
func (Zstd) Name() string { return "zstd" }

// Configuration returns the level and whether frames have a checksum.
func (z Zstd) Configuration() any {
	return metajson.Members{{Key: "level", Value: z.Level}, {Key: "checksum", Value: z.Checksum}}
}

// v2 omits a checksum of false, which old versions of numcodecs do not know.
func (z Zstd) v2() (string, metajson.Members) {
	config := metajson.Members{{Key: "level", Value: z.Level}}
	if z.Checksum {
		config = append(config, metajson.Member{Key: "checksum", Value: true})
	}
	return "zstd", config
}

// parseZstd tolerates a missing level: it is 0.
func parseZstd(config *metajson.Object) (Codec, error) {
	var z Zstd
	if _, err := config.DecodeOptional("level", &z.Level); err != nil {
		return nil, err
	}
	if _, err := config.DecodeOptional("checksum", &z.Checksum); err != nil {
		return nil, err
	}
	return z, z.check()
}

func (z Zstd) check() error {
	if z.Level < -131072 || z.Level > 22 {
		return fmt.Errorf("zstd: level %d is not within -131072 to 22", z.Level)
	}
	return nil
}

func (z Zstd) encoderLevel() zstd.EncoderLevel {
	switch {
	case z.Level == 0 || z.Level >= 3 && z.Level <= 5:
		return zstd.SpeedDefault
	case z.Level < 3:
		return zstd.SpeedFastest
	case z.Level < 10:
		return zstd.SpeedBetterCompression
	default:
		return zstd.SpeedBestCompression
	}
}

// ZstdImplementation returns what compresses Zstandard in this process: the version of
// the system's library, such as "libzstd 1.5.4", or "Go".
func ZstdImplementation() string {
	if lib := openLibzstd(); lib != nil {
		return lib.version
	}
	return "Go"
}

// zstdEncoder appends the frame of src to dst. It serves one caller at a time.
type zstdEncoder struct {
	encode func(dst, src []byte) ([]byte, error)
}

func (z Zstd) newEncoder(lib *libzstd) (*zstdEncoder, error) {
	if lib != nil {
		c, err := lib.newContext(z)
		if err != nil {
			return nil, err
		}
		return &zstdEncoder{c.encode}, nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(z.encoderLevel()), zstd.WithEncoderConcurrency(1),
		// Numbers often have a skewed distribution without repetitions. The
		// fastest level would store such literals uncompressed.
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderCRC(z.Checksum), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, err
	}
	return &zstdEncoder{func(dst, src []byte) ([]byte, error) { return e.EncodeAll(src, dst), nil }}, nil
}

// Encoders and decoders hold tables of up to many MB, so they are reused. Each serves
// one caller at a time.
var (
	zstdEncoders sync.Map  // Zstd -> *idleEncoders
	zstdDecoders sync.Pool // of *zstd.Decoder
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
	*zstdEncoder
	since time.Time
}

// idleTimeout is how long an unused encoder is kept.
const idleTimeout = 5 * time.Second

// get returns the most recently used encoder, or nil if none is idle.
func (i *idleEncoders) get() *zstdEncoder {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.list) - 1
	if last < 0 {
		return nil
	}
	e := i.list[last].zstdEncoder
	i.list = slices.Delete(i.list, last, last+1)
	return e
}

// put adds an encoder and schedules its expiry.
func (i *idleEncoders) put(e *zstdEncoder) {
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

// maxWindow admits all levels of the reference implementation, including --ultra and
// --long.
const maxWindow = 1 << 31

// Encode appends the encoding of src to dst.
func (z Zstd) Encode(dst, src []byte) ([]byte, error) {
	found, ok := zstdEncoders.Load(z)
	if !ok {
		found, _ = zstdEncoders.LoadOrStore(z, new(idleEncoders))
	}
	idle := found.(*idleEncoders)
	enc := idle.get()
	if enc == nil {
		var err error
		if enc, err = z.newEncoder(openLibzstd()); err != nil {
			return nil, err
		}
	}
	defer idle.put(enc)
	return enc.encode(dst, src)
}

// Decode returns the decoding of src: at most limit bytes.
func (Zstd) Decode(dst, src []byte, limit int64) ([]byte, error) {
	dec, ok := zstdDecoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(math.MaxInt64)); err != nil {
			return nil, err
		}
	}
	defer zstdDecoders.Put(dec)
	// The decoder does not write beyond the capacity. If the size is unknown, start
	// with the size that the frame claims, then double it.
	size := limit
	if int64(cap(dst)) < limit {
		size = initialSize(src, limit)
	}
	for {
		dst = slices.Grow(dst[:0], int(size))[:0:size]
		out, err := dec.DecodeAll(src, dst)
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return out, err
		}
		if size == limit {
			return nil, errTooLong(limit)
		}
		size = min(2*size, limit)
	}
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

// EncodedSize is generous, since other encoders may split incompressible data into many small
// blocks.
func (Zstd) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio returns 32768: a block of up to 128 KiB takes at least 4 bytes (RFC 8878, section 3.1.1.2).
func (Zstd) MaxRatio() int64 { return 128 << 10 / 4 }
