package collective

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// hostEngine is the implementation for the CPU and the simulated device. Each rank sends its
// header and the elements that another rank needs to it, see mesh. Elements are combined in
// the order of ranks.
type hostEngine struct{ *comm }

func (e *hostEngine) wait() error  { return e.mesh.failure() }
func (e *hostEngine) close() error { return nil }
func (e *hostEngine) abort()       {}

// run runs the operations of a group: all sends and receives at the same time, and then the
// others in order.
func (e *hostEngine) run(ops []*operation) error {
	deadline := e.deadline()
	var peers, others []*operation
	for _, o := range ops {
		if o.kind.isPeer() {
			peers = append(peers, o)
		} else {
			others = append(others, o)
		}
	}
	if err := e.sendAndReceive(peers, deadline); err != nil {
		return err
	}
	for _, o := range others {
		if err := e.collective(o, deadline); err != nil {
			return err
		}
	}
	return nil
}

// hostMemory is the bytes of a memory on the host: its own, or a copy.
type hostMemory struct {
	bytes []byte
	of    memory // what bytes are a copy of; no buffer if they are its own
}

// onHost returns n bytes of a memory on the host. A copy has its contents only if read.
func onHost(m memory, n int64, read bool) (h hostMemory, err error) {
	if m.buffer == nil || n == 0 {
		return h, nil
	}
	if all, ok := arrowbuf.HostBytes(m.buffer); ok {
		return hostMemory{bytes: all[m.offset : m.offset+n]}, nil
	}
	h = hostMemory{make([]byte, n), m}
	if read {
		_, err = m.buffer.CopyToHost(h.bytes, m.offset)
	}
	return h, err
}

// store copies the bytes to the device, if they are a copy.
func (h hostMemory) store() error {
	if h.of.buffer == nil {
		return nil
	}
	_, err := h.of.buffer.CopyFromHost(h.bytes, h.of.offset)
	return err
}

// storeAll copies all results to the device.
func storeAll(results []hostMemory) error {
	for _, h := range results {
		if err := h.store(); err != nil {
			return err
		}
	}
	return nil
}

// give ends the communicator for an error of this rank, so that the others do not wait.
func (c *comm) give(err error) error {
	if err != nil {
		c.mesh.fail(fmt.Errorf("rank %d: %w", c.rank, err), c.rank)
	}
	return err
}

// message returns the transfers of a header and bytes to a rank.
func message(rank int, header, bytes []byte) []transfer {
	list := []transfer{{rank: rank, send: true, bytes: header}}
	if len(bytes) > 0 {
		list = append(list, transfer{rank: rank, send: true, bytes: bytes})
	}
	return list
}

// expect returns the transfers of a header and bytes from a rank.
func (m *mesh) expect(rank int, header, bytes []byte) []transfer {
	theirs := make([]byte, headerBytes)
	list := []transfer{{rank: rank, bytes: theirs, check: func() error { return compare(header, theirs, m.rank, rank) }}}
	if len(bytes) > 0 {
		list = append(list, transfer{rank: rank, bytes: bytes})
	}
	return list
}

// exchange sends each rank the message and receives one of the same length from each, which
// it returns by rank. kind is what the ranks do, in case one does something else.
func (m *mesh) exchange(kind opKind, bytes []byte, deadline time.Time) ([][]byte, error) {
	messages := make([][]byte, m.size)
	for rank := range messages {
		messages[rank] = bytes
	}
	return m.exchangeEach(kind, messages, deadline)
}

// exchangeEach is exchange with a message for each rank, all of one length.
func (m *mesh) exchangeEach(kind opKind, messages [][]byte, deadline time.Time) ([][]byte, error) {
	header := signature{kind: kind, count: int64(len(messages[0]))}.header()
	all := make([][]byte, m.size)
	all[m.rank] = messages[m.rank]
	var transfers []transfer
	for rank := range m.peers {
		if rank != m.rank {
			all[rank] = make([]byte, len(messages[rank]))
			transfers = append(transfers, message(rank, header, messages[rank])...)
			transfers = append(transfers, m.expect(rank, header, all[rank])...)
		}
	}
	return all, m.move(transfers, deadline)
}

// sendAndReceive runs the sends and receives of a group.
func (e *hostEngine) sendAndReceive(ops []*operation, deadline time.Time) error {
	var transfers []transfer
	var results []hostMemory
	var toSelf, fromSelf []hostMemory
	var sent, received []signature
	for _, o := range ops {
		s := o.asked
		s.kind, s.root = opSend, 0 // the same at both ranks
		m, into := o.src, &toSelf
		if o.kind == opRecv {
			m, into = o.dst, &fromSelf
		}
		h, err := onHost(m, o.bytes(), o.kind == opSend)
		if err != nil {
			return e.give(err)
		}
		if o.kind == opRecv {
			results = append(results, h)
		}
		switch {
		case o.root == e.rank:
			*into = append(*into, h)
			if o.kind == opSend {
				sent = append(sent, s)
			} else {
				received = append(received, s)
			}
		case o.kind == opSend:
			transfers = append(transfers, message(o.root, s.header(), h.bytes)...)
		default:
			transfers = append(transfers, e.mesh.expect(o.root, s.header(), h.bytes)...)
		}
	}
	if len(sent) != len(received) {
		return e.give(fmt.Errorf("%d sends to itself and %d receives in one group: %w", len(sent), len(received), ErrMismatch))
	}
	for i := range sent {
		if err := compare(received[i].header(), sent[i].header(), e.rank, e.rank); err != nil {
			return e.give(err)
		}
		copy(fromSelf[i].bytes, toSelf[i].bytes)
	}
	if err := e.mesh.move(transfers, deadline); err != nil {
		return err
	}
	return e.give(storeAll(results))
}

// parts returns where the elements of a part begin and end, in bytes, if count elements are
// divided among the ranks.
func (o *operation) part(rank int) (start, end int64) {
	n, size := int64(o.comm.size), o.element.Size()
	return o.count * int64(rank) / n * size, o.count * int64(rank+1) / n * size
}

// collective runs an operation of all ranks.
func (e *hostEngine) collective(o *operation, deadline time.Time) error {
	n := o.bytes()
	size := int64(e.size)
	srcBytes, dstBytes := n, n
	switch o.kind {
	case opReduceScatter, opScatter:
		srcBytes *= size
	case opAllGather, opGather:
		dstBytes *= size
	case opAllToAll:
		srcBytes *= size
		dstBytes *= size
	}
	src, err := onHost(o.src, srcBytes, true)
	if err != nil {
		return e.give(err)
	}
	dst, err := onHost(o.dst, dstBytes, false)
	if err != nil {
		return e.give(err)
	}
	if err := e.exchangeParts(o, src.bytes, dst.bytes, deadline); err != nil {
		return err
	}
	return e.give(dst.store())
}

// exchangeParts moves and combines the elements of an operation.
func (e *hostEngine) exchangeParts(o *operation, src, dst []byte, deadline time.Time) error {
	n := o.bytes()
	partOf := func(all []byte, rank int) []byte {
		if all == nil {
			return nil
		}
		return all[int64(rank)*n : int64(rank+1)*n]
	}
	isRoot := e.rank == o.root
	switch o.kind {
	case opBroadcast:
		if isRoot {
			return e.round(o, func(int) []byte { return src }, nothing, deadline)
		}
		return e.round(o, nothing, onlyFrom(o.root, dst), deadline)
	case opGather:
		if !isRoot {
			return e.round(o, onlyFrom(o.root, src), nothing, deadline)
		}
		copy(partOf(dst, e.rank), src)
		return e.round(o, nothing, func(rank int) []byte { return partOf(dst, rank) }, deadline)
	case opScatter:
		if !isRoot {
			return e.round(o, nothing, onlyFrom(o.root, dst), deadline)
		}
		copy(dst, partOf(src, e.rank))
		return e.round(o, func(rank int) []byte { return partOf(src, rank) }, nothing, deadline)
	case opAllGather:
		copy(partOf(dst, e.rank), src)
		return e.round(o, func(int) []byte { return src }, func(rank int) []byte { return partOf(dst, rank) }, deadline)
	case opAllToAll:
		copy(partOf(dst, e.rank), partOf(src, e.rank))
		return e.round(o, func(rank int) []byte { return partOf(src, rank) }, func(rank int) []byte { return partOf(dst, rank) }, deadline)
	case opReduceScatter:
		return e.reduceRound(o, dst, func(rank int) []byte { return partOf(src, rank) }, deadline)
	case opReduce:
		if !isRoot {
			return e.round(o, onlyFrom(o.root, src), nothing, deadline)
		}
		return e.reduceRound(o, dst, func(rank int) []byte {
			if rank == e.rank {
				return src
			}
			return nil
		}, deadline)
	case opAllReduce:
		slice := func(all []byte, rank int) []byte { start, end := o.part(rank); return all[start:end] }
		mine := slice(dst, e.rank)
		if err := e.reduceRound(o, mine, func(rank int) []byte { return slice(src, rank) }, deadline); err != nil {
			return err
		}
		return e.round(o, func(int) []byte { return mine }, func(rank int) []byte { return slice(dst, rank) }, deadline)
	}
	return fmt.Errorf("%v: %w", o.kind, ErrMismatch)
}

func nothing(int) []byte { return nil }

// onlyFrom returns the bytes for one rank alone.
func onlyFrom(one int, bytes []byte) func(rank int) []byte {
	return func(rank int) []byte {
		if rank == one {
			return bytes
		}
		return nil
	}
}

// round sends and receives what the functions return for each other rank, after headers.
func (e *hostEngine) round(o *operation, send, receive func(rank int) []byte, deadline time.Time) error {
	header := o.asked.header()
	var transfers []transfer
	for rank := range e.size {
		if rank != e.rank {
			transfers = append(transfers, message(rank, header, send(rank))...)
			transfers = append(transfers, e.mesh.expect(rank, header, receive(rank))...)
		}
	}
	return e.mesh.move(transfers, deadline)
}

// reduceRound sends each rank its part, and writes the reduction of this rank's part, of which
// each rank has one, into out.
func (e *hostEngine) reduceRound(o *operation, out []byte, part func(rank int) []byte, deadline time.Time) error {
	received := make([][]byte, e.size)
	for rank := range received {
		if rank != e.rank {
			received[rank] = make([]byte, len(out))
		}
	}
	err := e.round(o, part, func(rank int) []byte { return received[rank] }, deadline)
	if err != nil || len(out) == 0 {
		return err
	}
	received[e.rank] = part(e.rank)
	if e.rank == 0 {
		received[0] = append([]byte(nil), received[0]...) // the sum: out may be the source
	}
	return e.give(combine(out, received, o.element, o.op))
}

// combine writes the reduction of the parts in their order into out. It overwrites the first
// part.
func combine(out []byte, parts [][]byte, element ndview.DType, op Op) error {
	wrap := func(b []byte) (*ndview.NDBuffer, error) {
		buffer := arrowbuf.WrapExternal(b, func() {})
		defer buffer.Release()
		return ndview.FromBuffer(buffer, element, 0, []int64{int64(len(b)) / element.Size()}, nil)
	}
	sum, err := wrap(parts[0])
	if err != nil {
		return err
	}
	defer sum.Release()
	combiner := map[Op]ndview.Binary{Sum: ndview.Add, Avg: ndview.Add, Prod: ndview.Multiply, Min: ndview.Fmin, Max: ndview.Fmax}[op]
	for _, p := range parts[1:] {
		part, err := wrap(p)
		if err == nil {
			err = combiner.Into(sum, sum, part)
			part.Release()
		}
		if err != nil {
			return err
		}
	}
	if op == Avg {
		if err := divide(sum, parts[0], int64(len(parts))); err != nil {
			return err
		}
	}
	copy(out, parts[0])
	return nil
}

// divide divides an array, whose bytes are given, by a number of ranks.
func divide(a *ndview.NDBuffer, bytes []byte, ranks int64) error {
	if a.DType().IsFloat() {
		return ndview.Divide.Into(a, a, float64(ranks))
	}
	switch a.DType() {
	case ndview.Int8:
		divideIntegers[int8](bytes, ranks)
	case ndview.Int32:
		divideIntegers[int32](bytes, ranks)
	case ndview.Int64:
		divideIntegers[int64](bytes, ranks)
	case ndview.Uint8:
		divideIntegers[uint8](bytes, ranks)
	case ndview.Uint32:
		divideIntegers[uint32](bytes, ranks)
	case ndview.Uint64:
		divideIntegers[uint64](bytes, ranks)
	default:
		return fmt.Errorf("average of %s: %w", a.DType(), ndview.ErrDType)
	}
	return nil
}

// divideIntegers divides integers in place, rounding towards zero. bytes are aligned, since
// they are an allocation.
func divideIntegers[T int8 | int32 | int64 | uint8 | uint32 | uint64](bytes []byte, by int64) {
	var zero T
	list := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/int(unsafe.Sizeof(zero)))
	if int64(T(by)) != by { // an int8 cannot be divided by 200
		for i, v := range list {
			list[i] = T(int64(v) / by)
		}
		return
	}
	for i := range list {
		list[i] /= T(by)
	}
}
