package codec

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// Batches of chunks are encoded and decoded where they lie. On a GPU, each step of all
// chunks is a few launches. A chain's steps on a GPU are the leading ones, from the
// elements on: encoding is on the host from the first step without kernels on, and
// decoding up to the last of them. Encoded bytes cross the link, so bytes cross it once.

// BatchOptions are options of [EncodeBatch] and [DecodeBatch]. The zero value is valid.
type BatchOptions struct {
	// Scratch is the size in bytes up to which a step uses memory of a GPU beside its
	// input and output; 0 is that of compress.DecodeOptions.
	Scratch int64
	// Jobs is the number of goroutines of steps on the host; 0 is GOMAXPROCS.
	Jobs int
	// Running, if not nil, bounds the goroutines of several calls of EncodeBatch together:
	// each has a value in it while it runs.
	Running chan struct{}
	// Pieces, if not nil, has the pinned memory of several calls of EncodeBatch together.
	Pieces *HostPieces
	// OnHostCopy, if not nil, is called after each copy from a device, possibly from several
	// goroutines at the same time.
	OnHostCopy func(bytes int64, took time.Duration)
	// OnEncoded, if not nil, is called once when EncodeBatch needs the kernels of the GPU no
	// longer, at the latest when it returns.
	OnEncoded func()
	// OnCopied, if not nil, is called once when DecodeBatch needs the encoded chunks on the
	// host no longer, at the latest when it returns.
	OnCopied func()
}

// EncodeItem is a chunk to encode. Values may be smaller than the chunk along any axis;
// fill values pad the rest.
type EncodeItem struct {
	Chain  *Chain
	Values element.Values
	// KeepEmpty encodes a chunk that equals the fill value.
	KeepEmpty bool
	// Stats, if not nil, counts the steps.
	Stats *Stats
}

// EncodeBatch encodes chunks of any chains, and calls use for each with its encoding or its
// error, from several goroutines at the same time. The encoding is nil if all elements
// equal the fill value bitwise, unless KeepEmpty is set. It is valid until use returns,
// which must not modify it.
//
// Chunks whose values are on a GPU are encoded there, as far as their chains have kernels.
// A GPU then needs memory for the chunks, for the bound of each step's output, and for the
// encodings. These cross the link in pieces of some MiB: while chunks of one are used,
// others are copied, so that host memory is bounded, too.
//
// The error is that of the whole batch: an item without chain or values, a failure of a
// device, or the first of use. Then use may not be called for some of the chunks.
func EncodeBatch(items []EncodeItem, o BatchOptions, use func(i int, encoded []byte, err error) error) error {
	if o.OnEncoded != nil {
		o.OnEncoded = sync.OnceFunc(o.OnEncoded)
		defer o.OnEncoded()
	}
	if use == nil {
		return errors.New("codec.EncodeBatch: nil function")
	}
	var onHost []int
	onDevice := map[*cudabuf.Device][]int{}
	for i, item := range items {
		if item.Chain == nil {
			return fmt.Errorf("codec.EncodeBatch: item %d: nil chain", i)
		}
		if err := item.Chain.CheckValues(item.Values); err != nil {
			return fmt.Errorf("codec.EncodeBatch: item %d: %w", i, err)
		}
		if dev := item.Chain.encoderOf(item.Values); dev != nil {
			onDevice[dev] = append(onDevice[dev], i)
		} else {
			onHost = append(onHost, i)
		}
	}
	for dev, ids := range onDevice {
		if err := encodeOn(dev, items, ids, o, use); err != nil {
			return fmt.Errorf("codec.EncodeBatch: %w", err)
		}
	}
	if o.OnEncoded != nil {
		o.OnEncoded()
	}
	return forEach(len(onHost), o.Jobs, o.Running, func(i int) error {
		item := items[onHost[i]]
		s := GetScratch()
		defer s.Release()
		s.KeepEmpty, s.Stats, s.OnHostCopy = item.KeepEmpty, item.Stats, o.OnHostCopy
		encoded, err := item.Chain.encode(s, item.Values)
		return use(onHost[i], encoded, err)
	})
}

// DecodeItem is a chunk to decode. Encoded is on the host, best in pinned memory.
type DecodeItem struct {
	Chain   *Chain
	Encoded []byte
	// At is where the elements go: the offset in the destination, in bytes.
	At int64
	// Stats, if not nil, counts the steps.
	Stats *Stats
}

// DecodeBatch decodes chunks of elements of fixed width into a buffer, in C order and the
// host's byte order. On a GPU it decodes there, as far as the chains have kernels. What
// the GPU cannot decode is decoded on the host, which has the error of a corrupt chunk.
// DecodeBatch returns the error of each item, of whose elements the bytes are then
// undefined, or the error of the whole batch: an item that is not valid, or a failure of
// the device.
func DecodeBatch(dst arrowbuf.Buffer, items []DecodeItem, o BatchOptions) ([]error, error) {
	if o.OnCopied != nil {
		o.OnCopied = sync.OnceFunc(o.OnCopied)
		defer o.OnCopied()
	}
	if dst == nil {
		return nil, errors.New("codec.DecodeBatch: nil destination")
	}
	for i, item := range items {
		if item.Chain == nil {
			return nil, fmt.Errorf("codec.DecodeBatch: item %d: nil chain", i)
		}
		if item.Chain.chunk.Type.IsVLen() {
			return nil, fmt.Errorf("codec.DecodeBatch: item %d: elements of %s have no fixed width", i, item.Chain.chunk.Type)
		}
		if err := arrowbuf.CheckRange(item.At, item.Chain.chunk.nbytes(), dst.Len()); err != nil {
			return nil, fmt.Errorf("codec.DecodeBatch: item %d: %w", i, err)
		}
	}
	errs := make([]error, len(items))
	if host, ok := arrowbuf.HostBytes(dst); ok {
		_ = forEach(len(items), o.Jobs, nil, func(i int) error { // each item has its error
			s := GetScratch()
			defer s.Release()
			s.Stats = items[i].Stats
			n := items[i].Chain.chunk.nbytes()
			errs[i] = items[i].Chain.decodeFixed(s, host[items[i].At:][:n:n], items[i].Encoded)
			return nil
		})
		return errs, nil
	}
	dev, ok := arrowbuf.As[*cudabuf.Device](dst.Device())
	if !ok {
		return nil, fmt.Errorf("codec.DecodeBatch: %v: %w", dst.Device(), arrowbuf.ErrDevice)
	}
	d := &decoding{dev: dev, dst: dst, items: items, errs: errs, options: o}
	if err := d.run(); err != nil {
		return nil, fmt.Errorf("codec.DecodeBatch: %w", err)
	}
	return errs, nil
}

// forEach calls f for 0 to n-1 in up to jobs goroutines, and returns the first error. After
// an error it begins no more calls. Each goroutine has a value in running, unless that is
// nil.
func forEach(n, jobs int, running chan struct{}, f func(i int) error) error {
	if jobs < 1 {
		jobs = runtime.GOMAXPROCS(0)
	}
	if n == 1 && running == nil {
		return f(0)
	}
	var failed atomic.Bool
	var next atomic.Int64
	var group errgroup.Group
	for range min(n, jobs) {
		group.Go(func() error {
			if running != nil {
				running <- struct{}{}
				defer func() { <-running }()
			}
			for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failed.Store(true)
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// batchAlignment is that of chunks in a buffer of many: kernels read neighbors
// independently, and in words.
const batchAlignment = 256

// sizeClass rounds a size up to one of few: powers of two and halves between them. Batches
// have all sizes, and a pool reuses memory only for a request of about its size.
func sizeClass(n int64) int64 {
	n = max(n, batchAlignment)
	whole := int64(1) << bits.Len64(uint64(n-1))
	if half := whole / 4 * 3; n <= half {
		return half
	}
	return whole
}

// maxOnDevice is the size in bytes of the largest chunk that a GPU encodes or decodes: all
// encodings of it are within the limit of batches.
const maxOnDevice = compress.MaxSize/2 - 1<<16

func alignBatch(n int64) int64 { return (n + batchAlignment - 1) / batchAlignment * batchAlignment }

// encoderOf returns the GPU that encodes values of the chain, or nil for the host.
func (c *Chain) encoderOf(v element.Values) *cudabuf.Device {
	nd, ok := v.(*ndview.NDBuffer)
	if !ok || !c.EncodesOnDevice() {
		return nil
	}
	if _, onHost := arrowbuf.HostBytes(nd.Buffer()); onHost {
		return nil
	}
	dev, _ := arrowbuf.As[*cudabuf.Device](nd.Device())
	return dev
}

// EncodesOnDevice reports whether a GPU has something to do to encode chunks of the chain,
// but to copy them.
func (c *Chain) EncodesOnDevice() bool {
	return c.serializesOnDevice() && (c.deviceEncoders() > 0 || c.axisOrder != nil || c.serializer.(*bytesSerializer).swap)
}

// serializesOnDevice reports whether a GPU can put elements in the order of the encoding,
// and back: without other array-to-array codecs than leading transposes.
func (c *Chain) serializesOnDevice() bool {
	raw, ok := c.serializer.(*bytesSerializer)
	if !ok || len(c.transforms) > 0 || c.chunk.nbytes() > maxOnDevice {
		return false
	}
	t := raw.chunk.Type
	plainBool := t == element.Of(ndview.Bool)
	return (!t.NeedsNormalize() || plainBool) && (!raw.swap || t.NumberWidth() > 1)
}

// deviceEncoders returns how many of the leading bytes-to-bytes codecs have kernels that
// encode.
func (c *Chain) deviceEncoders() int {
	return leading(c.compressors, func(codec BytesCodec) bool {
		e, ok := codec.(deviceEncoder)
		return ok && isOwn(codec) && e.hasEncodeKernels()
	})
}

// deviceDecoders is the same for decoding.
func (c *Chain) deviceDecoders() int {
	return leading(c.compressors, func(codec BytesCodec) bool {
		d, ok := codec.(deviceDecoder)
		return ok && isOwn(codec) && d.hasDecodeKernels(c.chunk.nbytes())
	})
}

// isOwn reports whether a codec is of a type of this package. A type of another one that
// embeds it has its methods too, but may encode in another way.
func isOwn(codec BytesCodec) bool {
	return reflect.TypeOf(codec).PkgPath() == ownPath
}

var ownPath = reflect.TypeFor[Zstd]().PkgPath()

// leading returns the number of codecs before the first that f is false for.
func leading(codecs []BytesCodec, f func(BytesCodec) bool) int {
	for i, codec := range codecs {
		if !f(codec) {
			return i
		}
	}
	return len(codecs)
}

// DecodesOnDevice reports whether a GPU has something to do to decode chunks of the chain,
// or nothing has.
func (c *Chain) DecodesOnDevice() bool {
	return c.serializesOnDevice() && (c.deviceDecoders() > 0 || len(c.compressors) == 0)
}

// DecodesInOrder reports whether a GPU decodes the bytes of a chunk one after the other as
// far as they refer to each other. Then a batch of few chunks takes as long as one of many.
func (c *Chain) DecodesInOrder() bool {
	return slices.ContainsFunc(c.compressors, func(codec BytesCodec) bool {
		switch codec.(type) {
		case Zstd, LZ4:
			return true
		}
		return false
	})
}

// DecodesInPlace reports whether a GPU has nothing to do to decode chunks of the chain: an
// encoded chunk is its elements.
func (c *Chain) DecodesInPlace() bool {
	return c.IsPlain() && c.serializesOnDevice() && !c.chunk.Type.NeedsNormalize()
}

// CountInPlace counts a chunk that was decoded in place on a device.
func (c *Chain) CountInPlace(s *Stats) {
	s.add(countOf(c.serializes, OnDevice, true, c.chunk.nbytes()))
}

// UsualEncodedSize returns the size in bytes that few encoded chunks exceed.
func (c *Chain) UsualEncodedSize() int64 {
	n := c.chunk.nbytes()
	if len(c.compressors) == 0 {
		return n
	}
	return n + n/128 + 64*int64(len(c.compressors))
}
