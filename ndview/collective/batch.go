package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ndview"
)

// Record batches travel as Arrow IPC streams of one batch, in one buffer of the device. Their
// lengths travel beside them, on the connections of the ranks. An error that one rank finds
// while others wait for its stream ends the communicator, as that of a rank that fails. Batches of a call may have
// different schemas and lengths, dictionaries included. A batch may lie on any device;
// received batches lie on the communicator's, share the memory of that buffer, and must be
// released. These methods cannot be part of a [Group]: a receiver must know the length first.

// SendBatch sends a record batch to another rank, which must call RecvBatch.
func (c *Comm) SendBatch(batch arrow.RecordBatch, to int) error {
	err := c.checkBatches(to)
	if err == nil && batch == nil {
		err = fmt.Errorf("batch: %w", ndview.ErrNil)
	}
	if err == nil && to == c.rank {
		err = fmt.Errorf("rank %d to itself: %w", to, ErrRank)
	}
	if err == nil {
		err = c.sendBatch(batch, to)
	}
	if err != nil {
		return fmt.Errorf("collective.Comm.SendBatch: %w", err)
	}
	return nil
}

func (c *Comm) sendBatch(batch arrow.RecordBatch, to int) error {
	stream, err := encodeBatch(batch, c.dev)
	if err != nil {
		return c.give(err)
	}
	defer stream.Release()
	c.order.Lock() // until the stream is sent: no other batch comes between it and its length
	defer c.order.Unlock()
	header := signature{kind: opBatch, count: 8}.header()
	if err := c.mesh.move(message(to, header, length(stream)), c.deadline()); err != nil {
		return err
	}
	return c.runLocked(c.movement(opSend, nil, stream, to, 1, 1))
}

// runLocked runs one operation, while order is held. Its errors concern the other ranks, which
// have the length of the stream already.
func (c *Comm) runLocked(o *operation, err error) error {
	if err != nil {
		return c.give(err)
	}
	return runLocked([]*operation{o})
}

// RecvBatch receives a record batch from another rank.
func (c *Comm) RecvBatch(from int) (arrow.RecordBatch, error) {
	err := c.checkBatches(from)
	if err == nil && from == c.rank {
		err = fmt.Errorf("rank %d from itself: %w", from, ErrRank)
	}
	var batch arrow.RecordBatch
	if err == nil {
		batch, err = c.recvBatch(from)
	}
	if err != nil {
		return nil, fmt.Errorf("collective.Comm.RecvBatch: %w", err)
	}
	return batch, nil
}

func (c *Comm) recvBatch(from int) (arrow.RecordBatch, error) {
	stream, err := c.recvStream(from)
	if err != nil {
		return nil, err
	}
	defer stream.Release()
	return c.decodeBatch(stream)
}

// recvStream receives the length of a stream and the stream.
func (c *Comm) recvStream(from int) (*ndview.NDBuffer, error) {
	c.order.Lock()
	defer c.order.Unlock()
	header := signature{kind: opBatch, count: 8}.header()
	n := make([]byte, 8)
	if err := c.mesh.move(c.mesh.expect(from, header, n), c.deadline()); err != nil {
		return nil, err
	}
	stream, err := c.streamOf(from, n)
	if err != nil {
		return nil, err
	}
	if err := c.runLocked(c.movement(opRecv, stream, nil, from, 1, 1)); err != nil {
		stream.Release()
		return nil, err
	}
	return stream, nil
}

// BroadcastBatch returns the record batch of rank root at all ranks. The others pass nil; the
// root gets its own batch, retained.
func (c *Comm) BroadcastBatch(batch arrow.RecordBatch, root int) (arrow.RecordBatch, error) {
	err := c.checkBatches(root)
	if err == nil && c.rank == root && batch == nil {
		err = fmt.Errorf("batch: %w", ndview.ErrNil)
	}
	if err == nil {
		batch, err = c.broadcastBatch(batch, root)
	}
	if err != nil {
		return nil, fmt.Errorf("collective.Comm.BroadcastBatch: %w", err)
	}
	return batch, nil
}

func (c *Comm) broadcastBatch(batch arrow.RecordBatch, root int) (arrow.RecordBatch, error) {
	var stream *ndview.NDBuffer
	if c.rank == root {
		var err error
		if stream, err = encodeBatch(batch, c.dev); err != nil {
			return nil, c.give(err)
		}
	}
	stream, err := c.broadcastStream(stream, root)
	if err != nil {
		return nil, err
	}
	defer stream.Release()
	if c.rank == root {
		batch.Retain()
		return batch, nil
	}
	return c.decodeBatch(stream)
}

// broadcastStream returns the stream of rank root, whose reference it takes.
func (c *Comm) broadcastStream(stream *ndview.NDBuffer, root int) (_ *ndview.NDBuffer, err error) {
	defer func() {
		if err != nil {
			stream.Release()
		}
	}()
	n := make([]byte, 8)
	if c.rank == root {
		n = length(stream)
	}
	c.order.Lock()
	defer c.order.Unlock()
	lengths, err := c.mesh.exchange(opBatches, n, c.deadline())
	if err != nil {
		return stream, err
	}
	if c.rank != root {
		if stream, err = c.streamOf(root, lengths[root]); err != nil {
			return stream, err
		}
	}
	return stream, c.runLocked(c.broadcast(stream, root))
}

// AllGatherBatches returns the record batches of all ranks in the order of ranks.
func (c *Comm) AllGatherBatches(batch arrow.RecordBatch) ([]arrow.RecordBatch, error) {
	batches := make([]arrow.RecordBatch, c.Size())
	for rank := range batches {
		batches[rank] = batch
	}
	return c.exchangeBatches("AllGatherBatches", batches, batch == nil)
}

// GatherBatches returns the record batches of all ranks in the order of ranks at rank root,
// and nil at the others.
func (c *Comm) GatherBatches(batch arrow.RecordBatch, root int) ([]arrow.RecordBatch, error) {
	if err := c.checkBatches(root); err != nil {
		return nil, fmt.Errorf("collective.Comm.GatherBatches: %w", err)
	}
	batches := make([]arrow.RecordBatch, c.size)
	batches[root] = batch
	all, err := c.exchangeBatches("GatherBatches", batches, batch == nil)
	if err != nil || c.rank != root {
		return nil, err
	}
	return all, nil
}

// AllToAllBatches sends batch i to rank i, and returns those received in the order of ranks.
// A nil batch is received as nil.
func (c *Comm) AllToAllBatches(batches []arrow.RecordBatch) ([]arrow.RecordBatch, error) {
	if err := c.checkBatches(0); err != nil {
		return nil, fmt.Errorf("collective.Comm.AllToAllBatches: %w", err)
	}
	if len(batches) != c.size {
		return nil, fmt.Errorf("collective.Comm.AllToAllBatches: got %d batches for %d ranks: %w", len(batches), c.size, ErrRank)
	}
	return c.exchangeBatches("AllToAllBatches", batches, false)
}

// checkBatches returns an error unless batches can be exchanged with a rank.
func (c *Comm) checkBatches(rank int) error {
	if err := c.checkRank("rank", rank); err != nil {
		return err
	}
	if c.group != nil {
		return fmt.Errorf("record batches in a group: %w", errors.ErrUnsupported)
	}
	return nil
}

func (c *Comm) exchangeBatches(name string, batches []arrow.RecordBatch, isNil bool) (all []arrow.RecordBatch, err error) {
	if err = c.checkBatches(0); err == nil && isNil {
		err = fmt.Errorf("batch: %w", ndview.ErrNil)
	}
	if err == nil {
		all, err = c.exchangeStreams(batches)
	}
	if err != nil {
		return nil, fmt.Errorf("collective.Comm.%s: %w", name, err)
	}
	return all, nil
}

// exchangeStreams sends batch i to rank i as a stream, whose length is 0 for nil.
func (c *Comm) exchangeStreams(batches []arrow.RecordBatch) (received []arrow.RecordBatch, err error) {
	received = make([]arrow.RecordBatch, c.size)
	var streams []*ndview.NDBuffer
	defer func() {
		for _, s := range streams {
			s.Release()
		}
		if err != nil {
			for _, b := range received {
				if b != nil {
					b.Release()
				}
			}
		}
	}()
	// A batch that goes to several ranks is encoded once.
	encoded := map[arrow.RecordBatch]*ndview.NDBuffer{}
	lengths := make([][]byte, c.size)
	for rank, b := range batches {
		lengths[rank] = make([]byte, 8)
		if b == nil || rank == c.rank {
			continue
		}
		if encoded[b] == nil {
			stream, err := encodeBatch(b, c.dev)
			if err != nil {
				return received, c.give(err)
			}
			encoded[b], streams = stream, append(streams, stream)
		}
		lengths[rank] = length(encoded[b])
	}
	incoming, err := c.exchangeEncoded(batches, encoded, lengths)
	streams = append(streams, incoming...)
	if err != nil {
		return received, err
	}
	for rank, stream := range incoming {
		if stream == nil {
			continue
		}
		if received[rank], err = c.decodeBatch(stream); err != nil {
			return received, err
		}
	}
	if own := batches[c.rank]; own != nil {
		own.Retain()
		received[c.rank] = own
	}
	return received, nil
}

// exchangeEncoded sends each rank the stream of its batch, after its length, and returns the
// streams that arrive: nil for a length of 0.
func (c *Comm) exchangeEncoded(batches []arrow.RecordBatch, encoded map[arrow.RecordBatch]*ndview.NDBuffer, lengths [][]byte) ([]*ndview.NDBuffer, error) {
	incoming := make([]*ndview.NDBuffer, c.size)
	c.order.Lock()
	defer c.order.Unlock()
	theirs, err := c.mesh.exchangeEach(opBatches, lengths, c.deadline())
	if err != nil {
		return incoming, err
	}
	var ops []*operation
	add := func(o *operation, err error) error {
		if err == nil {
			ops = append(ops, o)
		}
		return err
	}
	for rank := range c.size {
		if rank == c.rank {
			continue
		}
		if b := batches[rank]; b != nil && err == nil {
			err = add(c.movement(opSend, nil, encoded[b], rank, 1, 1))
		}
		if err == nil && binary.LittleEndian.Uint64(theirs[rank]) != 0 {
			if incoming[rank], err = c.streamOf(rank, theirs[rank]); err == nil {
				err = add(c.movement(opRecv, incoming[rank], nil, rank, 1, 1))
			}
		}
	}
	if err != nil {
		for _, o := range ops {
			o.release()
		}
		return incoming, c.give(err)
	}
	if len(ops) == 0 {
		return incoming, nil
	}
	return incoming, runLocked(ops)
}

// length returns the length of a stream as ranks send it.
func length(stream *ndview.NDBuffer) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(stream.Size()))
}

// streamOf returns memory for a stream of the length that a rank has sent. An error ends the
// communicator, since that rank sends the stream.
func (c *Comm) streamOf(rank int, sent []byte) (*ndview.NDBuffer, error) {
	n := binary.LittleEndian.Uint64(sent)
	if n < endOfStream || n > math.MaxInt64 {
		return nil, c.give(fmt.Errorf("rank %d announces a record batch of %d bytes: %w", rank, n, ErrMismatch))
	}
	stream, err := ndview.Empty(c.dev, ndview.Uint8, int64(n))
	return stream, c.give(err)
}

const (
	framePrefix = 8 // before the metadata of a message
	endOfStream = 8 // bytes
)

// encodeBatch returns the stream of a batch as bytes on a device.
func encodeBatch(batch arrow.RecordBatch, dev arrowbuf.Device) (_ *ndview.NDBuffer, err error) {
	encoder, err := arrowipc.NewEncoder(batch.Schema())
	if err != nil {
		return nil, err
	}
	defer encoder.Release()
	messages, err := encoder.Encode(batch)
	if err != nil {
		return nil, err
	}
	framed := func(metadata []byte) int64 { return framePrefix + (int64(len(metadata))+7)/8*8 }
	size := framed(encoder.Schema()) + endOfStream
	for _, m := range messages {
		size += framed(m.Metadata) + m.BodyLength
		m.Release()
	}
	stream, err := ndview.Empty(dev, ndview.Uint8, size)
	if err != nil {
		return nil, err
	}
	w, err := arrowipc.NewWriter(arrowipc.NewBufferWriter(stream.Buffer()), batch.Schema())
	if err == nil {
		err = errors.Join(w.Write(batch), w.Close())
	}
	if err != nil {
		stream.Release()
		return nil, err
	}
	return stream, nil
}

// decodeBatch returns the batch of a stream, which shares its memory.
func (c *Comm) decodeBatch(stream *ndview.NDBuffer) (arrow.RecordBatch, error) {
	// The metadata is read by the host, which must not wait for a rank that has died.
	if err := c.engine.wait(); err != nil {
		return nil, err
	}
	r, err := arrowipc.NewReader(arrowipc.NewBufferReader(stream.Buffer()), c.dev)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	if !r.Next() {
		return nil, fmt.Errorf("a stream without a record batch: %w", errors.Join(r.Err(), io.ErrUnexpectedEOF))
	}
	batch := r.RecordBatch()
	batch.Retain()
	return batch, nil
}
