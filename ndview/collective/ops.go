package collective

import (
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Op is how a reduction combines the elements of all ranks.
type Op uint8

// The operators. Sums and products of integers wrap around. Min and Max ignore NaN beside a
// number, as [ndview.Fmin]. Avg divides the sum by the number of ranks; for integers it rounds
// towards zero. Of bools, Sum and Max are "or", Prod and Min are "and", and Avg is ErrDType.
// Of complex numbers, Min and Max are ErrDType. Times, bytes and records cannot be reduced.
//
// Floats are combined in the order of ranks on the CPU and the simulated device, and each
// step rounds to the type, so results are the same at each run and rank. NCCL chooses the
// order by the machine; results are the same at each rank.
const (
	Sum Op = iota
	Prod
	Min
	Max
	Avg
	opCount
)

var opNames = [opCount][]string{
	Sum: {"sum", "+", "add"}, Prod: {"prod", "*", "product", "mul"}, Min: {"min", "minimum"},
	Max: {"max", "maximum"}, Avg: {"avg", "average", "mean"},
}

// String returns the name, such as "sum".
func (o Op) String() string {
	if o >= opCount {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return opNames[o][0]
}

// ParseOp returns the operator of a name that pygpu or NCCL knows, in any case: sum, +, add,
// prod, *, product, mul, min, minimum, max, maximum, avg, average or mean.
func ParseOp(name string) (Op, error) {
	for op, names := range opNames {
		for _, known := range names {
			if strings.EqualFold(known, name) {
				return Op(op), nil
			}
		}
	}
	return 0, fmt.Errorf("collective.ParseOp: operator %q: want sum, prod, min, max or avg: %w", name, ndview.ErrDType)
}

// The methods of this file share these rules:
//
//   - Arrays lie on the communicator's device, in any layout. Layouts other than C order
//     are copied first. Elements are counted in C order.
//   - Methods without Into return a new array in C order, which the caller must release. It
//     belongs to the [ndview.Scope] of src, if that has one.
//   - dst may be src, or share memory with it.
//   - All ranks pass the same dtype, number of elements, operator and root. Shapes may differ.
//     On the CPU and the simulated device, a difference is ErrMismatch at all ranks, and ends
//     the communicator; on a GPU it is so with [Options.Check], and undefined without.
//   - Errors of the arguments alone are returned before the other ranks are concerned:
//     ErrShape, ErrDType, ErrReadOnly and ErrNil of package ndview, ErrRank, arrowbuf.ErrDevice.

// AllReduce returns the reduction of src over all ranks, at each rank.
func (c *Comm) AllReduce(src *ndview.NDBuffer, op Op) (*ndview.NDBuffer, error) {
	return c.into("AllReduce", src, src.Shape(), func(dst *ndview.NDBuffer) (*operation, error) { return c.allReduce(dst, src, op) })
}

// AllReduceInto writes the reduction of src over all ranks into dst, at each rank.
func (c *Comm) AllReduceInto(dst, src *ndview.NDBuffer, op Op) error {
	o, err := c.allReduce(dst, src, op)
	return c.submit("AllReduceInto", o, err)
}

func (c *Comm) allReduce(dst, src *ndview.NDBuffer, op Op) (*operation, error) {
	return c.reduction(opAllReduce, dst, src, op, 0, 1, 1)
}

// Reduce returns the reduction of src over all ranks at rank root, and nil at the others.
func (c *Comm) Reduce(src *ndview.NDBuffer, op Op, root int) (*ndview.NDBuffer, error) {
	if c.Rank() != root {
		return nil, c.ReduceInto(nil, src, op, root)
	}
	return c.into("Reduce", src, src.Shape(), func(dst *ndview.NDBuffer) (*operation, error) { return c.reduce(dst, src, op, root) })
}

// ReduceInto writes the reduction of src over all ranks into dst at rank root. The others
// ignore dst, which may be nil.
func (c *Comm) ReduceInto(dst, src *ndview.NDBuffer, op Op, root int) error {
	o, err := c.reduce(dst, src, op, root)
	return c.submit("ReduceInto", o, err)
}

func (c *Comm) reduce(dst, src *ndview.NDBuffer, op Op, root int) (*operation, error) {
	if err := c.checkRank("root", root); err != nil {
		return nil, err
	}
	if c.rank != root {
		dst = nil
	}
	return c.reduction(opReduce, dst, src, op, root, 1, 1)
}

// ReduceScatter returns this rank's part of the reduction of src over all ranks. The parts
// are those of the first axis, whose length must be a multiple of the number of ranks.
func (c *Comm) ReduceScatter(src *ndview.NDBuffer, op Op) (*ndview.NDBuffer, error) {
	shape, err := c.partShape(src)
	if err != nil {
		return nil, c.submit("ReduceScatter", nil, err)
	}
	return c.into("ReduceScatter", src, shape, func(dst *ndview.NDBuffer) (*operation, error) { return c.reduceScatter(dst, src, op) })
}

// ReduceScatterInto writes part number Rank of the reduction of src into dst. src has as many
// elements as all ranks' dst together.
func (c *Comm) ReduceScatterInto(dst, src *ndview.NDBuffer, op Op) error {
	o, err := c.reduceScatter(dst, src, op)
	return c.submit("ReduceScatterInto", o, err)
}

func (c *Comm) reduceScatter(dst, src *ndview.NDBuffer, op Op) (*operation, error) {
	return c.reduction(opReduceScatter, dst, src, op, 0, 1, int64(c.Size()))
}

// Broadcast copies the elements of a at rank root into a at all others.
func (c *Comm) Broadcast(a *ndview.NDBuffer, root int) error {
	o, err := c.broadcast(a, root)
	return c.submit("Broadcast", o, err)
}

func (c *Comm) broadcast(a *ndview.NDBuffer, root int) (*operation, error) {
	if err := c.checkRank("root", root); err != nil {
		return nil, err
	}
	if c.rank == root {
		return c.movement(opBroadcast, nil, a, root, 1, 1)
	}
	return c.movement(opBroadcast, a, nil, root, 1, 1)
}

// AllGather returns the elements of all ranks in the order of ranks: an array with another
// first axis, of one element per rank.
func (c *Comm) AllGather(src *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	return c.into("AllGather", src, c.gatheredShape(src), func(dst *ndview.NDBuffer) (*operation, error) { return c.allGather(dst, src) })
}

// AllGatherInto writes the elements of all ranks into dst in the order of ranks.
func (c *Comm) AllGatherInto(dst, src *ndview.NDBuffer) error {
	o, err := c.allGather(dst, src)
	return c.submit("AllGatherInto", o, err)
}

func (c *Comm) allGather(dst, src *ndview.NDBuffer) (*operation, error) {
	return c.movement(opAllGather, dst, src, 0, int64(c.Size()), 1)
}

// AllToAll sends part i of src to rank i, and returns the parts received in the order of
// ranks, in the shape of src. The parts are those of the first axis, whose length must be a
// multiple of the number of ranks.
func (c *Comm) AllToAll(src *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	if _, err := c.partShape(src); err != nil {
		return nil, c.submit("AllToAll", nil, err)
	}
	return c.into("AllToAll", src, src.Shape(), func(dst *ndview.NDBuffer) (*operation, error) { return c.allToAll(dst, src) })
}

// AllToAllInto sends part i of src to rank i, and writes the parts received into dst in the
// order of ranks. The parts are equal parts of the elements in C order.
func (c *Comm) AllToAllInto(dst, src *ndview.NDBuffer) error {
	o, err := c.allToAll(dst, src)
	return c.submit("AllToAllInto", o, err)
}

func (c *Comm) allToAll(dst, src *ndview.NDBuffer) (*operation, error) {
	return c.movement(opAllToAll, dst, src, 0, int64(c.Size()), int64(c.Size()))
}

// Gather returns the elements of all ranks in the order of ranks at rank root, as
// [Comm.AllGather], and nil at the others.
func (c *Comm) Gather(src *ndview.NDBuffer, root int) (*ndview.NDBuffer, error) {
	if c.Rank() != root {
		return nil, c.GatherInto(nil, src, root)
	}
	return c.into("Gather", src, c.gatheredShape(src), func(dst *ndview.NDBuffer) (*operation, error) { return c.gather(dst, src, root) })
}

// GatherInto writes the elements of all ranks into dst in the order of ranks at rank root.
// The others ignore dst, which may be nil.
func (c *Comm) GatherInto(dst, src *ndview.NDBuffer, root int) error {
	o, err := c.gather(dst, src, root)
	return c.submit("GatherInto", o, err)
}

func (c *Comm) gather(dst, src *ndview.NDBuffer, root int) (*operation, error) {
	if err := c.checkRank("root", root); err != nil {
		return nil, err
	}
	if c.rank != root {
		dst = nil
	}
	return c.movement(opGather, dst, src, root, int64(c.size), 1)
}

// ScatterInto writes part number Rank of rank root's src into dst. The parts are equal parts
// of the elements in C order. The other ranks ignore src, which may be nil.
func (c *Comm) ScatterInto(dst, src *ndview.NDBuffer, root int) error {
	o, err := c.scatter(dst, src, root)
	return c.submit("ScatterInto", o, err)
}

func (c *Comm) scatter(dst, src *ndview.NDBuffer, root int) (*operation, error) {
	if err := c.checkRank("root", root); err != nil {
		return nil, err
	}
	if c.rank != root {
		src = nil
	}
	return c.movement(opScatter, dst, src, root, 1, int64(c.size))
}

// Send sends the elements of a to a rank, which must call Recv. Sends to one rank arrive in
// order. Two ranks that send to each other must do so in a [Group]; outside of a group a rank
// cannot send to itself.
func (c *Comm) Send(a *ndview.NDBuffer, to int) error {
	if err := c.checkRank("receiver", to); err != nil {
		return c.submit("Send", nil, err)
	}
	o, err := c.movement(opSend, nil, a, to, 1, 1)
	return c.submit("Send", o, err)
}

// Recv receives the elements of a from a rank, which must call Send with as many elements of
// the same type.
func (c *Comm) Recv(a *ndview.NDBuffer, from int) error {
	if err := c.checkRank("sender", from); err != nil {
		return c.submit("Recv", nil, err)
	}
	o, err := c.movement(opRecv, a, nil, from, 1, 1)
	return c.submit("Recv", o, err)
}

// checkRank returns ErrRank unless the communicator has the rank.
func (c *Comm) checkRank(what string, rank int) error {
	if err := c.usable(); err != nil {
		return err
	}
	if rank < 0 || rank >= c.size {
		return fmt.Errorf("%s %d of %d ranks: %w", what, rank, c.size, ErrRank)
	}
	return nil
}

// partShape returns the shape of a part of src.
func (c *Comm) partShape(src *ndview.NDBuffer) ([]int64, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	if src == nil {
		return nil, fmt.Errorf("source: %w", ndview.ErrNil)
	}
	shape := append([]int64{}, src.Shape()...)
	if len(shape) == 0 || shape[0]%int64(c.size) != 0 {
		return nil, fmt.Errorf("shape %v: want a first axis of a multiple of %d: %w", shape, c.size, ndview.ErrShape)
	}
	shape[0] /= int64(c.size)
	return shape, nil
}

// gatheredShape returns the shape of the elements of all ranks.
func (c *Comm) gatheredShape(src *ndview.NDBuffer) []int64 {
	return append([]int64{int64(c.Size())}, src.Shape()...)
}

// into runs an operation that writes into a new array.
func (c *Comm) into(name string, src *ndview.NDBuffer, shape []int64, build func(dst *ndview.NDBuffer) (*operation, error)) (*ndview.NDBuffer, error) {
	err := c.usable()
	if err == nil && src == nil {
		err = fmt.Errorf("source: %w", ndview.ErrNil)
	}
	if err != nil {
		return nil, c.submit(name, nil, err)
	}
	dst, err := ndview.Empty(c.dev, src.DType(), shape...)
	if err != nil {
		return nil, c.submit(name, nil, err)
	}
	o, err := build(dst)
	if err := c.submit(name, o, err); err != nil {
		dst.Release()
		return nil, err
	}
	if s := src.Scope(); s != nil {
		return s.Add(dst, nil)
	}
	return dst, nil
}

// checkArray returns an error if an array is nil or lies on another device.
func (c *Comm) checkArray(what string, a *ndview.NDBuffer) error {
	if a == nil || a.Buffer() == nil {
		return fmt.Errorf("%s: %w", what, ndview.ErrNil)
	}
	if unwrapped(a.Device()) != unwrapped(c.dev) {
		return fmt.Errorf("%s on the wrong device: got %v, want %v: %w", what, a.Device(), c.dev, arrowbuf.ErrDevice)
	}
	return nil
}

// unwrapped returns the device that d wraps, or d.
func unwrapped(d arrowbuf.Device) arrowbuf.Device {
	for {
		w, ok := d.(interface{ Unwrap() arrowbuf.Device })
		if !ok {
			return d
		}
		d = w.Unwrap()
	}
}

// checkOperands checks the arrays of an operation. A rank without one of them passes nil. dst
// has dstParts parts and src srcParts; checkOperands returns the number of elements of one.
func (c *Comm) checkOperands(dst, src *ndview.NDBuffer, dstParts, srcParts int64) (count int64, dtype ndview.DType, err error) {
	if err := c.usable(); err != nil {
		return 0, dtype, err
	}
	if src != nil {
		if err := c.checkArray("source", src); err != nil {
			return 0, dtype, err
		}
		if src.Size()%srcParts != 0 {
			return 0, dtype, fmt.Errorf("source of %d elements: want a multiple of %d: %w", src.Size(), srcParts, ndview.ErrShape)
		}
		count, dtype = src.Size()/srcParts, src.DType()
	}
	if dst == nil {
		return count, dtype, nil
	}
	if err := c.checkArray("destination", dst); err != nil {
		return 0, dtype, err
	}
	if !dst.Flags().Writeable {
		return 0, dtype, fmt.Errorf("destination: %w", ndview.ErrReadOnly)
	}
	if src == nil {
		count, dtype = dst.Size()/dstParts, dst.DType()
	}
	if dst.DType() != dtype {
		return 0, dtype, fmt.Errorf("destination of %s, want %s as the source: %w", dst.DType(), dtype, ndview.ErrDType)
	}
	if dst.Size() != count*dstParts {
		return 0, dtype, fmt.Errorf("destination of %d elements, want %d: %w", dst.Size(), count*dstParts, ndview.ErrShape)
	}
	return count, dtype, nil
}

// memory is contiguous bytes that an operation reads or writes.
type memory struct {
	buffer arrowbuf.Buffer // nil if the rank has none
	offset int64
}

func memoryOf(a *ndview.NDBuffer) memory { return memory{a.Buffer(), a.Offset()} }

// address returns the address of the first byte.
func (m memory) address() uintptr { return m.buffer.Address() + uintptr(m.offset) }

// pointer returns the device memory for Stream.Enqueue.
func (m memory) pointer(writes bool) cudabuf.Pointer {
	b, _ := arrowbuf.As[*cudabuf.Buffer](m.buffer)
	if writes {
		return cudabuf.InOut(b, m.offset)
	}
	return cudabuf.In(b, m.offset)
}
