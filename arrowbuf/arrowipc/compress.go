package arrowipc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"golang.org/x/sync/errgroup"
)

// compress compresses each buffer of a body, as arrow-go's writer does: with the
// same encoders, whose options are those, so that the bytes are the same. How long
// a buffer becomes has to be known before the first is written, so they stay in
// memory until then, compressed.
func (o *settings) compress(parts []bodyBuffer) error {
	todo := make(chan int, len(parts))
	for i := range parts {
		if parts[i].length > 0 {
			todo <- i
		}
	}
	close(todo)
	var work errgroup.Group
	for range min(runtime.GOMAXPROCS(0), len(todo)) {
		work.Go(func() error {
			encoder := compressors[o.codec].Get().(compressor)
			defer compressors[o.codec].Put(encoder)
			for i := range todo {
				if err := o.compressBuffer(encoder, &parts[i]); err != nil {
					return fmt.Errorf("compressing buffer %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return work.Wait()
}

// compressor is one of zstd or LZ4.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// compressors are kept, since each has much memory.
var compressors = [...]sync.Pool{
	LZ4: {New: func() any {
		w := lz4.NewWriter(nil)
		return must(w, w.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block64Kb)))
	}},
	Zstd: {New: func() any { return must(zstd.NewWriter(nil)) }},
}

// must is for options that are constants.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func (o *settings) compressBuffer(e compressor, p *bodyBuffer) error {
	plain, err := p.hostBytes()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(plain))))
	e.Reset(&out)
	if _, err := e.Write(plain); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	packed := out.Bytes()
	saved := 1 - float64(len(packed)-prefixLength)/float64(len(plain))
	if o.savings != 0 && saved < o.savings {
		const notCompressed = math.MaxUint64
		packed = append(binary.LittleEndian.AppendUint64(nil, notCompressed), plain...)
	}
	*p = newComputed(int64(len(packed)), func() ([]byte, error) { return packed, nil })
	return nil
}

// Codec is how each buffer of a body is compressed.
type Codec int8

// The codecs of Arrow's IPC format.
const (
	Uncompressed Codec = iota
	LZ4                // an LZ4 frame
	Zstd
)

// prefixLength is what a compressed buffer begins with: its length before it was
// compressed, or -1 where it was not.
const prefixLength = 8

// decompressedSize returns how long a buffer of a compressed body is, and whether its
// bytes are compressed. A length that the codec cannot reach is an error.
func (c Codec) decompressedSize(prefix []byte, length int64) (n int64, compressed bool, err error) {
	if length == 0 {
		return 0, false, nil
	}
	if length < prefixLength {
		return 0, false, fmt.Errorf("%d bytes, expected the length and what was compressed: %w", length, arrow.ErrInvalid)
	}
	n, length = int64(binary.LittleEndian.Uint64(prefix)), length-prefixLength
	if n == -1 {
		return length, false, nil
	}
	if n < 0 || n/c.maxRatio() > length {
		return 0, false, fmt.Errorf("%d bytes that were compressed to %d: %w", n, length, arrow.ErrInvalid)
	}
	return n, true, nil
}

// maxRatio is how many bytes one of the codec can stand for, so that nothing is
// allocated because a few bytes say so: in LZ4 one more in the length of a match
// stands for 255, in zstd a block of 4 bytes for 128 KiB.
func (c Codec) maxRatio() int64 {
	if c == LZ4 {
		return 255
	}
	return 32 << 10
}

// decompress fills dst with what was compressed to src.
func (c Codec) decompress(dst, src []byte) error {
	if len(dst) == 0 {
		return nil
	}
	switch c {
	case LZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(src))
		if _, err := io.ReadFull(r, dst); err != nil {
			return fmt.Errorf("LZ4: %w: %w", arrow.ErrInvalid, err)
		}
	case Zstd:
		got, err := zstdDecoder().DecodeAll(src, dst[:0])
		if err != nil {
			return fmt.Errorf("zstd: %w: %w", arrow.ErrInvalid, err)
		}
		if len(got) != len(dst) {
			return fmt.Errorf("zstd: %d bytes, expected %d: %w", len(got), len(dst), arrow.ErrInvalid)
		}
	default:
		copy(dst, src)
	}
	return nil
}

var (
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		// Its output never grows beyond the room that it is given.
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true)))
	})
)

// alignment of the buffers of a body that was unpacked, as the Arrow columnar
// format recommends.
const alignment = 64

// decodeBody makes the buffers of a body that is compressed, or of the other byte
// order: each on the host, by one of several goroutines, in memory from which it
// is copied to its place in one allocation on the device.
func (in *incomingMessage) decodeBody(body Body) ([]*memory.Buffer, error) {
	from, total := in.batch.buffers, int64(0)
	for _, b := range from {
		if total += b.Length; total > in.bodyLength {
			return nil, fmt.Errorf("buffers that overlap: %w", arrow.ErrInvalid)
		}
	}
	to, packed := make([]Extent, len(from)), make([]bool, len(from))
	var size int64
	for i, b := range from {
		n, compressed, err := in.decodedSize(body, b)
		if err == nil {
			err = in.requirements[i].checkLength(n)
		}
		if err != nil {
			return nil, in.bufferError(i, err)
		}
		to[i], packed[i] = Extent{size, n}, compressed
		if size += (n + alignment - 1) &^ (alignment - 1); size < 0 {
			return nil, fmt.Errorf("buffers of more bytes than can be counted: %w", arrow.ErrInvalid)
		}
	}
	whole, err := in.dev.Alloc(max(size, alignment))
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range from {
		if to[i].Length > 0 {
			work.Go(func() error {
				if err := in.decodeBuffer(whole, to[i], body, from[i], packed[i], in.requirements[i].swap); err != nil {
					return in.bufferError(i, err)
				}
				return nil
			})
		}
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	return sliceBody(whole, to)
}

// decodedSize is how long a buffer of the body will be.
func (in *incomingMessage) decodedSize(body Body, b Extent) (n int64, compressed bool, err error) {
	if in.batch.codec == Uncompressed || b.Length < prefixLength {
		if in.batch.codec != Uncompressed && b.Length > 0 {
			_, _, err = in.batch.codec.decompressedSize(nil, b.Length)
		}
		return b.Length, false, err
	}
	prefix, err := readRange(body, Extent{b.Offset, prefixLength})
	if err != nil {
		return 0, false, err
	}
	return in.batch.codec.decompressedSize(prefix, b.Length)
}

func (in *incomingMessage) decodeBuffer(dst arrowbuf.Buffer, to Extent, body Body, from Extent, packed bool, o swapKind) error {
	if in.batch.codec != Uncompressed {
		from = Extent{from.Offset + prefixLength, from.Length - prefixLength}
	}
	src, err := readRange(body, from)
	if err != nil {
		return err
	}
	return fillRange(dst, to, func(b []byte) error {
		if !packed {
			copy(b, src)
		} else if err := in.batch.codec.decompress(b, src); err != nil {
			return err
		}
		if in.swapped {
			o.swap(b)
		}
		return nil
	})
}

// readRange returns bytes of a body on the host, in place where they are there.
func readRange(body Body, r Extent) ([]byte, error) {
	part, err := body.Slice(r.Offset, r.Length)
	if err != nil {
		return nil, err
	}
	defer part.Release()
	if host, ok := arrowbuf.HostBytes(part); ok {
		return host, nil
	}
	b := make([]byte, r.Length)
	_, err = part.CopyToHost(b, 0)
	return b, err
}

// swapKind says how the bytes of a buffer are turned around where a message is of
// the other byte order: values of so many bytes, none for 0 and 1.
type swapKind int

// Values of several parts, each of which is turned around.
const (
	swapViews        swapKind = -1 - iota // 4 bytes, and 2 times 4 more in those of long values
	swapDayTime                           // 2 times 4 bytes
	swapMonthDayNano                      // 2 times 4 bytes, and 8
)

func swapKindOf(t arrow.FixedWidthDataType) swapKind {
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		return 0
	case *arrow.DayTimeIntervalType:
		return swapDayTime
	case *arrow.MonthDayNanoIntervalType:
		return swapMonthDayNano
	default:
		return swapKind(t.Bytes())
	}
}

// swap turns the bytes of values around, in place. What is less than a value at
// the end stays.
func (o swapKind) swap(b []byte) {
	switch o {
	case 0, 1:
	case swapDayTime:
		swapKind(4).swap(b)
	case swapMonthDayNano:
		for value := range slices.Chunk(b[:len(b)&^15], 16) {
			swapKind(4).swap(value[:8])
			swapKind(8).swap(value[8:])
		}
	case swapViews:
		for view := range slices.Chunk(b[:len(b)&^15], arrow.ViewHeaderSizeBytes) {
			swapKind(4).swap(view[:4])
			const inline = 12 // bytes that a view holds itself
			if int32(binary.NativeEndian.Uint32(view)) > inline {
				swapKind(4).swap(view[8:])
			}
		}
	default:
		for ; len(b) >= int(o); b = b[o:] {
			slices.Reverse(b[:o])
		}
	}
}
