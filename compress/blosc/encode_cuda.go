package blosc

import (
	"encoding/binary"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The structs of blosc.cu that encoding uses.
type (
	// sourceChunk is the struct SourceChunk.
	sourceChunk struct {
		src, size, dst, room    int64
		partsAt, firstPart      int64
		blocks, parts, lastPart int32
		blockSize, head, _      uint32
	}
	// placedPart is the struct PlacedPart.
	placedPart struct {
		from, to     int64
		size, source uint32
	}
)

const (
	packThreads = 128
	packBytes   = 32 << 10 // of a part that a block of threads copies, about

	// The values of Source.
	fromEncoded = 0
	fromParts   = 1
	fromInput   = 2
)

// encoding is the encoding of a batch on a GPU.
type encoding struct {
	dev      *cudabuf.Device
	batch    compress.Batch
	options  EncodeOptions
	encoder  batch.Encoder // of the parts
	outcomes []batch.Outcome
}

func encodeCUDA(dev *cudabuf.Device, b compress.Batch, o EncodeOptions) ([]batch.Outcome, error) {
	e := &encoding{dev: dev, batch: b, options: o, encoder: batch.Zstd, outcomes: make([]batch.Outcome, len(b.In))}
	if o.Compressor == LZ4 {
		e.encoder = batch.LZ4
	}
	var stored []int
	inputs := make([]int, 0, len(b.In))
	for i, in := range b.In {
		switch {
		case in.Length > MaxSize:
			e.outcomes[i].Status = batch.Unsupported
		case o.Level == 0 || in.Length < minSplitSize && (o.Compressor == LZ4 || o.Compressor == Zstd):
			stored = append(stored, i)
		default:
			inputs = append(inputs, i)
		}
	}
	if err := e.store(stored); err != nil {
		return nil, err
	}
	if o.Compressor != LZ4 && o.Compressor != Zstd {
		if err := runOnHost(dev, b, inputs, batch.Limit(dev, o.Scratch), e.outcomes, o.encodeInto); err != nil {
			return nil, err
		}
		batch.OnHost(o.Stats, len(inputs))
		return e.outcomes, nil
	}
	need := func(i int) int64 { return e.need(b.In[inputs[i]].Length) }
	return e.outcomes, batch.Overlap(dev, len(inputs), batch.Limit(dev, o.Scratch), need, func(w *batch.Work, first, end int) (func() error, error) {
		return e.enqueue(w, inputs[first:end])
	})
}

// store stores some inputs.
func (e *encoding) store(inputs []int) error {
	var heads, all jobs
	memory := make([]byte, headerSize*len(inputs))
	for k, input := range inputs {
		in, out := e.batch.In[input], e.batch.Out[input]
		total := headerSize + in.Length
		if total > out.Length {
			e.outcomes[input].Status = batch.TooLarge
			continue
		}
		e.outcomes[input].Size = total
		head := memory[headerSize*k:]
		e.options.putHeader(head, e.options.flags()|flagMemcpy, int(in.Length), max(e.options.blockSize(int(in.Length)), 1))
		binary.LittleEndian.PutUint32(head[12:], uint32(total))
		heads.add(compress.Range{Offset: int64(headerSize * k), Length: headerSize}, compress.Range{Offset: out.Offset, Length: headerSize}, input)
		all.add(in, compress.Range{Offset: out.Offset + headerSize, Length: in.Length}, input)
	}
	if len(heads.in) == 0 {
		return nil
	}
	onGPU, err := batch.Upload(e.dev, memory)
	if err != nil {
		return err
	}
	defer onGPU.Release()
	if err := pack.Copy(heads.batch(e.batch.Dst, onGPU)); err != nil {
		return err
	}
	return pack.Copy(all.batch(e.batch.Dst, e.batch.Src))
}

// header returns the header of the chunk of n bytes.
func (o Options) header(n int64) header {
	return header{flags: o.flags(), typeSize: o.TypeSize, size: n, blockSize: o.blockSize(int(n))}
}

// need returns the number of bytes of the GPU's memory that an input of n bytes needs.
func (e *encoding) need(n int64) int64 {
	h := e.options.header(n)
	of := func(part int64) int64 {
		return e.room(part) + e.encoder.Need(part) + int64(unsafe.Sizeof(batch.Item{})+unsafe.Sizeof(batch.Outcome{})+unsafe.Sizeof(placedPart{}))
	}
	blocks, parts := h.layout()
	last := h.block(blocks - 1).Length
	bytes := int64(blocks-1)*int64(parts)*of(int64(h.blockSize)/int64(parts)) + of(last)
	if last == int64(h.blockSize) {
		bytes += int64(parts)*of(last/int64(parts)) - of(last)
	}
	if h.shuffle() != NoShuffle {
		bytes += n
	}
	return bytes
}

// layout returns the number of blocks, and the number of parts of each whole one.
func (h *header) layout() (blocks, parts int) {
	return h.blocks(), splits(h.flags, h.typeSize, h.blockSize, false)
}

// room returns the number of bytes for the encoding of n bytes. Encoders write aligned words
// faster.
func (e *encoding) room(n int64) int64 { return (e.encoder.Bound(n) + 15) &^ 15 }

// encodingPlan divides some inputs into parts.
type encodingPlan struct {
	chunks   []sourceChunk
	items    []batch.Item // the parts in the order of their blocks
	shuffles jobs         // of blocks, to where the parts are
	shuffled int64        // bytes
	encoded  int64        // bytes
}

func (e *encoding) plan(inputs []int) *encodingPlan {
	var blocks, parts int
	for _, input := range inputs {
		h := e.options.header(e.batch.In[input].Length)
		n, each := h.layout()
		blocks, parts = blocks+n, parts+n*each
	}
	first := e.options.header(minSplitSize)
	shuffled := first.shuffle() != NoShuffle
	p := &encodingPlan{chunks: make([]sourceChunk, 0, len(inputs)), items: make([]batch.Item, 0, parts)}
	if shuffled {
		p.shuffles = jobs{in: make([]compress.Range, 0, blocks), out: make([]compress.Range, 0, blocks)}
	}
	for _, input := range inputs {
		in, out := e.batch.In[input], e.batch.Out[input]
		h := e.options.header(in.Length)
		n, each := h.layout()
		at := in.Offset
		if shuffled {
			at = p.shuffled
			p.shuffled += in.Length
		}
		c := sourceChunk{src: in.Offset, size: in.Length, dst: out.Offset, room: out.Length, partsAt: at, firstPart: int64(len(p.items)),
			blocks: int32(n), parts: int32(each), lastPart: int32(each), blockSize: uint32(h.blockSize),
			head: 2 | 1<<8 | uint32(h.flags)<<16 | uint32(h.typeSize)<<24}
		for b := range n {
			r := h.block(b)
			if shuffled {
				p.shuffles.in = append(p.shuffles.in, compress.Range{Offset: in.Offset + r.Offset, Length: r.Length})
				p.shuffles.out = append(p.shuffles.out, compress.Range{Offset: at + r.Offset, Length: r.Length})
			}
			count := each
			if r.Length != int64(h.blockSize) {
				count, c.lastPart = 1, 1
			}
			size := r.Length / int64(count)
			room := e.room(size)
			for k := range int64(count) {
				p.items = append(p.items, batch.Item{Src: at + r.Offset + k*size, SrcSize: size, Dst: p.encoded, DstSize: room})
				p.encoded += room
			}
		}
		p.chunks = append(p.chunks, c)
	}
	return p
}

// enqueue launches the kernels that encode some inputs. fetch waits for them.
func (e *encoding) enqueue(w *batch.Work, inputs []int) (fetch func() error, err error) {
	p := e.plan(inputs)
	src := e.batch.Src
	if len(p.shuffles.in) > 0 {
		memory, err := e.dev.NewBuffer(p.shuffled)
		if err != nil {
			return nil, err
		}
		defer memory.Release()
		src = memory
		err = shuffle.Apply(p.shuffles.batch(memory, e.batch.Src), shuffle.Transform{Size: e.options.TypeSize, Bits: e.options.Shuffle == BitShuffle})
		if err != nil {
			return nil, err
		}
	}
	n, parts := int64(len(p.chunks)), int64(len(p.items))
	memory, chunks := w.Buffer(p.encoded), launch.In(batch.Put(w, p.chunks), 0)
	items, encoded := e.encoder.Enqueue(w, memory, src, p.items, ZstdLevel(e.options.Level))
	placed := w.Buffer(parts * int64(unsafe.Sizeof(placedPart{})))
	results := w.Buffer(n * int64(unsafe.Sizeof(batch.Outcome{})))
	dst := launch.InOut(e.batch.Dst, 0)
	w.Launch(program, "quiver_blosc_place", (n*warp+threads-1)/threads, threads, dst, chunks, launch.In(items, 0), launch.In(encoded, 0), launch.InOut(placed, 0), launch.InOut(results, 0), n)
	each := max(1, p.encoded/parts/packBytes)
	w.Launch(program, "quiver_blosc_pack", parts*each, packThreads, dst, launch.In(e.batch.Src, 0), launch.In(src, 0), launch.In(memory, 0), launch.In(placed, 0), each)
	return func() error {
		outcomes := make([]batch.Outcome, n)
		if err := w.Fetch(results, outcomes); err != nil {
			return err
		}
		for i, input := range inputs {
			e.outcomes[input] = outcomes[i]
		}
		return nil
	}, nil
}

// placeHostKernel is the host implementation of quiver_blosc_place.
func placeHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(6)
	chunks, outcomes := launch.Structs[sourceChunk](l, 1, n), launch.Structs[batch.Outcome](l, 5, n)
	var parts int64
	for _, c := range chunks {
		parts = max(parts, c.firstPart+c.count())
	}
	items, encoded, placed := launch.Structs[batch.Item](l, 2, parts), launch.Structs[batch.Outcome](l, 3, parts), launch.Structs[placedPart](l, 4, parts)
	for i, c := range chunks {
		end := c.firstPart + c.count()
		dst := l.Memory(l.Pointer(0)+uintptr(c.dst), c.room)
		outcomes[i] = c.place(dst, items[c.firstPart:end], encoded[c.firstPart:end], placed[c.firstPart:end])
	}
}

// count returns the number of parts.
func (c *sourceChunk) count() int64 { return int64(c.blocks-1)*int64(c.parts) + int64(c.lastPart) }

// place finds out where the parts of the chunk go, and writes what is not in parts. A part or
// a chunk that does not become smaller is stored.
func (c *sourceChunk) place(dst []byte, items []batch.Item, encoded []batch.Outcome, placed []placedPart) batch.Outcome {
	size := func(k int) int64 {
		if e := encoded[k]; e.Status == batch.OK && e.Size < items[k].SrcSize {
			return e.Size
		}
		return items[k].SrcSize
	}
	head, total := c.head, headerSize+4*int64(c.blocks)
	at := total
	for k := range items {
		total += 4 + size(k)
	}
	stored := total >= headerSize+c.size
	if stored {
		head, total = head|flagMemcpy<<16, headerSize+c.size
	}
	if total > c.room {
		clear(placed)
		return batch.Outcome{Status: batch.TooLarge}
	}
	for i, v := range []uint32{head, uint32(c.size), c.blockSize, uint32(total)} {
		binary.LittleEndian.PutUint32(dst[4*i:], v)
	}
	for k, it := range items {
		if stored {
			offset := it.Src - c.partsAt
			placed[k] = placedPart{c.src + offset, c.dst + headerSize + offset, uint32(it.SrcSize), fromInput}
			continue
		}
		if k%int(c.parts) == 0 {
			binary.LittleEndian.PutUint32(dst[headerSize+4*(k/int(c.parts)):], uint32(at))
		}
		n := size(k)
		binary.LittleEndian.PutUint32(dst[at:], uint32(n))
		at += 4
		placed[k] = placedPart{it.Src, c.dst + at, uint32(n), fromParts}
		if n < it.SrcSize {
			placed[k].from, placed[k].source = it.Dst, fromEncoded
		}
		at += n
	}
	return batch.Outcome{Size: total}
}

// packHostKernel is the host implementation of quiver_blosc_pack.
func packHostKernel(l *cudabuf.HostLaunch) {
	placed := launch.Structs[placedPart](l, 4, int64(l.Grid.X)/l.Int64(5))
	batch.ForEach(int64(len(placed)), func(i int64) {
		p := placed[i]
		from := l.Pointer(map[uint32]int{fromInput: 1, fromParts: 2, fromEncoded: 3}[p.source])
		copy(l.Memory(l.Pointer(0)+uintptr(p.to), int64(p.size)), l.Memory(from+uintptr(p.from), int64(p.size)))
	})
}
