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

// Zstd compresses with Zstandard (RFC 8878), one frame a chunk. Level is that
// of the reference implementation, -131072 to 22; 0 is Zstandard's word for its
// default of 3. Checksum adds a checksum to the frame; where a frame has one, it
// is checked.
//
// Where the machine has the reference implementation (see ZstdImplementation)
// it compresses. Else the one in Go does, which has four levels: below 0, 1 and
// 2 mean its fastest; 0 and 3 to 5 its default; 6 to 9 better; 10 to 22 best.
// Decompression is always in Go: it takes foreign bytes.
type Zstd struct {
	Level    int
	Checksum bool
}

// Name is "zstd".
func (Zstd) Name() string { return "zstd" }

func (z Zstd) configuration() any {
	return metajson.Members{{Key: "level", Value: z.Level}, {Key: "checksum", Value: z.Checksum}}
}

func parseZstd(config *metajson.Object) (Codec, error) {
	var z Zstd
	if err := config.Need("level", &z.Level); err != nil {
		return nil, err
	}
	if _, err := config.Maybe("checksum", &z.Checksum); err != nil {
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

func (z Zstd) speed() zstd.EncoderLevel {
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

// ZstdImplementation says what compresses with Zstandard in this process: the
// machine's library and its version ("libzstd 1.5.4"), or "Go".
func ZstdImplementation() string {
	if lib := openLibzstd(); lib != nil {
		return lib.version
	}
	return "Go"
}

// zstdEncoder appends a frame to dst.
type zstdEncoder struct {
	encode func(dst, src []byte) ([]byte, error)
}

func (z Zstd) newEncoder(lib *libzstd) (*zstdEncoder, error) {
	if lib != nil {
		c, err := lib.context(z)
		if err != nil {
			return nil, err
		}
		return &zstdEncoder{c.encode}, nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(z.speed()), zstd.WithEncoderConcurrency(1),
		// Numbers often have no repetitions but a skewed distribution, which
		// the fastest level would leave alone.
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderCRC(z.Checksum), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, err
	}
	return &zstdEncoder{func(dst, src []byte) ([]byte, error) { return e.EncodeAll(src, dst), nil }}, nil
}

// Encoders and decoders own tables, of half a MB to many MB, so they are used
// again. Each serves one caller at a time: callers bring the concurrency.
var (
	zstdEncoders sync.Map  // Zstd -> *idleEncoders
	zstdDecoders sync.Pool // of *zstd.Decoder
)

// idleEncoders are those of one kind that nobody uses, for a while. What was put back
// last is taken first, so there are never more than were at work at once. A sync.Pool
// holds one back on every core, where none but that core finds it: at a high level a
// gigabyte that no caller knows of. Encoders that were made anew after each collection
// would cost as much: what a C library frees is not at once the system's again.
type idleEncoders struct {
	mu       sync.Mutex
	list     []idleEncoder // the one that is idle for longest first
	expiring bool          // expire will be called
}

type idleEncoder struct {
	*zstdEncoder
	since time.Time
}

// idleFor is how long an encoder is kept that nobody wants.
const idleFor = 5 * time.Second

// take returns nil where none is left.
func (i *idleEncoders) take() *zstdEncoder {
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

func (i *idleEncoders) put(e *zstdEncoder) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, idleEncoder{e, time.Now()})
	if !i.expiring {
		i.expiring = true
		time.AfterFunc(idleFor, i.expire)
	}
}

// expire leaves to the collector what was idle for too long, and comes back for
// others.
func (i *idleEncoders) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := 0
	for old < len(i.list) && time.Since(i.list[old].since) >= idleFor {
		old++
	}
	i.list = slices.Delete(i.list, 0, old)
	if i.expiring = len(i.list) > 0; i.expiring {
		time.AfterFunc(idleFor-time.Since(i.list[0].since), i.expire)
	}
}

// maxWindow admits every level of the reference implementation, --ultra and
// --long included.
const maxWindow = 1 << 31

func (z Zstd) encode(dst, src []byte) ([]byte, error) {
	found, ok := zstdEncoders.Load(z)
	if !ok {
		found, _ = zstdEncoders.LoadOrStore(z, new(idleEncoders))
	}
	idle := found.(*idleEncoders)
	enc := idle.take()
	if enc == nil {
		var err error
		if enc, err = z.newEncoder(openLibzstd()); err != nil {
			return nil, err
		}
	}
	defer idle.put(enc)
	return enc.encode(dst, src)
}

func (Zstd) decode(dst, src []byte, limit int64) ([]byte, error) {
	dec, ok := zstdDecoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(math.MaxInt64)); err != nil {
			return nil, err
		}
	}
	defer zstdDecoders.Put(dec)
	// The decoder does not write beyond the capacity. Where the size is not
	// known, take the frame's word for it at first, then twice as much.
	size := limit
	if int64(cap(dst)) < limit {
		size = guess(src, limit)
	}
	for {
		dst = slices.Grow(dst[:0], int(size))[:0:size]
		out, err := dec.DecodeAll(src, dst)
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return out, err
		}
		if size == limit {
			return nil, tooLong(limit)
		}
		size = min(2*size, limit)
	}
}

func guess(src []byte, limit int64) int64 {
	var header zstd.Header
	if header.Decode(src) == nil && header.HasFCS && header.FrameContentSize <= uint64(limit) {
		return max(int64(header.FrameContentSize), 1)
	}
	return min(limit, 4*int64(len(src))+512)
}

// bound is generous: other encoders may cut incompressible data into many
// small blocks.
func (Zstd) bound(n int64) int64 { return roomy(n) }

// ratio: a block of up to 128 KiB takes at least 4 bytes (RFC 8878, 3.1.1.2).
func (Zstd) ratio() int64 { return 128 << 10 / 4 }

// roomy is room for n incompressible bytes, whoever encoded them.
func roomy(n int64) int64 {
	const slack = 1 << 16
	if n > (math.MaxInt64-slack)/2 {
		return math.MaxInt64
	}
	return 2*n + slack
}
