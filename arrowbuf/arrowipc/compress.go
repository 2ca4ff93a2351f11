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
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Codec is the compression of the buffers of a body. Each buffer is compressed
// separately.
type Codec int8

// The codecs of Arrow's IPC format (CompressionType in Message.fbs).
const (
	Uncompressed Codec = iota
	LZ4                // the LZ4 frame format
	Zstd
)

// prefixLength is the size of the prefix of a compressed buffer: its uncompressed
// length, or -1 if the buffer is not compressed.
const prefixLength = 8

// decompressedSize returns the size of a buffer of a compressed body after
// decompression, and whether it is compressed. A size beyond the codec's maximum
// ratio is an error.
func (c Codec) decompressedSize(prefix []byte, length int64) (n int64, compressed bool, err error) {
	if length == 0 {
		return 0, false, nil
	}
	if length < prefixLength {
		return 0, false, fmt.Errorf("%d bytes, want a prefix of 8 and the compressed bytes: %w", length, arrow.ErrInvalid)
	}
	n, length = int64(binary.LittleEndian.Uint64(prefix)), length-prefixLength
	if n == -1 {
		return length, false, nil
	}
	if n < 0 || n/c.maxRatio() > length {
		return 0, false, fmt.Errorf("%d bytes cannot be compressed to %d: %w", n, length, arrow.ErrInvalid)
	}
	return n, true, nil
}

// maxRatio returns the maximum compression ratio of the codec, so that a few bytes
// cannot cause a large allocation. In LZ4, each further byte of a match length
// stands for 255 bytes. In zstd, a block of 4 bytes can stand for 128 KiB.
func (c Codec) maxRatio() int64 {
	if c == LZ4 {
		return 255
	}
	return 32 << 10
}

// decompress fills dst with the decompressed bytes of src.
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
			return fmt.Errorf("zstd: got %d bytes, want %d: %w", len(got), len(dst), arrow.ErrInvalid)
		}
	default:
		copy(dst, src)
	}
	return nil
}

var (
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		// DecodeAll then never exceeds the capacity of dst.
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true)))
	})
)

// compress compresses each buffer of a body in parallel. It uses the encoders of
// arrow-go's writer with the same options, so that the bytes are equal. The sizes of
// all buffers must be known before the first is written, so the compressed buffers
// stay in memory until then.
func (o *settings) compress(buffers []bodyBuffer) error {
	todo := make(chan int, len(buffers))
	for i := range buffers {
		if buffers[i].length > 0 {
			todo <- i
		}
	}
	close(todo)
	var group errgroup.Group
	for range min(runtime.GOMAXPROCS(0), len(todo)) {
		group.Go(func() error {
			encoder := compressors[o.codec].Get().(compressor)
			defer compressors[o.codec].Put(encoder)
			for i := range todo {
				if err := o.compressBuffer(encoder, &buffers[i]); err != nil {
					return fmt.Errorf("compressing buffer %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// compressor is a zstd or LZ4 encoder.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// compressors are pooled, because each holds much memory.
var compressors = [...]sync.Pool{
	LZ4: {New: func() any {
		w := lz4.NewWriter(nil)
		return must(w, w.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block64Kb)))
	}},
	Zstd: {New: func() any { return must(zstd.NewWriter(nil)) }},
}

// compressBuffer replaces a buffer by its compressed bytes, or by the plain bytes if
// compression saves too little.
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

// must panics if err is not nil. It is for options that are constants.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

// alignment of the buffers of a decoded body, as the Arrow columnar format
// recommends.
const alignment = 64

// decodeBody makes the buffers of a body that is compressed, or has the other byte
// order. Several goroutines decode one buffer each on the host, in staging memory,
// and copy it to its position in one allocation on the device.
func (in *incomingMessage) decodeBody(body Body) ([]*memory.Buffer, error) {
	from, total := in.batch.buffers, int64(0)
	for _, b := range from {
		if total += b.Length; total > in.bodyLength {
			return nil, fmt.Errorf("buffers overlap: %w", arrow.ErrInvalid)
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
			return nil, fmt.Errorf("the size of the buffers overflows: %w", arrow.ErrInvalid)
		}
	}
	whole, err := in.dev.Alloc(max(size, alignment))
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range from {
		if to[i].Length > 0 {
			group.Go(func() error {
				if err := in.decodeBuffer(whole, to[i], body, from[i], packed[i], in.requirements[i].swap); err != nil {
					return in.bufferError(i, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return sliceBody(whole, to)
}

// decodedSize returns the size of a buffer after decoding.
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

// decodeBuffer decodes one buffer of the body to range to of dst.
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

// readRange returns a range of a body on the host, in place if possible.
func readRange(body Body, r Extent) ([]byte, error) {
	slice, err := body.Slice(r.Offset, r.Length)
	if err != nil {
		return nil, err
	}
	defer slice.Release()
	if host, ok := arrowbuf.HostBytes(slice); ok {
		return host, nil
	}
	b := make([]byte, r.Length)
	_, err = slice.CopyToHost(b, 0)
	return b, err
}

// swapKind is how the byte order of a buffer is swapped: the size of its values in
// bytes, if that is positive. 0 and 1 mean that nothing is swapped.
type swapKind int

// Values of several fields, each of which is swapped.
const (
	swapViews        swapKind = -1 - iota // 4 bytes, and 2 times 4 more if the value is not inline
	swapDayTime                           // 2 times 4 bytes
	swapMonthDayNano                      // 2 times 4 bytes, and 8
)

// swapKindOf returns the swapKind of a fixed-width type.
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

// swap reverses the bytes of each value, in place. An incomplete value at the end is
// not changed.
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
			const inline = 12 // values of up to this many bytes are in the view itself
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
