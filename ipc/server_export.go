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
type form struct {
	key    formKey
	name   string
	parts  []wire.Part
	blocks []*block
	bytes  int64
	refs   int // guarded by the registry's mu
}

type formKey struct {
	server    *Server
	mechanism handle.Mechanism
}

// mechanismsFor returns the mechanisms that can share an object with a client.
// Those that share more of its bytes in place come first, then the order is the
// client's.
func (it *item) mechanisms(c *conn) (handle.Mechanisms, error) {
	e, err := it.encode()
	if err != nil {
		return nil, err
	}
	self := c.server.self
	onGPU := e.gpu != nil && slices.Contains(c.peer.Devices, e.gpu.UUID())
	fits := func(m handle.Mechanism) bool {
		switch m {
		case handle.Local:
			return c.peer.Process == self
		case handle.Memory:
			return c.peer.Process.SameMachine(self)
		case handle.CUDAFD:
			return onGPU && c.peer.Process.SameMachine(self)
		case handle.CUDAPool: // this mechanism cannot copy
			return onGPU && c.peer.Process.SameMachine(self) && c.peer.Process != self &&
				e.native(m) > 0 && slices.Contains(c.peer.Mechanisms, handle.CUDAFD)
		default:
			return onGPU && c.peer.Process.SameNamespace(self) && c.peer.Process != self
		}
	}
	var ways handle.Mechanisms
	for _, m := range c.peer.Mechanisms {
		if fits(m) && !slices.Contains(ways, m) {
			ways = append(ways, m)
		}
	}
	if len(ways) == 0 {
		where := "the host"
		if e.gpu != nil {
			where = fmt.Sprintf("%v, GPU-%v", e.gpu, e.gpu.UUID())
		}
		return nil, fmt.Errorf("%q is on %s of %v; the client, %v, has mechanisms %v and GPUs %v: %w",
			it.name, where, self, c.peer.Process, c.peer.Mechanisms, c.peer.Devices, ErrNoMechanism)
	}
	slices.SortStableFunc(ways, func(a, b handle.Mechanism) int {
		return cmp.Compare(e.native(b), e.native(a))
	})
	return ways, nil
}

// exportFor returns an export of the object for a client. The caller owns one
// reference.
func (it *item) formFor(c *conn) (*form, error) {
	ways, err := it.mechanisms(c)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, m := range ways {
		if m == handle.Memory && len(failures) > 0 {
			break // report the GPU's error instead of falling back to host memory
		}
		f, err := it.form(c.server, m)
		if err == nil {
			return f, nil
		}
		failures = append(failures, fmt.Errorf("through %v: %w", m, err))
	}
	return nil, fmt.Errorf("sharing %q: %w", it.name, errors.Join(failures...))
}

// exportThrough returns the object's export through a mechanism, and creates it
// if needed. The caller owns one reference.
func (it *item) form(s *Server, m handle.Mechanism) (*form, error) {
	key := formKey{s, m}
	it.mu.Lock()
	defer it.mu.Unlock()
	if f := it.forms[key]; f != nil {
		s.store.do(func() { f.refs++ })
		return f, nil
	}
	f := &form{key: key, name: it.name, bytes: it.bytes(), refs: 1}
	var err error
	if m == handle.Local {
		f.local(it)
	} else {
		err = f.fill(it)
	}
	if err == nil {
		err = s.keep(it, f)
	}
	if err != nil {
		s.store.do(f.leave)
		return nil, err
	}
	it.forms[key] = f
	s.store.do(func() { f.refs++ })
	return f, nil
}

func (f *form) local(it *item) {
	b := localBlock(f.key.server, it)
	f.key.server.store.do(func() { f.key.server.store.add(b) })
	f.blocks = []*block{b}
	f.parts = []wire.Part{{Regions: []wire.Region{{Length: b.size, Block: b.id}}}}
}

// fill shares an object through the export's mechanism. Memory that the mechanism
// can share in place stays there; the rest is copied to one block.
func (f *form) fill(it *item) error {
	e, err := it.encode()
	if err != nil {
		return err
	}
	s, m := f.key.server, f.key.mechanism
	var copies copying
	for _, message := range e.messages {
		part := wire.Part{Metadata: message.metadata}
		packed := message.packs(m)
		base := copies.begin()
		for _, p := range message.body {
			r := wire.Region{Place: p.Offset, Length: p.Buffer.Len()}
			if buffer, ok := p.native(m); ok {
				b, err := s.store.native(m, buffer, it.pooled)
				if err != nil {
					return err
				}
				f.hold(b)
				r.Block, r.Offset = b.id, int64(buffer.Address()-b.base)
			} else if packed {
				r.Offset = copies.put(base+p.Offset, p.Buffer)
			} else {
				r.Offset = copies.add(p.Buffer)
			}
			part.Regions = append(part.Regions, r)
		}
		if packed && len(part.Regions) > 0 {
			part.Regions = []wire.Region{{Length: message.length, Offset: base}}
			copies.end = max(copies.end, base+message.length)
		}
		f.parts = append(f.parts, part)
	}
	if err := f.copy(&copies, e.gpu, it.name); err != nil {
		return err
	}
	return f.publish(e.gpu)
}

// addBlock adds a block in which this export is already counted.
func (f *form) hold(b *block) {
	if slices.Contains(f.blocks, b) {
		f.key.server.store.do(func() { f.key.server.store.leave(b) })
		return
	}
	f.blocks = append(f.blocks, b)
}

// recordEvents records the blocks' events after all enqueued writes to the
// blocks.
func (f *form) publish(gpu *cudabuf.Device) error {
	if !f.key.mechanism.OnGPU() {
		return nil
	}
	stream, err := f.key.server.stream(gpu)
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
func (f *form) written() (bool, error) {
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
func (f *form) wait(ctx context.Context) error {
	for _, b := range f.blocks {
		if b.event == nil {
			continue
		}
		if err := waitFor(b.event, ctx.Done()); err != nil {
			return err
		}
	}
	return nil
}

// release drops a reference.
func (f *form) release() { f.key.server.store.do(f.leave) }

// releaseLocked is release for a caller that holds the registry's mu.
func (f *form) leave() {
	if f.refs--; f.refs > 0 {
		return
	}
	for _, b := range f.blocks {
		f.key.server.store.leave(b)
	}
}

// copyPlan lists the buffers to copy to a block, with their offsets.
type copying struct {
	buffers []arrowbuf.Buffer
	places  []int64
	end     int64
}

// nextOffset returns the offset of the next body.
func (c *copying) begin() int64 { return (c.end + 63) &^ 63 }

func (c *copying) put(at int64, b arrowbuf.Buffer) int64 {
	c.buffers, c.places = append(c.buffers, b), append(c.places, at)
	c.end = max(c.end, at+b.Len())
	return at
}

func (c *copying) add(b arrowbuf.Buffer) int64 { return c.put(c.begin(), b) }

// copyBuffers copies the planned buffers to a block. It sets the block of the
// regions that have none.
func (f *form) copy(c *copying, gpu *cudabuf.Device, owner string) error {
	if c.end == 0 {
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
	b, offset, err := s.store.take(place{m, gpu, owner}, c.end)
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
		if stream, err = s.stream(gpu); err != nil {
			return err
		}
	}
	for i, src := range c.buffers {
		if err := copyTo(b.buffer, src, offset+c.places[i], stream); err != nil {
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
func waitFor(e *cudabuf.Event, over <-chan struct{}) error {
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
