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
func (it *object) mechanismsFor(c *serverConn) (handle.Mechanisms, error) {
	e, err := it.encode()
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
		where := "the host"
		if e.gpu != nil {
			where = fmt.Sprintf("%v, GPU-%v", e.gpu, e.gpu.UUID())
		}
		return nil, fmt.Errorf("%q is on %s of %v; the client, %v, has mechanisms %v and GPUs %v: %w",
			it.name, where, self, c.hello.Process, c.hello.Mechanisms, c.hello.Devices, ErrNoMechanism)
	}
	slices.SortStableFunc(mechanisms, func(a, b handle.Mechanism) int {
		return cmp.Compare(e.inPlaceBytes(b), e.inPlaceBytes(a))
	})
	return mechanisms, nil
}

// exportFor returns an export of the object for a client. The caller owns one
// reference.
func (it *object) exportFor(c *serverConn) (*export, error) {
	mechanisms, err := it.mechanismsFor(c)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, m := range mechanisms {
		if m == handle.Memory && len(failures) > 0 {
			break // report the GPU's error instead of falling back to host memory
		}
		f, err := it.exportThrough(c.server, m)
		if err == nil {
			return f, nil
		}
		failures = append(failures, fmt.Errorf("through %v: %w", m, err))
	}
	return nil, fmt.Errorf("sharing %q: %w", it.name, errors.Join(failures...))
}

// exportThrough returns the object's export through a mechanism, and creates it
// if needed. The caller owns one reference.
func (it *object) exportThrough(s *Server, m handle.Mechanism) (*export, error) {
	key := exportKey{s, m}
	it.mu.Lock()
	defer it.mu.Unlock()
	if f := it.exports[key]; f != nil {
		s.blocks.withLock(func() { f.refs++ })
		return f, nil
	}
	f := &export{key: key, name: it.name, bytes: it.bytes(), refs: 1}
	var err error
	if m == handle.Local {
		f.fillLocal(it)
	} else {
		err = f.fill(it)
	}
	if err == nil {
		err = s.registerExport(it, f)
	}
	if err != nil {
		s.blocks.withLock(f.releaseLocked)
		return nil, err
	}
	it.exports[key] = f
	s.blocks.withLock(func() { f.refs++ })
	return f, nil
}

func (f *export) fillLocal(it *object) {
	b := newLocalBlock(f.key.server, it)
	f.key.server.blocks.withLock(func() { f.key.server.blocks.add(b) })
	f.blocks = []*block{b}
	f.parts = []wire.Part{{Regions: []wire.Region{{Length: b.size, Block: b.id}}}}
}

// fill shares an object through the export's mechanism. Memory that the mechanism
// can share in place stays there; the rest is copied to one block.
func (f *export) fill(it *object) error {
	e, err := it.encode()
	if err != nil {
		return err
	}
	s, m := f.key.server, f.key.mechanism
	var copies copyPlan
	for _, message := range e.messages {
		part := wire.Part{Metadata: message.metadata}
		packed := message.packed(m)
		base := copies.nextOffset()
		for _, p := range message.body {
			r := wire.Region{Place: p.Offset, Length: p.Buffer.Len()}
			if buffer, ok := p.inPlace(m); ok {
				b, err := s.blocks.shareInPlace(m, buffer, it.exposed)
				if err != nil {
					return err
				}
				f.addBlock(b)
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
		f.parts = append(f.parts, part)
	}
	if err := f.copyBuffers(&copies, e.gpu, it.name); err != nil {
		return err
	}
	return f.recordEvents(e.gpu)
}

// addBlock adds a block in which this export is already counted.
func (f *export) addBlock(b *block) {
	if slices.Contains(f.blocks, b) {
		f.key.server.blocks.withLock(func() { f.key.server.blocks.releaseExport(b) })
		return
	}
	f.blocks = append(f.blocks, b)
}

// recordEvents records the blocks' events after all enqueued writes to the
// blocks.
func (f *export) recordEvents(gpu *cudabuf.Device) error {
	if !f.key.mechanism.OnGPU() {
		return nil
	}
	stream, err := f.key.server.copyStream(gpu)
	if err != nil {
		return err
	}
	for _, b := range f.blocks {
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
func (f *export) ready() (bool, error) {
	for _, b := range f.blocks {
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
func (f *export) waitReady(ctx context.Context) error {
	for _, b := range f.blocks {
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
func (f *export) release() { f.key.server.blocks.withLock(f.releaseLocked) }

// releaseLocked is release for a caller that holds the registry's mu.
func (f *export) releaseLocked() {
	if f.refs--; f.refs > 0 {
		return
	}
	for _, b := range f.blocks {
		f.key.server.blocks.releaseExport(b)
	}
}

// copyPlan lists the buffers to copy to a block, with their offsets.
type copyPlan struct {
	buffers []arrowbuf.Buffer
	offsets []int64
	size    int64
}

// nextOffset returns the offset of the next body.
func (c *copyPlan) nextOffset() int64 { return (c.size + 63) &^ 63 }

func (c *copyPlan) addAt(at int64, b arrowbuf.Buffer) int64 {
	c.buffers, c.offsets = append(c.buffers, b), append(c.offsets, at)
	c.size = max(c.size, at+b.Len())
	return at
}

func (c *copyPlan) add(b arrowbuf.Buffer) int64 { return c.addAt(c.nextOffset(), b) }

// copyBuffers copies the planned buffers to a block. It sets the block of the
// regions that have none.
func (f *export) copyBuffers(c *copyPlan, gpu *cudabuf.Device, owner string) error {
	if c.size == 0 {
		return nil
	}
	s := f.key.server
	m := f.key.mechanism
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
	f.blocks = append(f.blocks, b)
	for i := range f.parts {
		for j := range f.parts[i].Regions {
			if r := &f.parts[i].Regions[j]; r.Block == 0 {
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
func copyTo(dst, src arrowbuf.Buffer, at int64, stream *cudabuf.Stream) (err error) {
	host, onHost := arrowbuf.HostBytes(src)
	to, onGPU := dst.(*cudabuf.Buffer)
	from, fromGPU := src.(*cudabuf.Buffer)
	switch {
	case onGPU && fromGPU:
		_, err = to.CopyFromDeviceAsync(from, at, stream)
	case onGPU && onHost:
		_, err = to.CopyFromHostAsync(host, at, stream)
	case onHost:
		_, err = dst.CopyFromHost(host, at)
	default:
		_, err = dst.CopyFromDevice(src, at)
	}
	return err
}

// pollEvent queries an event until it is done or over is closed. CUDA's wait
// functions are not used, since they never return if the event's process was
// killed.
func pollEvent(e *cudabuf.Event, over <-chan struct{}) error {
	const soon = 50 // queries before the first pause, about 50 us
	pause := 10 * time.Microsecond
	for asked := 0; ; asked++ {
		if done, err := e.Done(); done || err != nil {
			return err
		}
		select {
		case <-over:
			return ErrClosed
		default:
		}
		if asked < soon {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
}
