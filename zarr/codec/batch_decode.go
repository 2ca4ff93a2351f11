package codec

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// deviceDecoder is a codec with kernels that decode. They never access memory outside of
// the ranges of a batch, whatever the bytes of the inputs are.
type deviceDecoder interface {
	BytesCodec
	hasDecodeKernels(chunk int64) bool // with its configuration, and chunks of that many bytes
	// decodeBatch decodes a batch on its device. onHost is how many of the inputs lacked
	// kernels nevertheless, so that code on the host decoded them.
	decodeBatch(b compress.Batch, scratch int64) (results []compress.Result, onHost int64, err error)
}

// decoding is the decoding of a batch on a GPU.
type decoding struct {
	dev     *cudabuf.Device
	dst     arrowbuf.Buffer
	items   []DecodeItem
	errs    []error
	options BatchOptions
	chunks  []*decodingChunk
	buffers []arrowbuf.Buffer // to release at the end
}

// decodingChunk is a chunk during decoding. Its bytes before some steps lie at a range of
// a buffer, and before that on the host.
type decodingChunk struct {
	DecodeItem
	id     int
	steps  int // bytes-to-bytes codecs on the GPU that are left
	host   []byte
	buf    arrowbuf.Buffer
	at     compress.Range
	failed bool // the host decodes the chunk
	// counted are the steps so far. Those of a chunk that fails do not count: the host does
	// all of them again.
	counted []StepCount
	// copied has the encoded chunk on the device, if that is where its bytes were copied
	// to; otherwise it is nil.
	copied   arrowbuf.Buffer
	copiedAt compress.Range
}

func (d *decoding) run() error {
	defer func() {
		for _, b := range d.buffers {
			b.Release()
		}
	}()
	for i, item := range d.items {
		d.chunks = append(d.chunks, &decodingChunk{DecodeItem: item, id: i, host: item.Encoded, failed: !item.Chain.serializesOnDevice()})
	}
	scratches := d.beginOnHost()
	err := d.upload()
	for _, s := range scratches {
		s.Release()
	}
	if err == nil {
		err = d.decodeOnHost() // what is known to have failed
	}
	if err != nil {
		return err
	}
	d.forgetHost()
	for step := d.mostSteps(); step > 0; step-- {
		if err := d.decompress(step); err != nil {
			return err
		}
	}
	if err := d.deserialize(); err != nil {
		return err
	}
	return d.decodeOnHost()
}

func (d *decoding) alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.dev.Alloc(sizeClass(n))
	if err != nil {
		return nil, err
	}
	d.buffers = append(d.buffers, b)
	return b, nil
}

// pending returns the chunks that did not fail.
func (d *decoding) pending(f func(*decodingChunk) bool) []*decodingChunk {
	return slices.DeleteFunc(slices.Clone(d.chunks), func(c *decodingChunk) bool { return c.failed || !f(c) })
}

func (d *decoding) mostSteps() (most int) {
	for _, c := range d.chunks {
		if !c.failed {
			most = max(most, c.steps)
		}
	}
	return most
}

// beginOnHost runs the steps up to the last one without kernels. The caller must release
// the result after the bytes were copied.
func (d *decoding) beginOnHost() (scratches []*Scratch) {
	var first []*decodingChunk
	for _, c := range d.chunks {
		if c.failed {
			continue
		}
		if c.steps = c.Chain.deviceDecoders(); c.steps < len(c.Chain.compressors) {
			first = append(first, c)
			s := GetScratch()
			s.Stats = new(Stats)
			scratches = append(scratches, s)
		}
	}
	_ = forEach(len(first), d.options.Jobs, nil, func(i int) error { // decodeOnHost has the error
		c := first[i]
		raw, err := c.Chain.decompress(scratches[i], nil, c.Encoded, c.steps)
		c.host, c.failed, c.counted = raw, err != nil, scratches[i].Stats.Counts()
		return nil
	})
	return scratches
}

// upload copies the bytes of all chunks to the device: to their places, if they are the
// elements.
func (d *decoding) upload() error {
	var direct, others []arrowbuf.HostRange
	var size int64
	for _, c := range d.chunks {
		n := int64(len(c.host))
		if n > compress.MaxSize || c.steps == 0 && n != c.Chain.serializer.spec().nbytes() {
			c.failed = true
		}
		if c.failed {
			continue
		}
		if c.steps == 0 && c.Chain.axisOrder == nil {
			c.buf, c.at = d.dst, compress.Range{Offset: c.At, Length: n}
			direct = append(direct, arrowbuf.HostRange{Bytes: c.host, Pos: c.At})
			continue
		}
		c.at = compress.Range{Offset: size, Length: n}
		others = append(others, arrowbuf.HostRange{Bytes: c.host, Pos: size})
		size += alignBatch(n)
	}
	if err := copyRanges(d.dst, direct); err != nil {
		return err
	}
	if len(others) == 0 {
		return nil
	}
	encoded, err := d.alloc(size)
	if err != nil {
		return err
	}
	for _, c := range d.chunks {
		if !c.failed && c.buf == nil {
			c.buf = encoded
			if c.steps == len(c.Chain.compressors) {
				c.copied, c.copiedAt = encoded, c.at
			}
		}
	}
	return copyRanges(encoded, others)
}

func copyRanges(dst arrowbuf.Buffer, ranges []arrowbuf.HostRange) error {
	if len(ranges) == 0 {
		return nil
	}
	cuda, ok := arrowbuf.As[*cudabuf.Buffer](dst)
	if !ok {
		return fmt.Errorf("%v: %w", dst.Device(), arrowbuf.ErrDevice)
	}
	return cuda.CopyRangesFromHost(ranges)
}

// decompress decodes one of the bytes-to-bytes codecs of all chunks with that many steps
// left. The last one decodes to the final places.
func (d *decoding) decompress(step int) error {
	type group struct {
		codec    deviceDecoder
		src, dst arrowbuf.Buffer
	}
	groups := map[group][]*decodingChunk{}
	var size int64
	chunks := d.pending(func(c *decodingChunk) bool { return c.steps == step })
	limits := make(map[*decodingChunk]compress.Range, len(chunks))
	for _, c := range chunks {
		g := group{codec: c.Chain.compressors[step-1].(deviceDecoder), src: c.buf}
		limit := min(c.Chain.sizeLimits()[step-1], compress.MaxSize) // the host decodes what is larger
		if most := maxDecoded(g.codec, c.at.Length); most < limit {  // claims more than it can hold
			if step == 1 {
				c.failed = true
				continue
			}
			limit = most
		}
		out := compress.Range{Offset: size, Length: limit}
		if step == 1 && c.Chain.axisOrder == nil {
			g.dst, out.Offset = d.dst, c.At
		} else {
			size += alignBatch(limit)
		}
		limits[c] = out
		groups[g] = append(groups[g], c)
	}
	var temporary arrowbuf.Buffer
	if size > 0 {
		var err error
		if temporary, err = d.alloc(size); err != nil {
			return err
		}
	}
	for g, chunks := range groups {
		b := compress.Batch{Src: g.src, Dst: g.dst}
		if b.Dst == nil {
			b.Dst = temporary
		}
		for _, c := range chunks {
			b.In, b.Out = append(b.In, c.at), append(b.Out, limits[c])
		}
		results, onHost, err := g.codec.decodeBatch(b, d.options.Scratch)
		if err != nil {
			return err
		}
		for i, c := range chunks {
			n := results[i].Length
			if results[i].Err != nil || step == 1 && n != b.Out[i].Length {
				c.failed = true // the host has the error
				continue
			}
			c.counted = append(c.counted, countOf(g.codec, engineOf(i, onHost), true, n))
			c.buf, c.at, c.steps = b.Dst, compress.Range{Offset: b.Out[i].Offset, Length: n}, step-1
		}
	}
	return nil
}

// engineOf returns the engine that input i of a batch counts for. A batch says how many of
// its inputs the host did, not which: the first ones count for it. So the numbers of chunks
// are right, and the bytes are if the chunks have one size.
func engineOf(i int, onHost int64) Engine {
	if int64(i) < onHost {
		return OnHost
	}
	return OnDevice
}

// deserialize makes elements of the bytes of all chunks, in place unless they are
// transposed.
func (d *decoding) deserialize() error {
	var swaps, bools []numberRange
	chunks := d.pending(func(*decodingChunk) bool { return true })
	for _, c := range chunks {
		swaps = appendSwap(swaps, c.Chain, c.buf, c.at)
		if c.Chain.serializer.spec().Type.NeedsNormalize() { // bools
			bools = appendRange(bools, numberRange{c.buf, c.at, 1})
		}
		c.Stats.add(append(c.counted, countOf(c.Chain.serializes, OnDevice, true, c.at.Length))...)
	}
	if err := swapAll(swaps); err != nil {
		return err
	}
	for _, r := range bools {
		if err := r.normalizeBools(); err != nil {
			return err
		}
	}
	scope := ndview.NewScope()
	defer scope.Release()
	var places, values []*ndview.NDBuffer
	for _, c := range chunks {
		if c.Chain.axisOrder == nil {
			continue
		}
		place, v, err := c.transposed(scope, d.dst)
		if err != nil {
			return err
		}
		places, values = append(places, place), append(values, v)
	}
	return ndview.CopyAll(places, values)
}

// normalizeBools sets bytes that are not 0 to 1.
func (r numberRange) normalizeBools() error {
	stored, err := r.array(ndview.Uint8)
	if err != nil {
		return err
	}
	defer stored.Release()
	values, err := r.array(ndview.Bool)
	if err != nil {
		return err
	}
	defer values.Release()
	return ndview.NotEqual.Into(values, stored, uint8(0))
}

// transposed returns the stored elements in the order of the chunk, and where they go.
func (c *decodingChunk) transposed(scope *ndview.Scope, dst arrowbuf.Buffer) (place, values *ndview.NDBuffer, err error) {
	spec := c.Chain.serializer.spec()
	dtype, _ := spec.Type.DType()
	stored, err := scope.Add(ndview.FromBuffer(c.buf, dtype, c.at.Offset, spec.Shape, nil))
	if err != nil {
		return nil, nil, err
	}
	if values, err = scope.Add(stored.Transpose(invertPermutation(c.Chain.axisOrder)...)); err != nil {
		return nil, nil, err
	}
	place, err = scope.Add(ndview.FromBuffer(dst, dtype, c.At, c.Chain.chunk.Shape, nil))
	return place, values, err
}

// forgetHost calls OnCopied if the device has all encoded chunks that may fail.
func (d *decoding) forgetHost() {
	if d.options.OnCopied == nil || slices.ContainsFunc(d.chunks, func(c *decodingChunk) bool { return c.steps > 0 && c.copied == nil }) {
		return
	}
	for _, c := range d.chunks {
		c.Encoded, c.host = nil, nil
	}
	d.options.OnCopied()
}

// encoded returns the encoded chunk on the host.
func (c *decodingChunk) encoded() ([]byte, error) {
	if c.Encoded != nil || c.copied == nil {
		return c.Encoded, nil
	}
	raw := make([]byte, c.copiedAt.Length)
	_, err := c.copied.CopyToHost(raw, c.copiedAt.Offset)
	return raw, err
}

// decodeOnHost decodes the chunks that the device did not, and copies them there.
func (d *decoding) decodeOnHost() error {
	var failed []*decodingChunk
	d.chunks = slices.DeleteFunc(d.chunks, func(c *decodingChunk) bool {
		if c.failed {
			failed = append(failed, c)
		}
		return c.failed
	})
	return forEach(len(failed), d.options.Jobs, nil, func(i int) error {
		c := failed[i]
		n := c.Chain.chunk.nbytes()
		if d.errs[c.id] = arrowbuf.CheckHostMemory(n); d.errs[c.id] != nil { // a chunk may be much larger than its array
			return nil
		}
		s, memory := GetScratch(), GetScratch()
		defer s.Release()
		defer memory.Release()
		s.Stats = c.Stats
		raw := memory.Bytes(n)
		encoded, err := c.encoded()
		if err != nil {
			return err
		}
		if d.errs[c.id] = c.Chain.decodeFixed(s, raw, encoded); d.errs[c.id] == nil {
			_, err = d.dst.CopyFromHost(raw, c.At)
		}
		return err
	})
}
