package codec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// deviceEncoder is a codec with kernels that encode.
type deviceEncoder interface {
	BytesCodec
	hasEncodeKernels() bool // with its configuration
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
	use     func(i int, encoded []byte, err error) error
	chunks  []*encodingChunk
	buffers []arrowbuf.Buffer // to release at the end
	pieces  *devicePieces     // nil for memory of the allocator
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
func encodeOn(dev *cudabuf.Device, items []EncodeItem, ids []int, o BatchOptions, use func(i int, encoded []byte, err error) error) (err error) {
	x := &encoding{dev: dev, options: o, use: use}
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
	packed, chunks, err := x.pack()
	if err != nil {
		return err
	}
	if x.options.OnEncoded != nil {
		x.options.OnEncoded()
	}
	for _, c := range x.chunks {
		if c.empty || c.err != nil {
			if err := x.use(c.id, nil, c.err); err != nil {
				return err
			}
		}
	}
	return x.finish(packed, chunks)
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
	if p := x.options.Pieces; p != nil && size >= manyPieces*encodedPiece {
		x.pieces = p.on(x.dev)
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
		c.Stats.add(countOf(c.Chain.serializes, OnDevice, false, c.at.Length))
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
func (x *encoding) compress(step int) (found bool, err error) {
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
		b := compress.Batch{Src: chunks[0].buf, Dst: out, In: make([]compress.Range, len(chunks)), Out: make([]compress.Range, len(chunks))}
		for i, c := range chunks {
			n := codec.bound(c.at.Length)
			b.In[i], b.Out[i] = c.at, compress.Range{Offset: end, Length: n}
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
			c.Stats.add(countOf(codec, engineOf(i, onHost), false, c.at.Length))
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

// pack puts the bytes of all chunks together into one buffer, in the order of the chunks
// that it returns, and releases the other buffers.
func (x *encoding) pack() (packed arrowbuf.Buffer, chunks []*encodingChunk, err error) {
	var size int64
	moves := map[arrowbuf.Buffer]*compress.Batch{}
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
		chunks = append(chunks, c)
		size += c.at.Length
	}
	if len(chunks) == 0 {
		return nil, nil, nil
	}
	if packed, err = x.alloc(size); err != nil {
		return nil, nil, err
	}
	for _, m := range moves {
		m.Dst = packed
		if err := pack.Copy(*m); err != nil {
			return nil, nil, err
		}
	}
	for _, c := range chunks {
		c.buf = packed
	}
	x.releaseUnused()
	return packed, chunks, nil
}

// finish copies the encodings to the host, runs the codecs without kernels, and calls use.
func (x *encoding) finish(packed arrowbuf.Buffer, chunks []*encodingChunk) error {
	group, failed := errgroup.WithContext(context.Background())
	group.SetLimit(piecesInFlight)
	for len(chunks) > 0 && failed.Err() == nil {
		n, size := 1, chunks[0].at.Length
		for n < len(chunks) && size+chunks[n].at.Length <= encodedPiece {
			size += chunks[n].at.Length
			n++
		}
		host, release, err := x.hostMemory(size)
		if err == nil {
			if err = x.copyPiece(host, packed, chunks[0].at.Offset); err != nil {
				release()
			}
		}
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		piece := chunks[:n]
		chunks = chunks[n:]
		group.Go(func() error {
			defer release()
			return forEach(len(piece), x.options.Jobs, x.options.Running, func(i int) error {
				c := piece[i]
				from := c.at.Offset - piece[0].at.Offset
				return x.finishChunk(c, host[from:][:c.at.Length:c.at.Length])
			})
		})
	}
	return group.Wait()
}

// hostMemory returns n bytes of pinned memory.
func (x *encoding) hostMemory(n int64) (host []byte, release func(), err error) {
	if p := x.pieces; p != nil && n <= encodedPiece {
		piece, err := p.get()
		if err != nil {
			return nil, nil, err
		}
		return piece[:n], func() { p.free <- piece }, nil
	}
	size := max(n, encodedPiece)
	if n < encodedPiece/8 {
		size = n
	}
	s := GetScratch()
	if host, err = s.HostBytes(x.dev, size); err != nil {
		s.Release()
		return nil, nil, err
	}
	return host[:n], s.Release, nil
}

// copyPiece copies bytes of the device to pinned memory.
func (x *encoding) copyPiece(host []byte, packed arrowbuf.Buffer, at int64) error {
	start := time.Now()
	if _, err := packed.CopyToHost(host, at); err != nil {
		return err
	}
	if x.options.OnHostCopy != nil {
		x.options.OnHostCopy(int64(len(host)), time.Since(start))
	}
	return nil
}

// finishChunk runs the codecs without kernels, and calls use.
func (x *encoding) finishChunk(c *encodingChunk, encoded []byte) error {
	if c.steps == len(c.Chain.compressors) {
		return x.use(c.id, encoded, nil)
	}
	s := GetScratch()
	defer s.Release()
	s.Stats = c.Stats
	encoded, err := c.Chain.compress(s, encoded, c.steps)
	return x.use(c.id, encoded, err)
}
