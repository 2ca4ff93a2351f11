package codec

import (
	"fmt"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// deviceEncoder is a codec with kernels that encode.
type deviceEncoder interface {
	BytesCodec
	encodesOnDevice() bool // with its configuration
	// bound returns a size that suffices for each encoding of n bytes.
	bound(n int64) int64
	// encodeBatch encodes a batch on its device. onHost is how many of the inputs lacked
	// kernels nevertheless, so that code on the host encoded them.
	encodeBatch(b compress.Batch, scratch int64) (results []compress.Result, onHost int64, err error)
}

// encoding is the encoding of the items of one GPU.
type encoding struct {
	dev     *cudabuf.Device
	options BatchOptions
	chunks  []*encodingChunk
	buffers []arrowbuf.Buffer // to release at the end
}

// encodingChunk is a chunk during encoding. Its bytes after some steps lie at a range of
// a buffer.
type encodingChunk struct {
	EncodeItem
	id    int
	steps int // bytes-to-bytes codecs on the GPU
	buf   arrowbuf.Buffer
	at    compress.Range
	empty bool
	err   error
}

// encodeOn encodes items whose values are on a GPU.
func (e *Encoded) encodeOn(dev *cudabuf.Device, items []EncodeItem, ids []int, o BatchOptions) (err error) {
	x := &encoding{dev: dev, options: o}
	defer x.release()
	for _, i := range ids {
		x.chunks = append(x.chunks, &encodingChunk{EncodeItem: items[i], id: i, steps: items[i].Chain.deviceEncoders()})
	}
	if err := x.serialize(); err != nil {
		return err
	}
	if err := x.findEmpty(); err != nil {
		return err
	}
	for step := 0; ; step++ {
		more, err := x.compress(step)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	s := e.scratch(EncodeItem{}, o)
	if err := x.copyToHost(e, s); err != nil {
		return err
	}
	return x.finishOnHost(e)
}

func (x *encoding) release() {
	for _, b := range x.buffers {
		b.Release()
	}
}

// alloc returns device memory that lives until release.
func (x *encoding) alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := x.dev.Alloc(sizeClass(n))
	if err != nil {
		return nil, err
	}
	x.buffers = append(x.buffers, b)
	return b, nil
}

// serialize puts the elements of all chunks into one buffer, as the array-to-bytes codec
// encodes them.
func (x *encoding) serialize() error {
	var size int64
	for _, c := range x.chunks {
		n := c.Chain.serializer.spec().nbytes()
		c.at = compress.Range{Offset: size, Length: n}
		size += alignBatch(n)
	}
	slab, err := x.alloc(size)
	if err != nil {
		return err
	}
	scope := ndview.NewScope()
	defer scope.Release()
	var places, values []*ndview.NDBuffer
	for _, c := range x.chunks {
		c.buf = slab
		place, v, err := c.place(scope)
		if err != nil {
			return err
		}
		places, values = append(places, place), append(values, v)
		c.Stats.add(c.Chain.serializes, OnDevice, false, c.at.Length)
	}
	if err := ndview.CopyAll(places, values); err != nil {
		return err
	}
	var swaps []numberRange
	for _, c := range x.chunks {
		swaps = appendSwap(swaps, c.Chain, c.buf, c.at)
	}
	return swapAll(swaps)
}

// place returns the values in the order in which they are encoded, and where they go. It
// fills the rest of the chunk.
func (c *encodingChunk) place(scope *ndview.Scope) (place, values *ndview.NDBuffer, err error) {
	spec := c.Chain.serializer.spec()
	values = c.Values.(*ndview.NDBuffer)
	if c.Chain.axisOrder != nil {
		if values, err = scope.Add(values.Transpose(c.Chain.axisOrder...)); err != nil {
			return nil, nil, err
		}
	}
	whole, err := scope.Add(ndview.FromBuffer(c.buf, values.DType(), c.at.Offset, spec.Shape, nil))
	if err != nil || values.Size() == whole.Size() {
		return whole, values, err
	}
	fill, err := scope.Add(ndview.FromBytes(values.Device(), values.DType(), spec.Fill))
	if err != nil {
		return nil, nil, err
	}
	all, err := scope.Add(fill.BroadcastTo(spec.Shape...))
	if err != nil {
		return nil, nil, err
	}
	if err := whole.CopyFrom(all); err != nil {
		return nil, nil, err
	}
	keys := make([]ndview.Key, len(spec.Shape))
	for i, n := range values.Shape() {
		keys[i] = ndview.Span(0, n)
	}
	place, err = scope.Add(whole.Index(keys...))
	return place, values, err
}

// numberRange is adjacent numbers of one width in a buffer.
type numberRange struct {
	buf   arrowbuf.Buffer
	at    compress.Range
	width int64
}

// appendSwap appends the numbers of a chunk, if the chain stores them in the other byte
// order. Those of adjacent chunks are one range.
func appendSwap(all []numberRange, c *Chain, buf arrowbuf.Buffer, at compress.Range) []numberRange {
	raw := c.serializer.(*bytesSerializer)
	if !raw.swap {
		return all
	}
	return appendRange(all, numberRange{buf, at, raw.chunk.Type.NumberWidth()})
}

func appendRange(all []numberRange, r numberRange) []numberRange {
	if len(all) > 0 {
		last := &all[len(all)-1]
		if last.buf == r.buf && last.width == r.width && last.at.Offset+last.at.Length == r.at.Offset {
			last.at.Length += r.at.Length
			return all
		}
	}
	return append(all, r)
}

// swapAll reverses the bytes of numbers.
func swapAll(all []numberRange) error {
	for _, r := range all {
		numbers, err := r.array(map[int64]ndview.DType{2: ndview.Uint16, 4: ndview.Uint32, 8: ndview.Uint64}[r.width])
		if err != nil {
			return err
		}
		err = numbers.ByteSwap()
		numbers.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// array returns the range as an array. The caller must release it.
func (r numberRange) array(t ndview.DType) (*ndview.NDBuffer, error) {
	return ndview.FromBuffer(r.buf, t, r.at.Offset, []int64{r.at.Length / r.width}, nil)
}

// findEmpty finds the chunks of fill values.
func (x *encoding) findEmpty() error {
	var check []*encodingChunk
	for _, c := range x.chunks {
		if !c.KeepEmpty {
			check = append(check, c)
		}
	}
	if len(check) == 0 {
		return nil
	}
	ranges, fills := make([]filledItem, len(check)), make([][]byte, len(check))
	for i, c := range check {
		ranges[i], fills[i] = filledItem{Offset: c.at.Offset, Size: c.at.Length}, c.Chain.encodedFill()
	}
	filled, err := findFilled(x.dev, check[0].buf, ranges, fills)
	if err != nil {
		return err
	}
	for i, c := range check {
		c.empty = filled[i]
	}
	return nil
}

// encodedFill returns the fill value as the array-to-bytes codec encodes it.
func (c *Chain) encodedFill() []byte {
	raw := c.serializer.(*bytesSerializer)
	if !raw.swap {
		return raw.chunk.Fill
	}
	swapped := make([]byte, len(raw.chunk.Fill))
	raw.chunk.Type.SwapBytes(swapped, raw.chunk.Fill)
	return swapped
}

// compress runs one of the bytes-to-bytes codecs of all chunks with more steps on the
// GPU. It reports whether there were any.
func (x *encoding) compress(step int) (any bool, err error) {
	groups := map[deviceEncoder][]*encodingChunk{}
	var size int64
	for _, c := range x.chunks {
		if c.empty || c.err != nil || c.steps <= step {
			continue
		}
		codec := c.Chain.compressors[step].(deviceEncoder)
		groups[codec] = append(groups[codec], c)
		size += alignBatch(codec.bound(c.at.Length))
	}
	if len(groups) == 0 {
		return false, nil
	}
	out, err := x.alloc(size)
	if err != nil {
		return false, err
	}
	var end int64
	for codec, chunks := range groups {
		b := compress.Batch{Src: chunks[0].buf, Dst: out}
		for _, c := range chunks {
			n := codec.bound(c.at.Length)
			b.In, b.Out = append(b.In, c.at), append(b.Out, compress.Range{Offset: end, Length: n})
			end += alignBatch(n)
		}
		results, onHost, err := codec.encodeBatch(b, x.options.Scratch)
		if err != nil {
			return false, err
		}
		for i, c := range chunks {
			if results[i].Err != nil {
				c.err = fmt.Errorf("codec %q: %w", codec.Name(), results[i].Err)
				continue
			}
			c.Stats.add(codec, engineOf(i, onHost), false, c.at.Length)
			c.buf, c.at = out, compress.Range{Offset: b.Out[i].Offset, Length: results[i].Length}
		}
	}
	x.releaseUnused()
	return true, nil
}

// releaseUnused releases the buffers that no chunk has bytes in.
func (x *encoding) releaseUnused() {
	used := map[arrowbuf.Buffer]bool{}
	for _, c := range x.chunks {
		used[c.buf] = used[c.buf] || !c.empty
	}
	kept := x.buffers[:0]
	for _, b := range x.buffers {
		if used[b] {
			kept = append(kept, b)
		} else {
			b.Release()
		}
	}
	x.buffers = kept
}

// copyToHost packs the bytes of all chunks into one buffer, and copies that.
func (x *encoding) copyToHost(e *Encoded, s *Scratch) error {
	var size int64
	moves := map[arrowbuf.Buffer]*compress.Batch{}
	var stay []*encodingChunk
	for _, c := range x.chunks {
		if c.empty || c.err != nil {
			continue
		}
		m := moves[c.buf]
		if m == nil {
			m = &compress.Batch{Src: c.buf}
			moves[c.buf] = m
		}
		to := compress.Range{Offset: size, Length: c.at.Length}
		m.In, m.Out = append(m.In, c.at), append(m.Out, to)
		c.at = to
		stay = append(stay, c)
		size += c.at.Length
	}
	if len(stay) == 0 {
		return nil
	}
	packed, err := x.alloc(size)
	if err != nil {
		return err
	}
	for _, m := range moves {
		m.Dst = packed
		if err := pack.Copy(*m); err != nil {
			return err
		}
	}
	sizes := make([]int64, len(stay))
	for i, c := range stay {
		sizes[i] = c.at.Length
	}
	slots, pieces, err := s.HostSlots(x.dev, sizes)
	if err != nil {
		return err
	}
	start, at := time.Now(), int64(0)
	for _, piece := range pieces {
		if _, err := packed.CopyToHost(piece, at); err != nil {
			return err
		}
		at += int64(len(piece))
	}
	if x.options.OnHostCopy != nil {
		x.options.OnHostCopy(size, time.Since(start))
	}
	for i, c := range stay {
		e.chunks[c.id] = slots[i]
	}
	return nil
}

// finishOnHost runs the codecs without kernels.
func (x *encoding) finishOnHost(e *Encoded) error {
	var rest []*encodingChunk
	for _, c := range x.chunks {
		e.errs[c.id] = c.err
		if !c.empty && c.err == nil && c.steps < len(c.Chain.compressors) {
			rest = append(rest, c)
		}
	}
	scratches := make([]*Scratch, len(rest))
	for i := range rest {
		scratches[i] = e.scratch(rest[i].EncodeItem, x.options)
	}
	forEach(len(rest), x.options.Jobs, func(i int) {
		c := rest[i]
		e.chunks[c.id], e.errs[c.id] = c.Chain.compress(scratches[i], e.chunks[c.id], c.steps)
	})
	return nil
}
