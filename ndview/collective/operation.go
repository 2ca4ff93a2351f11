package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/quiver-gpu/quiver/ndview"
)

// opKind is what an operation does.
type opKind uint8

const (
	opAllReduce opKind = iota
	opReduce
	opReduceScatter
	opBroadcast
	opAllGather
	opAllToAll
	opGather
	opScatter
	opSend
	opRecv
	opSplit
	opSetup
	opBatch
	opBatches
)

var kindNames = [...]string{
	opAllReduce: "AllReduce", opReduce: "Reduce", opReduceScatter: "ReduceScatter", opBroadcast: "Broadcast",
	opAllGather: "AllGather", opAllToAll: "AllToAll", opGather: "Gather", opScatter: "Scatter", opSend: "Send",
	opRecv: "Recv", opSplit: "Split", opSetup: "the start",
	opBatch: "SendBatch or RecvBatch", opBatches: "an exchange of batches",
}

func (k opKind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("operation %d", uint8(k))
	}
	return kindNames[k]
}

func (k opKind) reduces() bool { return k <= opReduceScatter }
func (k opKind) isPeer() bool  { return k == opSend || k == opRecv }

// operands reports whether a rank reads a source and writes a destination.
func (k opKind) operands(isRoot bool) (reads, writes bool) {
	switch k {
	case opBroadcast:
		return isRoot, !isRoot
	case opReduce, opGather:
		return true, isRoot
	case opScatter:
		return isRoot, true
	case opSend:
		return true, false
	case opRecv:
		return false, true
	}
	return true, true
}

// operation is an operation of one rank, ready for an engine: src and dst are contiguous, and
// their elements have a type that engines know.
type operation struct {
	comm     *comm
	kind     opKind
	op       Op
	root     int // or the other rank of opSend and opRecv
	src, dst memory
	count    int64        // elements of one part
	element  ndview.DType // as engines compute it; Uint8 for moved bytes

	// What the caller asked for, which ranks compare.
	asked signature

	after []func() error // converts the result
	held  []*ndview.NDBuffer
}

// signature is what ranks compare.
type signature struct {
	kind  opKind
	op    Op
	root  int
	count int64
	dtype ndview.DType
}

// bytes returns the number of bytes of one part.
func (o *operation) bytes() int64 { return o.count * o.element.Size() }

// release releases the arrays of the operation.
func (o *operation) release() {
	for _, a := range o.held {
		a.Release()
	}
	o.held = nil
}

// finish converts the results.
func (o *operation) finish() error {
	for _, f := range o.after {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps a new array until the operation is done.
func (o *operation) hold(a *ndview.NDBuffer, err error) (*ndview.NDBuffer, error) {
	if err == nil {
		o.held = append(o.held, a)
	}
	return a, err
}

// retain keeps an array of the caller until the operation is done.
func (o *operation) retain(a *ndview.NDBuffer) error {
	if err := a.TryRetain(); err != nil {
		return err
	}
	o.held = append(o.held, a)
	return nil
}

// read sets the source to the elements of a, copied unless they are contiguous.
func (o *operation) read(a *ndview.NDBuffer) error {
	if a.IsContiguous() && aligned(a, o.element) {
		o.src = memoryOf(a)
		return o.retain(a)
	}
	return o.readCopy(a)
}

func (o *operation) readCopy(a *ndview.NDBuffer) error {
	// AsArray, so that the copy belongs to no scope.
	whole, err := o.hold(unscoped(a.Copy(ndview.OrderC)))
	if err == nil {
		o.src = memoryOf(whole)
	}
	return err
}

// write sets the destination to the elements of a, through a copy unless they are contiguous.
func (o *operation) write(a *ndview.NDBuffer) error {
	if a.IsContiguous() && aligned(a, o.element) {
		o.dst = memoryOf(a)
		return o.retain(a)
	}
	if err := o.retain(a); err != nil {
		return err
	}
	whole, err := o.hold(ndview.Empty(o.comm.dev, a.DType(), a.Shape()...))
	if err != nil {
		return err
	}
	o.dst = memoryOf(whole)
	o.after = append(o.after, func() error { return a.CopyFrom(whole) })
	return nil
}

// aligned reports whether the first element of a contiguous array may be an element of t.
func aligned(a *ndview.NDBuffer, t ndview.DType) bool {
	return (int64(a.Buffer().Address())+a.Offset())%t.Alignment() == 0
}

// unscoped takes a new array out of the scope that it joined.
func unscoped(a *ndview.NDBuffer, err error) (*ndview.NDBuffer, error) {
	if err != nil {
		return nil, err
	}
	if s := a.Scope(); s != nil {
		return s.Keep(a)
	}
	return a, nil
}

// movement returns an operation that moves elements as bytes.
func (c *Comm) movement(kind opKind, dst, src *ndview.NDBuffer, root int, dstParts, srcParts int64) (*operation, error) {
	count, dtype, err := c.checkOperands(dst, src, dstParts, srcParts)
	if err != nil {
		return nil, err
	}
	reads, writes := kind.operands(c.rank == root)
	switch {
	case reads && src == nil:
		return nil, fmt.Errorf("source: %w", ndview.ErrNil)
	case writes && dst == nil:
		return nil, fmt.Errorf("destination: %w", ndview.ErrNil)
	}
	o := &operation{comm: c.comm, kind: kind, root: root, element: ndview.Uint8, count: count * dtype.Size(),
		asked: signature{kind, 0, root, count, dtype}}
	if src != nil {
		err = o.read(src)
	}
	if err == nil && dst != nil {
		err = o.write(dst)
	}
	if err == nil {
		err = o.separate(dst, src)
	}
	if err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// separate copies the source if it overlaps the destination, other than at the place that
// the operation writes the same elements to.
func (o *operation) separate(dst, src *ndview.NDBuffer) error {
	if o.src.buffer == nil || o.dst.buffer == nil || !ndview.MayShareMemory(dst, src) {
		return nil
	}
	place := o.src.address()
	switch o.kind {
	case opAllGather, opGather:
		place -= uintptr(int64(o.comm.rank) * o.bytes())
	case opReduceScatter, opScatter:
		place += uintptr(int64(o.comm.rank) * o.bytes())
	case opAllToAll:
		place = 0 // parts change places
	}
	if place == o.dst.address() {
		return nil
	}
	return o.readCopy(src)
}

// reduction returns an operation that combines elements.
func (c *Comm) reduction(kind opKind, dst, src *ndview.NDBuffer, op Op, root int, dstParts, srcParts int64) (*operation, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	if src == nil {
		return nil, fmt.Errorf("source: %w", ndview.ErrNil)
	}
	if _, writes := kind.operands(c.rank == root); writes && dst == nil {
		return nil, fmt.Errorf("destination: %w", ndview.ErrNil)
	}
	if op >= opCount {
		return nil, fmt.Errorf("operator %v: %w", op, errors.ErrUnsupported)
	}
	count, dtype, err := c.checkOperands(dst, src, dstParts, srcParts)
	if err != nil {
		return nil, err
	}
	o := &operation{comm: c.comm, kind: kind, op: op, root: root, element: dtype, count: count,
		asked: signature{kind, op, root, count, dtype}}
	if err := o.chooseElement(dst, src); err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// chooseElement sets the operands of a reduction, in a type that engines compute.
func (o *operation) chooseElement(dst, src *ndview.NDBuffer) error {
	dtype := o.element
	switch {
	case dtype == ndview.Bool && o.op != Avg:
		o.element = ndview.Uint8
		o.op = map[Op]Op{Sum: Max, Max: Max, Prod: Min, Min: Min}[o.op]
	case dtype == ndview.Int16:
		return o.reduceAs(ndview.Int32, dst, src)
	case dtype == ndview.Uint16:
		return o.reduceAs(ndview.Uint32, dst, src)
	case dtype.Kind() == ndview.KindComplex && (o.op == Sum || o.op == Avg):
		o.element = ndview.Float32
		if dtype == ndview.Complex128 {
			o.element = ndview.Float64
		}
		o.count *= 2
	case dtype.Kind() == ndview.KindComplex && o.op == Prod:
		return o.reduceGathered(dst, src)
	case dtype.IsInteger() || dtype.IsFloat():
	default:
		return fmt.Errorf("%v of %s: %w", o.op, dtype, ndview.ErrDType)
	}
	err := o.read(src)
	if err == nil && dst != nil {
		err = o.write(dst)
	}
	if err == nil {
		err = o.separate(dst, src)
	}
	return err
}

// reduceAs computes in another type, which NCCL has.
func (o *operation) reduceAs(t ndview.DType, dst, src *ndview.NDBuffer) error {
	o.element = t
	converted, err := o.hold(unscoped(src.AsType(t, ndview.OrderC, ndview.CastSafe)))
	if err != nil {
		return err
	}
	o.src = memoryOf(converted)
	if dst == nil {
		return nil
	}
	if err := o.retain(dst); err != nil {
		return err
	}
	result, err := o.hold(ndview.Empty(o.comm.dev, t, dst.Shape()...))
	if err != nil {
		return err
	}
	o.dst = memoryOf(result)
	o.after = append(o.after, func() error { return dst.Assign(result) })
	return nil
}

// reduceGathered moves the elements of all ranks to those that combine them.
func (o *operation) reduceGathered(dst, src *ndview.NDBuffer) error {
	dtype, count := o.element, o.count
	o.kind = map[opKind]opKind{opAllReduce: opAllGather, opReduce: opGather, opReduceScatter: opAllToAll}[o.kind]
	o.element, o.count = ndview.Uint8, count*dtype.Size()
	if err := o.read(src); err != nil || dst == nil {
		return err
	}
	if err := o.retain(dst); err != nil {
		return err
	}
	all, err := o.hold(ndview.Empty(o.comm.dev, dtype, int64(o.comm.size), count))
	if err != nil {
		return err
	}
	o.dst = memoryOf(all)
	o.after = append(o.after, func() error { return multiplyRows(dst, all) })
	return nil
}

// multiplyRows writes the product of the rows of all, in their order, into dst.
func multiplyRows(dst, all *ndview.NDBuffer) error {
	product, err := all.Index(ndview.At(0))
	if err != nil {
		return err
	}
	defer product.Release()
	for rank := range all.Shape()[0] - 1 {
		row, err := all.Index(ndview.At(rank + 1))
		if err == nil {
			err = ndview.Multiply.Into(product, product, row)
			row.Release()
		}
		if err != nil {
			return err
		}
	}
	shaped, err := product.Reshape(dst.Shape()...)
	if err != nil {
		return err
	}
	defer shaped.Release()
	return dst.CopyFrom(shaped)
}

// header is a signature as ranks send it.
const (
	headerMagic = "QVCH"
	headerBytes = 64
	headerText  = 32 // where the name of the dtype begins
)

// header returns the signature in its form between ranks.
func (s signature) header() []byte {
	h := make([]byte, headerBytes)
	copy(h, headerMagic)
	h[4], h[5] = byte(s.kind), byte(s.op)
	binary.LittleEndian.PutUint32(h[8:], uint32(s.root))
	binary.LittleEndian.PutUint64(h[16:], uint64(s.count))
	name := s.dtype.String()
	sum := fnv.New64a()
	sum.Write([]byte(name)) // never fails
	binary.LittleEndian.PutUint64(h[24:], sum.Sum64())
	copy(h[headerText:], name)
	return h
}

// describe returns the text of a header for errors.
func describe(h []byte) string {
	if len(h) != headerBytes || string(h[:4]) != headerMagic {
		return "something that is no operation"
	}
	kind := opKind(h[4])
	if kind >= opSplit {
		return kind.String()
	}
	text := ""
	for _, b := range h[headerText:] {
		if b >= ' ' && b <= '~' {
			text += string(b)
		}
	}
	text = fmt.Sprintf("%v of %d elements of %s", kind, int64(binary.LittleEndian.Uint64(h[16:])), text)
	if kind.reduces() {
		text += " by " + Op(h[5]).String()
	}
	switch kind {
	case opReduce, opBroadcast, opGather, opScatter:
		text += fmt.Sprintf(" with root %d", int32(binary.LittleEndian.Uint32(h[8:])))
	}
	return text
}

// compare returns ErrMismatch unless the header of another rank is the wanted one.
func compare(mine, theirs []byte, rank, other int) error {
	if string(mine) == string(theirs) {
		return nil
	}
	return fmt.Errorf("rank %d calls %s, rank %d calls %s: %w", rank, describe(mine), other, describe(theirs), ErrMismatch)
}
