package blosc

import (
	"encoding/binary"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// encoding is the encoding of a batch on a GPU.
type encoding struct {
	dev      *cudabuf.Device
	batch    compress.Batch
	options  EncodeOptions
	outcomes []batch.Outcome
}

func encodeCUDA(dev *cudabuf.Device, b compress.Batch, o EncodeOptions) ([]batch.Outcome, error) {
	e := &encoding{dev: dev, batch: b, options: o, outcomes: make([]batch.Outcome, len(b.In))}
	inputs := make([]int, 0, len(b.In))
	for i, in := range b.In {
		if in.Length > MaxSize {
			e.outcomes[i].Status = batch.Unsupported
		} else {
			inputs = append(inputs, i)
		}
	}
	if o.Compressor != LZ4 && o.Compressor != Zstd && o.Level > 0 {
		if err := runOnHost(dev, b, inputs, e.outcomes, o.encodeInto); err != nil {
			return nil, err
		}
		batch.OnHost(o.Stats, len(inputs))
		return e.outcomes, nil
	}
	// Shuffled, encoded with the encoder's bound, and headers. The rest of the memory is for the
	// encoder of the parts, which takes a step in one: few large steps use the GPU better.
	need := func(i int) int64 { return 3 * b.In[inputs[i]].Length }
	limit := batch.Limit(o.Scratch)
	own := limit * 3 / 5
	if o.Compressor == Zstd {
		own = limit * 2 / 5
	}
	if err := batch.InSteps(len(inputs), own, need, func(first, end int) error { return e.encode(inputs[first:end], limit-own) }); err != nil {
		return nil, err
	}
	return e.outcomes, nil
}

// encodeParts encodes a batch of parts.
func (e *encoding) encodeParts(b compress.Batch, limit int64) ([]compress.Result, error) {
	if e.options.Compressor == LZ4 {
		return lz4.Encode(b, lz4.EncodeOptions{Acceleration: 10 - e.options.Level, Scratch: limit})
	}
	return zstd.Encode(b, zstd.EncodeOptions{Level: ZstdLevel(e.options.Level), Scratch: limit})
}

func (e *encoding) bound(n int64) int64 {
	if e.options.Compressor == LZ4 {
		return lz4.Bound(n)
	}
	return zstd.Bound(n)
}

// encode encodes some inputs.
func (e *encoding) encode(inputs []int, limit int64) error {
	parts, err := e.shuffleBlocks(inputs)
	if err != nil {
		return err
	}
	defer parts.src.Release()
	size := int64(0)
	for i := range parts.in {
		parts.out = append(parts.out, compress.Range{Offset: size, Length: e.bound(parts.in[i].Length)})
		size += (parts.out[i].Length + 15) &^ 15 // encoders write aligned words faster
	}
	encoded, err := e.dev.NewBuffer(size)
	if err != nil {
		return err
	}
	defer encoded.Release()
	var results []compress.Result
	if len(parts.in) > 0 {
		if results, err = e.encodeParts(parts.batch(encoded, parts.src), limit); err != nil {
			return err
		}
	}
	return e.assemble(inputs, parts, encoded, results)
}

// partSources are the parts of some inputs in the order of their blocks, and the buffer in
// which they are.
type partSources struct {
	jobs
	src arrowbuf.Buffer
}

// header returns the header of the chunk of n bytes, or false if it is stored.
func (o Options) header(n int64) (*header, bool) {
	h := &header{flags: o.flags(), typeSize: o.TypeSize, size: n, blockSize: max(o.blockSize(int(n)), 1)}
	return h, o.Level > 0 && n >= minSplitSize
}

// shuffleBlocks shuffles the blocks of some inputs, and returns their parts. The caller
// must release the buffer.
func (e *encoding) shuffleBlocks(inputs []int) (*partSources, error) {
	p := &partSources{src: e.batch.Src}
	var shuffles jobs
	var mode Shuffle
	size := int64(0)
	for _, input := range inputs {
		in := e.batch.In[input]
		h, encoded := e.options.header(in.Length)
		if !encoded {
			continue
		}
		at := in.Offset
		if mode = h.shuffle(); mode != NoShuffle {
			at = size
			size += h.size
		}
		for b := range h.blocks() {
			r := h.block(b)
			if mode != NoShuffle {
				shuffles.add(compress.Range{Offset: in.Offset + r.Offset, Length: r.Length}, compress.Range{Offset: at + r.Offset, Length: r.Length}, input)
			}
			n := splits(h.flags, h.typeSize, h.blockSize, r.Length != int64(h.blockSize))
			each := r.Length / int64(n)
			for k := range int64(n) {
				p.in = append(p.in, compress.Range{Offset: at + r.Offset + k*each, Length: each})
				p.owner = append(p.owner, input)
			}
		}
	}
	if size == 0 {
		p.src.Retain()
		return p, nil
	}
	memory, err := e.dev.NewBuffer(size)
	if err != nil {
		return nil, err
	}
	p.src = memory
	err = shuffle.Apply(shuffles.batch(memory, e.batch.Src), shuffle.Transform{Size: e.options.TypeSize, Bits: mode == BitShuffle})
	if err != nil {
		memory.Release()
		return nil, err
	}
	return p, nil
}

// assemble writes chunks from their encoded parts. A part that does not become smaller is
// stored, and so is a chunk.
func (e *encoding) assemble(inputs []int, parts *partSources, encoded arrowbuf.Buffer, results []compress.Result) error {
	var meta []byte // headers, starts of blocks and sizes of parts
	var metas, stored, coded, raw jobs
	next := 0
	for _, input := range inputs {
		in, out := e.batch.In[input], e.batch.Out[input]
		h, encode := e.options.header(in.Length)
		first := next
		blocks := 0
		total := int64(headerSize)
		if encode {
			blocks = h.blocks()
			total += 4 * int64(blocks)
		}
		starts := make([]uint32, 0, blocks)
		for b := range blocks {
			starts = append(starts, uint32(total))
			for range splits(h.flags, h.typeSize, h.blockSize, h.block(b).Length != int64(h.blockSize)) {
				total += 4 + e.partSize(parts, results, next)
				next++
			}
		}
		if !encode || total >= in.Length+headerSize {
			encode, blocks, total = false, 0, in.Length+headerSize
			h.flags |= flagMemcpy
		}
		if total > out.Length {
			e.outcomes[input].Status = batch.TooLarge
			continue
		}
		e.outcomes[input].Size = total
		at := int64(len(meta))
		meta = append(meta, make([]byte, headerSize)...)
		e.options.putHeader(meta[at:], h.flags, int(in.Length), h.blockSize)
		binary.LittleEndian.PutUint32(meta[at+12:], uint32(total))
		for _, s := range starts[:blocks] {
			meta = binary.LittleEndian.AppendUint32(meta, s)
		}
		n := int64(len(meta)) - at
		metas.add(compress.Range{Offset: at, Length: n}, compress.Range{Offset: out.Offset, Length: n}, input)
		if !encode {
			raw.add(in, compress.Range{Offset: out.Offset + n, Length: in.Length}, input)
			continue
		}
		to := out.Offset + n
		for i := first; i < next; i++ {
			size := e.partSize(parts, results, i)
			metas.add(compress.Range{Offset: int64(len(meta)), Length: 4}, compress.Range{Offset: to, Length: 4}, input)
			meta = binary.LittleEndian.AppendUint32(meta, uint32(size))
			to += 4
			r := compress.Range{Offset: to, Length: size}
			if size == parts.in[i].Length {
				stored.add(parts.in[i], r, input)
			} else {
				coded.add(compress.Range{Offset: parts.out[i].Offset, Length: size}, r, input)
			}
			to += size
		}
	}
	memory, err := batch.Upload(e.dev, meta)
	if err != nil {
		return err
	}
	defer memory.Release()
	for _, c := range []struct {
		jobs *jobs
		src  arrowbuf.Buffer
	}{{&metas, memory}, {&stored, parts.src}, {&coded, encoded}, {&raw, e.batch.Src}} {
		if err := pack.Copy(c.jobs.batch(e.batch.Dst, c.src)); err != nil {
			return err
		}
	}
	return nil
}

// partSize returns the size of a part in its chunk.
func (e *encoding) partSize(parts *partSources, results []compress.Result, i int) int64 {
	if r := results[i]; r.Err == nil && r.Length < parts.in[i].Length {
		return r.Length
	}
	return parts.in[i].Length
}
