package ipc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// export is an object in shared memory, through one mechanism. All clients that
// use the mechanism share it. The object holds one reference and each lease
// another.
type export struct {
	key    exportKey
	name   string
	parts  []wire.Part
	blocks []*block
	bytes  int64
	refs   int // guarded by the registry's mu
}

type exportKey struct {
	server    *Server
	mechanism handle.Mechanism
}

// mechanismsFor returns the mechanisms that can share an object with a client.
// Those that share more of its bytes in place come first, then the order is the
// client's.
func (o *object) mechanismsFor(c *serverConn) (handle.Mechanisms, error) {
	e, err := o.encode()
	if err != nil {
		return nil, err
	}
	self := c.server.self
	onGPU := e.gpu != nil && slices.Contains(c.hello.Devices, e.gpu.UUID())
	fits := func(m handle.Mechanism) bool {
		switch m {
		case handle.Local:
			return c.hello.Process == self
		case handle.Memory:
			return c.hello.Process.SameMachine(self)
		case handle.CUDAFD:
			return onGPU && c.hello.Process.SameMachine(self)
		case handle.CUDAPool: // this mechanism cannot copy
			return onGPU && c.hello.Process.SameMachine(self) && c.hello.Process != self &&
				e.inPlaceBytes(m) > 0 && slices.Contains(c.hello.Mechanisms, handle.CUDAFD)
		default:
			return onGPU && c.hello.Process.SameNamespace(self) && c.hello.Process != self
		}
	}
	var mechanisms handle.Mechanisms
	for _, m := range c.hello.Mechanisms {
		if fits(m) && !slices.Contains(mechanisms, m) {
			mechanisms = append(mechanisms, m)
		}
	}
	if len(mechanisms) == 0 {
		place := "the host"
		if e.gpu != nil {
			place = fmt.Sprintf("%v, GPU-%v", e.gpu, e.gpu.UUID())
		}
		return nil, fmt.Errorf("%q is on %s of %v; the client, %v, has mechanisms %v and GPUs %v: %w",
			o.name, place, self, c.hello.Process, c.hello.Mechanisms, c.hello.Devices, ErrNoMechanism)
	}
	slices.SortStableFunc(mechanisms, func(a, b handle.Mechanism) int {
		return cmp.Compare(e.inPlaceBytes(b), e.inPlaceBytes(a))
	})
	return mechanisms, nil
}

// exportFor returns an export of the object for a client. The caller owns one
// reference.
func (o *object) exportFor(c *serverConn) (*export, error) {
	mechanisms, err := o.mechanismsFor(c)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, m := range mechanisms {
		if m == handle.Memory && len(failures) > 0 {
			break // report the GPU's error instead of falling back to host memory
		}
		f, err := o.exportThrough(c.server, m)
		if err == nil {
			return f, nil
		}
		failures = append(failures, fmt.Errorf("through %v: %w", m, err))
	}
	return nil, fmt.Errorf("sharing %q: %w", o.name, errors.Join(failures...))
}

// exportThrough returns the object's export through a mechanism, and creates it
// if needed. The caller owns one reference.
func (o *object) exportThrough(s *Server, m handle.Mechanism) (*export, error) {
	key := exportKey{s, m}
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.exports[key]; f != nil {
		s.blocks.withLock(func() { f.refs++ })
		return f, nil
	}
	f := &export{key: key, name: o.name, bytes: o.bytes(), refs: 1}
	var err error
	if m == handle.Local {
		f.fillLocal(o)
	} else {
		err = f.fill(o)
	}
	if err == nil {
		err = s.registerExport(o, f)
	}
	if err != nil {
		s.blocks.withLock(f.releaseLocked)
		return nil, err
	}
	o.exports[key] = f
	s.blocks.withLock(func() { f.refs++ })
	return f, nil
}

func (ex *export) fillLocal(o *object) {
	b := newLocalBlock(ex.key.server, o)
	ex.key.server.blocks.withLock(func() { ex.key.server.blocks.add(b) })
	ex.blocks = []*block{b}
	ex.parts = []wire.Part{{Metadata: o.layout, Regions: []wire.Region{{Length: b.size, Block: b.id}}}}
}

// fill shares an object through the export's mechanism. Memory that the mechanism
// can share in place stays there; the rest is copied to one block.
func (ex *export) fill(o *object) error {
	e, err := o.encode()
	if err != nil {
		return err
	}
	s, m := ex.key.server, ex.key.mechanism
	var copies copyPlan
	for _, message := range e.messages {
		part := wire.Part{Metadata: message.metadata}
		packed := message.packed(m)
		base := copies.nextOffset()
		for _, p := range message.body {
			r := wire.Region{BodyOffset: p.Offset, Length: p.Buffer.Len()}
			if buffer, ok := p.inPlace(m); ok {
				b, err := s.blocks.shareInPlace(m, buffer, o.exposed)
				if err != nil {
					return err
				}
				ex.addBlock(b)
				r.Block, r.Offset = b.id, int64(buffer.Address()-b.base)
			} else if packed {
				r.Offset = copies.addAt(base+p.Offset, p.Buffer)
			} else {
				r.Offset = copies.add(p.Buffer)
			}
			part.Regions = append(part.Regions, r)
		}
		if packed && len(part.Regions) > 0 {
			part.Regions = []wire.Region{{Length: message.length, Offset: base}}
			copies.size = max(copies.size, base+message.length)
		}
		ex.parts = append(ex.parts, part)
	}
	if err := ex.copyBuffers(&copies, e.gpu, o.name); err != nil {
		return err
	}
	return ex.recordEvents(e.gpu)
}

// addBlock adds a block in which this export is already counted.
func (ex *export) addBlock(b *block) {
	if slices.Contains(ex.blocks, b) {
		ex.key.server.blocks.withLock(func() { ex.key.server.blocks.releaseExport(b) })
		return
	}
	ex.blocks = append(ex.blocks, b)
}

// recordEvents records the blocks' events after all enqueued writes to the
// blocks.
func (ex *export) recordEvents(gpu *cudabuf.Device) error {
	if !ex.key.mechanism.OnGPU() {
		return nil
	}
	stream, err := ex.key.server.copyStream(gpu)
	if err != nil {
		return err
	}
	for _, b := range ex.blocks {
		if err := b.buffer.(*cudabuf.Buffer).RecordStream(stream); err != nil {
			return err
		}
		if err := stream.Record(b.event); err != nil {
			return err
		}
	}
	return nil
}

// ready reports whether all bytes are written.
func (ex *export) ready() (bool, error) {
	for _, b := range ex.blocks {
		if b.event == nil {
			continue
		}
		if done, err := b.event.Done(); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// waitReady waits until all bytes are written or ctx is done.
func (ex *export) waitReady(ctx context.Context) error {
	for _, b := range ex.blocks {
		if b.event == nil {
			continue
		}
		if err := pollEvent(b.event, ctx.Done()); err != nil {
			return err
		}
	}
	return nil
}

// release drops a reference.
func (ex *export) release() { ex.key.server.blocks.withLock(ex.releaseLocked) }

// releaseLocked is release for a caller that holds the registry's mu.
func (ex *export) releaseLocked() {
	if ex.refs--; ex.refs > 0 {
		return
	}
	for _, b := range ex.blocks {
		ex.key.server.blocks.releaseExport(b)
	}
}

// copyPlan lists the buffers to copy to a block, with their offsets.
type copyPlan struct {
	buffers []arrowbuf.Buffer
	offsets []int64
	size    int64
}

// nextOffset returns the offset of the next body.
func (p *copyPlan) nextOffset() int64 { return (p.size + 63) &^ 63 }

func (p *copyPlan) addAt(offset int64, b arrowbuf.Buffer) int64 {
	p.buffers, p.offsets = append(p.buffers, b), append(p.offsets, offset)
	p.size = max(p.size, offset+b.Len())
	return offset
}

func (p *copyPlan) add(b arrowbuf.Buffer) int64 { return p.addAt(p.nextOffset(), b) }

// copyBuffers copies the planned buffers to a block. It sets the block of the
// regions that have none.
func (ex *export) copyBuffers(c *copyPlan, gpu *cudabuf.Device, owner string) error {
	if c.size == 0 {
		return nil
	}
	s := ex.key.server
	m := ex.key.mechanism
	switch m {
	case handle.Memory:
		gpu = nil
	case handle.CUDAPool: // copies of parts outside the pool
		m = handle.CUDAFD
	}
	b, offset, err := s.blocks.allocate(blockKey{m, gpu, owner}, c.size)
	if err != nil {
		return err
	}
	ex.blocks = append(ex.blocks, b)
	for i := range ex.parts {
		for j := range ex.parts[i].Regions {
			if r := &ex.parts[i].Regions[j]; r.Block == 0 {
				r.Block = b.id
				r.Offset += offset
			}
		}
	}
	var stream *cudabuf.Stream
	if gpu != nil {
		if stream, err = s.copyStream(gpu); err != nil {
			return err
		}
	}
	for i, src := range c.buffers {
		if err := copyTo(b.buffer, src, offset+c.offsets[i], stream); err != nil {
			return fmt.Errorf("copying %d bytes to shared memory: %w", src.Len(), err)
		}
	}
	return nil
}

// copyTo copies src to an offset of dst. Copies that a GPU can make are enqueued
// on stream.
func copyTo(dst, src arrowbuf.Buffer, offset int64, stream *cudabuf.Stream) (err error) {
	host, onHost := arrowbuf.HostBytes(src)
	to, onGPU := dst.(*cudabuf.Buffer)
	from, fromGPU := arrowbuf.As[*cudabuf.Buffer](src)
	if w, ok := arrowbuf.As[interface{ Wait() error }](src); ok && !(onGPU && fromGPU) { // a stream may still write pinned memory
		if err := w.Wait(); err != nil {
			return err
		}
	}
	switch {
	case onGPU && fromGPU:
		_, err = to.CopyFromDeviceAsync(from, offset, stream)
	case onGPU && onHost:
		_, err = to.CopyFromHostAsync(host, offset, stream)
	case onHost:
		_, err = dst.CopyFromHost(host, offset)
	default:
		_, err = dst.CopyFromDevice(src, offset)
	}
	return err
}

// pollEvent queries an event until it is done or over is closed. CUDA's wait
// functions are not used, since they never return if the event's process was
// killed.
func pollEvent(e *cudabuf.Event, over <-chan struct{}) error {
	const fastPolls = 50 // queries before the first pause, about 50 us
	pause := 10 * time.Microsecond
	for polls := 0; ; polls++ {
		if done, err := e.Done(); done || err != nil {
			return err
		}
		select {
		case <-over:
			return ErrClosed
		default:
		}
		if polls < fastPolls {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
}
