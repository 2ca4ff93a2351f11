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
	// Shuffled, encoded with the encoder's bound, twice for samples, and headers. The rest of the
	// memory is for the encoder of the parts, which then takes a step in one.
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

// encode encodes some inputs.
func (e *encoding) encode(inputs []int, limit int64) error {
	parts, err := e.shuffleBlocks(inputs)
	if err != nil {
		return err
	}
	defer parts.src.Release()
	p := &partEncoding{partSources: parts, limit: limit}
	if e.options.Compressor == LZ4 {
		parts.out = p.room(parts.in, lz4.Bound)
	} else {
		parts.out = p.room(parts.in, zstd.Bound)
		p.choose(ZstdLevel(e.options.Level))
	}
	if p.encoded, err = e.dev.NewBuffer(p.size); err != nil {
		return err
	}
	defer p.encoded.Release()
	if e.options.Compressor == LZ4 {
		p.results, err = lz4.Encode(parts.batch(p.encoded, parts.src), lz4.EncodeOptions{Acceleration: 10 - e.options.Level, Scratch: limit})
	} else {
		err = p.zstd()
	}
	if err != nil {
		return err
	}
	return e.assemble(inputs, parts, p.encoded, p.results)
}

// partEncoding is the encoding of the parts of some inputs.
type partEncoding struct {
	*partSources
	limit   int64
	encoded *cudabuf.Buffer
	size    int64 // of encoded, in bytes
	results []compress.Result

	level      int   // of Zstandard: the high one
	fast, high []int // numbers of parts that are encoded at level 1, and at the high level
	samples    []zstdSample
}

// zstdSample is a part that is encoded at both levels. The parts after it up to end take the
// level that is better for it.
type zstdSample struct {
	part, end int
	out       compress.Range // at the high level
}

// room returns a range of the encoded bytes for each of some parts.
func (p *partEncoding) room(parts []compress.Range, bound func(int64) int64) []compress.Range {
	out := make([]compress.Range, len(parts))
	for i, r := range parts {
		out[i] = compress.Range{Offset: p.size, Length: bound(r.Length)}
		p.size += (out[i].Length + 15) &^ 15 // encoders write aligned words faster
	}
	return out
}

// choose chooses the samples by the rule of encoder.compressZstd, and the levels of parts
// that do not depend on one.
func (p *partEncoding) choose(high int) {
	p.level = high
	for first, end := 0, 0; first < len(p.in); first = end {
		for end = first + 1; end < len(p.in) && p.owner[end] == p.owner[first]; {
			end++
		}
		switch {
		case high == 1:
			for i := first; i < end; i++ {
				p.fast = append(p.fast, i)
			}
		case end == first+1:
			p.high = append(p.high, first)
		default:
			for i := first; i < end-1; i += zstdCompareEvery {
				p.samples = append(p.samples, zstdSample{i, min(i+zstdCompareEvery, end), p.room(p.in[i:i+1], zstd.Bound)[0]})
			}
			p.samples[len(p.samples)-1].end = end
		}
	}
}

// zstd encodes samples at both levels, and then the other parts at the better one.
func (p *partEncoding) zstd() error {
	p.results = make([]compress.Result, len(p.in))
	var b compress.Batch
	parts := make([]int, len(p.samples))
	for k, s := range p.samples {
		parts[k] = s.part
		b.In, b.Out = append(b.In, p.in[s.part]), append(b.Out, s.out)
	}
	if err := p.encodeAt(1, parts); err != nil {
		return err
	}
	results, err := p.encodeBatch(p.level, b)
	if err != nil {
		return err
	}
	for k, s := range p.samples {
		fast, high := p.results[s.part], results[k]
		if high.Length < fast.Length {
			p.results[s.part], p.out[s.part] = high, s.out
		}
		better := &p.fast
		if fast.Length*100 > high.Length*101 {
			better = &p.high
		}
		for i := s.part + 1; i < s.end; i++ {
			*better = append(*better, i)
		}
	}
	if err := p.encodeAt(1, p.fast); err != nil {
		return err
	}
	return p.encodeAt(p.level, p.high)
}

// encodeAt encodes some parts at a level of Zstandard.
func (p *partEncoding) encodeAt(level int, parts []int) error {
	var b compress.Batch
	for _, i := range parts {
		b.In, b.Out = append(b.In, p.in[i]), append(b.Out, p.out[i])
	}
	results, err := p.encodeBatch(level, b)
	if err != nil {
		return err
	}
	for k, i := range parts {
		p.results[i] = results[k]
	}
	return nil
}

func (p *partEncoding) encodeBatch(level int, b compress.Batch) ([]compress.Result, error) {
	if len(b.In) == 0 {
		return nil, nil
	}
	b.Src, b.Dst = p.src, p.encoded
	results, err := zstd.Encode(b, zstd.EncodeOptions{Level: level, Scratch: p.limit})
	for i := 0; i < len(results) && err == nil; i++ {
		err = results[i].Err // there is room for the encoder's bound
	}
	return results, err
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
