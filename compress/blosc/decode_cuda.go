package blosc

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// minDeviceBlock is the size in bytes of the smallest block that is decoded on a GPU, if a
// chunk has several. The descriptions of smaller ones would be larger than themselves.
const minDeviceBlock = 256

// chunk is the struct Chunk of kernels/compress/blosc.cu.
type chunk struct {
	src, size                   int64
	firstBlock, firstPart       int64
	blocks, parts, lastParts, _ int32
}

// part is the struct Part of blosc.cu.
type part struct {
	src    int64
	size   uint32
	status batch.Status
}

const (
	threads = 256
	warp    = 32
)

var program = launch.Program("compress/blosc", map[string]cudabuf.HostKernel{
	"quiver_blosc_parts": partsHostKernel, "quiver_blosc_place": placeHostKernel, "quiver_blosc_pack": packHostKernel,
})

// partsHostKernel is the host implementation of the kernel.
func partsHostKernel(l *cudabuf.HostLaunch) {
	for _, c := range launch.Structs[chunk](l, 1, l.Int64(2)) {
		end := c.firstPart + int64(c.blocks-1)*int64(c.parts) + int64(c.lastParts)
		c.findParts(l.Memory(l.Pointer(0)+uintptr(c.src), c.size), launch.Structs[part](l, 3, end)[c.firstPart:])
	}
}

// findParts finds the parts of one chunk.
func (c chunk) findParts(src []byte, parts []part) {
	for b := range int64(c.blocks) {
		n := c.parts
		if b == int64(c.blocks)-1 {
			n = c.lastParts
		}
		at, status := int64(binary.LittleEndian.Uint32(src[headerSize+4*b:])), batch.OK
		for k := range n {
			p := part{src: c.src}
			if at > c.size-4 {
				status = batch.Truncated
			}
			if status == batch.OK {
				size := binary.LittleEndian.Uint32(src[at:])
				at += 4
				if int64(size) > c.size-at {
					status = batch.Truncated
				} else {
					p = part{src: c.src + at, size: size}
					at += int64(size)
				}
			}
			p.status = status
			parts[b*int64(c.parts)+int64(k)] = p
		}
	}
}

// decoding is the decoding of a batch on a GPU.
type decoding struct {
	dev      *cudabuf.Device
	batch    compress.Batch
	headers  []header // of the inputs that kernels decode
	outcomes []batch.Outcome
}

// decodeCUDA decodes parts of a large batch at the same time: the host prepares some while the
// GPU decodes others.
func decodeCUDA(dev *cudabuf.Device, b compress.Batch, o compress.DecodeOptions) ([]batch.Outcome, error) {
	outcomes := make([]batch.Outcome, len(b.In))
	var onHost atomic.Int64
	err := batch.InParallel(len(b.In), func(i int) int64 { return b.Out[i].Length }, func(first, end, parts int) error {
		part := compress.Batch{Src: b.Src, In: b.In[first:end], Dst: b.Dst, Out: b.Out[first:end]}
		d := &decoding{dev: dev, batch: part, headers: make([]header, len(part.In)), outcomes: outcomes[first:end]}
		n, err := d.run(batch.Limit(dev, o.Scratch) / int64(parts))
		onHost.Add(int64(n))
		return err
	})
	batch.OnHost(o.Stats, int(onHost.Load()))
	return outcomes, err
}

// run decodes a batch with a limit of scratch memory. It returns the number of inputs that
// the host decoded.
func (d *decoding) run(limit int64) (hosts int, err error) {
	b := d.batch
	var stored jobs
	var onHost []int
	onDevice := make([]int, 0, len(b.In))
	heads, err := d.readHeaders()
	if err != nil {
		return 0, err
	}
	for i, in := range b.In {
		h, err := parseHeader(heads[i], in.Length)
		switch {
		case err != nil:
			d.outcomes[i].Status = batch.StatusOf(err)
		case h.size > b.Out[i].Length:
			d.outcomes[i].Status = batch.TooLarge
		case h.size == 0 || h.stored():
			d.outcomes[i].Size = h.size
			stored.add(compress.Range{Offset: in.Offset + headerSize, Length: h.size}, b.Out[i], i)
		case h.blocks() > 1 && h.blockSize < minDeviceBlock, h.format() != formatLZ4 && h.format() != formatZstd:
			onHost = append(onHost, i)
		case h.blockSize%splits(h.flags, h.typeSize, h.blockSize, false) != 0:
			d.outcomes[i].Status = batch.Corrupt
		default:
			d.outcomes[i].Size = h.size
			d.headers[i] = h
			onDevice = append(onDevice, i)
		}
	}
	if err := pack.Copy(stored.batch(b.Dst, b.Src)); err != nil {
		return 0, err
	}
	need := func(i int) int64 { return d.headers[onDevice[i]].size }
	half := limit / 2
	if err := batch.InSteps(len(onDevice), half, need, func(first, end int) error { return d.decode(onDevice[first:end], half) }); err != nil {
		return 0, err
	}
	if err := runOnHost(d.dev, b, onHost, limit, d.outcomes, decodeInto); err != nil {
		return 0, err
	}
	return len(onHost), nil
}

// readHeaders returns the first bytes of each input: a header, or fewer.
func (d *decoding) readHeaders() ([][]byte, error) {
	heads := make([][]byte, len(d.batch.In))
	copies := newJobs(len(heads))
	for i, in := range d.batch.In {
		n := min(in.Length, headerSize)
		copies.add(compress.Range{Offset: in.Offset, Length: n}, compress.Range{Offset: headerSize * int64(i), Length: n}, i)
	}
	all, err := d.dev.NewBuffer(headerSize * int64(len(heads)))
	if err != nil {
		return nil, err
	}
	defer all.Release()
	if err := pack.Copy(copies.batch(all, d.batch.Src)); err != nil {
		return nil, err
	}
	bytes := make([]byte, all.Len())
	if _, err := all.CopyToHost(bytes, 0); err != nil {
		return nil, err
	}
	for i, out := range copies.out {
		heads[i] = bytes[out.Offset : out.Offset+out.Length]
	}
	return heads, nil
}

// findParts returns the parts of some inputs in order.
func (d *decoding) findParts(inputs []int) (_ []part, err error) {
	chunks := make([]chunk, len(inputs))
	var blocks, count int64
	for i, input := range inputs {
		h, in := &d.headers[input], d.batch.In[input]
		n := h.blocks()
		c := chunk{src: in.Offset, size: in.Length, firstBlock: blocks, firstPart: count, blocks: int32(n),
			parts:     int32(splits(h.flags, h.typeSize, h.blockSize, false)),
			lastParts: int32(splits(h.flags, h.typeSize, h.blockSize, h.size%int64(h.blockSize) != 0))}
		blocks += int64(n)
		count += int64(n-1)*int64(c.parts) + int64(c.lastParts)
		chunks[i] = c
	}
	parts := make([]part, count)
	memory, err := batch.Upload(d.dev, chunks)
	if err != nil {
		return nil, err
	}
	defer memory.Release()
	found, err := d.dev.NewBuffer(int64(len(batch.Bytes(parts))))
	if err != nil {
		return nil, err
	}
	defer found.Release()
	s, err := d.dev.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = launch.OnStream(s, program, "quiver_blosc_parts", (blocks+threads-1)/threads, threads,
		launch.In(d.batch.Src, 0), launch.In(memory, 0), int64(len(chunks)), launch.InOut(found, 0), blocks)
	if err != nil {
		return nil, err
	}
	_, err = found.CopyToHost(batch.Bytes(parts), 0)
	return parts, err
}

// partJobs are the parts that are written to one buffer, by how.
type partJobs struct{ stored, lz4, zstd jobs }

// decode decodes some inputs.
func (d *decoding) decode(inputs []int, limit int64) error {
	parts, err := d.findParts(inputs)
	if err != nil {
		return err
	}
	var direct, shuffled partJobs // to the outputs, and to memory from which they are unshuffled
	unshuffles := map[shuffle.Transform]*jobs{}
	size := int64(0) // of that memory
	for _, input := range inputs {
		h := &d.headers[input]
		to, at := &direct, d.batch.Out[input].Offset
		var unshuffle *jobs
		if mode := h.shuffle(); mode != NoShuffle {
			to, at = &shuffled, size
			size += h.size
			key := shuffle.Transform{Size: h.typeSize, Bits: mode == BitShuffle, Inverse: true}
			if unshuffle = unshuffles[key]; unshuffle == nil {
				unshuffle = &jobs{}
				if len(unshuffles) == 0 { // others are rare
					unshuffle = newJobs(len(parts))
				}
				unshuffles[key] = unshuffle
			}
		}
		coded := &to.zstd
		if h.format() == formatLZ4 {
			coded = &to.lz4
		}
		if coded.in == nil {
			*coded = *newJobs(len(parts))
		}
		for b := range h.blocks() {
			r := h.block(b)
			if unshuffle != nil {
				out := d.batch.Out[input].Offset + r.Offset
				unshuffle.add(compress.Range{Offset: at + r.Offset, Length: r.Length}, compress.Range{Offset: out, Length: r.Length}, input)
			}
			n := splits(h.flags, h.typeSize, h.blockSize, r.Length != int64(h.blockSize))
			each := r.Length / int64(n)
			for k, p := range parts[:n] {
				in, out := compress.Range{Offset: p.src, Length: int64(p.size)}, compress.Range{Offset: at + r.Offset + int64(k)*each, Length: each}
				switch {
				case p.status != batch.OK:
					d.fail(input, p.status)
				case in.Length == each:
					to.stored.add(in, out, input)
				default:
					coded.add(in, out, input)
				}
			}
			parts = parts[n:]
		}
	}
	if err := d.decodeParts(&direct, d.batch.Dst, limit); err != nil || size == 0 {
		return err
	}
	memory, err := d.dev.NewBuffer(size)
	if err != nil {
		return err
	}
	defer memory.Release()
	if err := d.decodeParts(&shuffled, memory, limit); err != nil {
		return err
	}
	for transform, j := range unshuffles {
		if err := shuffle.Apply(j.batch(d.batch.Dst, memory), transform); err != nil {
			return err
		}
	}
	return nil
}

// fail sets the error of an input unless it has one.
func (d *decoding) fail(input int, status batch.Status) {
	if d.outcomes[input].Status == batch.OK {
		d.outcomes[input] = batch.Outcome{Status: status}
	}
}

// decodeParts decodes parts to a buffer.
func (d *decoding) decodeParts(p *partJobs, dst arrowbuf.Buffer, limit int64) error {
	if err := pack.Copy(p.stored.batch(dst, d.batch.Src)); err != nil {
		return err
	}
	for _, step := range []struct {
		jobs   *jobs
		decode func(compress.Batch, compress.DecodeOptions) ([]compress.Result, error)
	}{{&p.lz4, lz4.Decode}, {&p.zstd, zstd.Decode}} {
		results, err := step.decode(step.jobs.batch(dst, d.batch.Src), compress.DecodeOptions{Scratch: limit})
		if err != nil {
			return err
		}
		for i, r := range results {
			if r.Err != nil {
				d.fail(step.jobs.owner[i], batch.StatusOf(r.Err))
			} else if r.Length != step.jobs.out[i].Length {
				d.fail(step.jobs.owner[i], batch.Corrupt)
			}
		}
	}
	return nil
}

// runOnHost runs inputs of a batch on a GPU by code on the host, in steps of some size, which
// take memory of the GPU up to a limit of bytes.
func runOnHost(dev *cudabuf.Device, b compress.Batch, inputs []int, limit int64, outcomes []batch.Outcome, run func(dst, src []byte) (int64, error)) error {
	most := min(limit, 256<<20)
	for len(inputs) > 0 {
		n, size := 0, int64(0)
		for ; n < len(inputs); n++ {
			need := b.In[inputs[n]].Length + b.Out[inputs[n]].Length
			if n > 0 && size+need > most {
				break
			}
			size += need
		}
		if err := runStep(dev, b, inputs[:n], outcomes, run); err != nil {
			return err
		}
		inputs = inputs[n:]
	}
	return nil
}

// runStep is runOnHost for a few inputs. They cross the link in one piece, and their outputs
// too.
func runStep(dev *cudabuf.Device, b compress.Batch, inputs []int, outcomes []batch.Outcome, run func(dst, src []byte) (int64, error)) error {
	var down, up jobs
	items, done := make([]batch.Item, len(inputs)), make([]batch.Outcome, len(inputs))
	var srcSize, dstSize int64
	for i, input := range inputs {
		in, out := b.In[input], b.Out[input]
		items[i] = batch.Item{Src: srcSize, SrcSize: in.Length, Dst: dstSize, DstSize: out.Length}
		down.add(in, compress.Range{Offset: srcSize, Length: in.Length}, input)
		srcSize, dstSize = srcSize+in.Length, dstSize+out.Length
	}
	src, dst := make([]byte, srcSize), make([]byte, dstSize)
	memory, err := dev.NewBuffer(max(srcSize, dstSize))
	if err != nil {
		return err
	}
	defer memory.Release()
	if err := pack.Copy(down.batch(memory, b.Src)); err != nil {
		return err
	}
	if _, err := memory.CopyToHost(src, 0); err != nil {
		return err
	}
	batch.DecodeItems(dst, src, items, done, run)
	if _, err := memory.CopyFromHost(dst, 0); err != nil {
		return err
	}
	for i, o := range done {
		if o.Status != batch.OK {
			outcomes[inputs[i]] = batch.Outcome{Status: o.Status}
			continue
		}
		outcomes[inputs[i]] = o
		up.add(compress.Range{Offset: items[i].Dst, Length: o.Size}, b.Out[inputs[i]], inputs[i])
	}
	return pack.Copy(up.batch(b.Dst, memory))
}
