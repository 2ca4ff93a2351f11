package codec

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
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
	// input and output; 0 is 1 GiB.
	Scratch int64
	// Jobs is the number of goroutines of steps on the host; 0 is GOMAXPROCS.
	Jobs int
	// OnHostCopy, if not nil, is called after each copy from a device, possibly from several
	// goroutines at the same time.
	OnHostCopy func(bytes int64, took time.Duration)
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

// Encoded is the encodings of a batch. The caller must release it.
type Encoded struct {
	chunks    [][]byte
	errs      []error
	scratches []*Scratch
}

// Chunk returns the encoding of item i, or its error. The encoding is nil if all elements
// equal the fill value bitwise, unless KeepEmpty is set. It is valid until Release, and
// the caller must not modify it. Chunk returns an error after Release, and if the batch
// has no item i.
func (e *Encoded) Chunk(i int) ([]byte, error) {
	if e == nil || i < 0 || i >= len(e.chunks) {
		return nil, fmt.Errorf("codec.Encoded.Chunk: item %d is not in the batch, or the batch was released", i)
	}
	return e.chunks[i], e.errs[i]
}

// Release releases the memory of the encodings.
func (e *Encoded) Release() {
	for _, s := range e.scratches {
		s.Release()
	}
	e.chunks, e.errs, e.scratches = nil, nil, nil
}

// scratch returns a Scratch that lives as long as the encodings.
func (e *Encoded) scratch(item EncodeItem, o BatchOptions) *Scratch {
	s := GetScratch()
	s.KeepEmpty, s.Stats, s.OnHostCopy = item.KeepEmpty, item.Stats, o.OnHostCopy
	e.scratches = append(e.scratches, s)
	return s
}

// EncodeBatch encodes chunks of any chains. Those whose values are on a GPU are encoded
// there, as far as their chains have kernels. A GPU then needs memory for the chunks, for
// the bound of each step's output, and for the encodings. The error is that of the whole
// batch: an item without chain or values, or a failure of a device.
func EncodeBatch(items []EncodeItem, o BatchOptions) (_ *Encoded, err error) {
	e := &Encoded{chunks: make([][]byte, len(items)), errs: make([]error, len(items))}
	defer func() {
		if err != nil {
			e.Release()
		}
	}()
	var onHost []int
	onDevice := map[*cudabuf.Device][]int{}
	for i, item := range items {
		if item.Chain == nil {
			return nil, fmt.Errorf("codec.EncodeBatch: item %d: nil chain", i)
		}
		if err := item.Chain.CheckValues(item.Values); err != nil {
			return nil, fmt.Errorf("codec.EncodeBatch: item %d: %w", i, err)
		}
		if dev := item.Chain.encoderOf(item.Values); dev != nil {
			onDevice[dev] = append(onDevice[dev], i)
		} else {
			onHost = append(onHost, i)
		}
	}
	for dev, ids := range onDevice {
		if err := e.encodeOn(dev, items, ids, o); err != nil {
			return nil, fmt.Errorf("codec.EncodeBatch: %w", err)
		}
	}
	scratches := make([]*Scratch, len(onHost))
	for i := range onHost {
		scratches[i] = e.scratch(items[onHost[i]], o)
	}
	forEach(len(onHost), o.Jobs, func(i int) {
		at := onHost[i]
		e.chunks[at], e.errs[at] = items[at].Chain.encode(scratches[i], items[at].Values)
	})
	return e, nil
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
		forEach(len(items), o.Jobs, func(i int) {
			s := GetScratch()
			defer s.Release()
			s.Stats = items[i].Stats
			n := items[i].Chain.chunk.nbytes()
			errs[i] = items[i].Chain.decodeFixed(s, host[items[i].At:][:n:n], items[i].Encoded)
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

// forEach calls f for 0 to n-1 in up to jobs goroutines.
func forEach(n, jobs int, f func(i int)) {
	if jobs < 1 {
		jobs = runtime.GOMAXPROCS(0)
	}
	if n == 1 {
		f(0)
		return
	}
	var group errgroup.Group
	group.SetLimit(jobs)
	for i := range n {
		group.Go(func() error { f(i); return nil })
	}
	_ = group.Wait() // f returns no error
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

// encodesOnDevice reports whether a GPU has something to do for the chain but to copy.
func (c *Chain) encodesOnDevice() bool {
	return c.deviceEncoders() > 0 || c.axisOrder != nil || c.serializer.(*bytesSerializer).swap
}

// EncodesOnDevice reports whether a GPU has something to do to encode chunks of the chain.
func (c *Chain) EncodesOnDevice() bool { return c.serializesOnDevice() && c.encodesOnDevice() }

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
		return ok && e.encodesOnDevice()
	})
}

// deviceDecoders is the same for decoding.
func (c *Chain) deviceDecoders() int {
	return leading(c.compressors, func(codec BytesCodec) bool {
		d, ok := codec.(deviceDecoder)
		return ok && d.decodesOnDevice()
	})
}

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

// UsualEncodedSize returns the size in bytes that few encoded chunks exceed.
func (c *Chain) UsualEncodedSize() int64 {
	n := c.chunk.nbytes()
	if len(c.compressors) == 0 {
		return n
	}
	return n + n/128 + 64*int64(len(c.compressors))
}
