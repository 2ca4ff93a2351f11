package kernel

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// operands are the values of a kernel's arguments, checked against them.
type operands struct {
	arrays   []*ndview.NDBuffer // one per argument, nil for scalars
	scalars  [][]byte           // one per argument, nil for arrays
	retained []*ndview.NDBuffer // released by release
}

// bind checks values against arguments. The caller must release the result.
func bind(dev arrowbuf.Device, args []Arg, values []any) (*operands, error) {
	if len(values) != len(args) {
		return nil, fmt.Errorf("got %d operands, want %d, one per argument", len(values), len(args))
	}
	o := &operands{arrays: make([]*ndview.NDBuffer, len(args)), scalars: make([][]byte, len(args))}
	for i, arg := range args {
		if err := o.bindArg(dev, i, arg, values[i]); err != nil {
			o.release()
			return nil, fmt.Errorf("argument %s: %w", arg.Name, err)
		}
	}
	return o, nil
}

func (o *operands) bindArg(dev arrowbuf.Device, i int, arg Arg, value any) error {
	a, isArray := value.(*ndview.NDBuffer)
	if arg.Scalar {
		if isArray {
			return fmt.Errorf("got an array, want a scalar: %w", dtype.ErrDType)
		}
		var err error
		o.scalars[i], err = scalarBytes(arg.DType, value)
		return err
	}
	if !isArray {
		return fmt.Errorf("got %T, want an array: %w", value, dtype.ErrDType)
	}
	if a == nil {
		return fmt.Errorf("got a nil array: %w", dtype.ErrDType)
	}
	if err := a.TryRetain(); err != nil {
		return err
	}
	o.arrays[i], o.retained = a, append(o.retained, a)
	flags := a.Flags()
	switch {
	case a.DType() != arg.DType:
		return fmt.Errorf("got an array of %s, want %s: %w", a.DType(), arg.DType, dtype.ErrDType)
	case a.Device() != dev:
		return fmt.Errorf("got an array on %s, want one on %s: %w", a.Device(), dev, arrowbuf.ErrDevice)
	case arg.Write && !flags.Writeable:
		return fmt.Errorf("writing to an array of %s %v: %w", a.DType(), a.Shape(), ndview.ErrReadOnly)
	case !flags.Aligned:
		return fmt.Errorf("offset %d and strides %v of the array are not multiples of %d: %w", a.Offset(), a.Strides(), a.DType().Alignment(), ndview.ErrShape)
	}
	return nil
}

// scalarBytes returns an element of dtype t: of a Go number that the dtype represents, or
// for a record of a Go struct with its fields.
func scalarBytes(t dtype.DType, value any) ([]byte, error) {
	if t.Kind() != dtype.KindRecord {
		s, err := dtype.ScalarOf(value)
		if err != nil {
			return nil, err
		}
		return s.Bytes(t)
	}
	if value == nil {
		return nil, fmt.Errorf("got nil, want a struct for a record: %w", dtype.ErrDType)
	}
	v := reflect.ValueOf(value)
	pieces, err := matchStruct(nil, t, v.Type(), 0, 0)
	if err != nil {
		return nil, err
	}
	local, raw := reflect.New(v.Type()), make([]byte, t.Size())
	local.Elem().Set(v)
	for _, p := range pieces {
		copy(raw[p.memory:][:p.size], unsafe.Slice((*byte)(unsafe.Add(local.UnsafePointer(), p.local)), p.size))
	}
	return raw, nil
}

func (o *operands) release() {
	for _, a := range o.retained {
		a.Release()
	}
}

// replaceByCopy makes argument i a copy in C order.
func (o *operands) replaceByCopy(i int) error {
	copied, err := o.arrays[i].Copy(ndview.OrderC)
	if err == nil {
		o.arrays[i], o.retained = copied, append(o.retained, copied)
	}
	return err
}

// separate copies arrays so that no write changes an element before it is read. An
// array that shares memory with a written one is copied, unless both have the same
// elements at the same addresses. Written arrays that share memory are an error.
func (o *operands) separate(args []Arg) error {
	for i, out := range o.arrays {
		if out == nil || !args[i].Write {
			continue
		}
		if overlapsItself(out) {
			return fmt.Errorf("argument %s is written, but its elements share memory: %w", args[i].Name, ndview.ErrShape)
		}
		for j, other := range o.arrays {
			if j == i || other == nil || !ndview.MayShareMemory(out, other) {
				continue
			}
			if args[j].Write {
				return fmt.Errorf("arguments %s and %s are written, but share memory: %w", args[i].Name, args[j].Name, ndview.ErrShape)
			}
			if sameLayout(out, other) {
				continue
			}
			if err := o.replaceByCopy(j); err != nil {
				return err
			}
		}
	}
	return nil
}

// overlapsItself reports whether two elements of an array share memory.
func overlapsItself(a *ndview.NDBuffer) bool {
	return layout.Run{Offset: a.Offset(), Size: a.DType().Size(), Shape: a.Shape(), Strides: a.Strides()}.Overlaps()
}

// sameLayout reports whether each element of a lies at the address of the element of b
// with the same index.
func sameLayout(a, b *ndview.NDBuffer) bool {
	return int64(a.Buffer().Address())+a.Offset() == int64(b.Buffer().Address())+b.Offset() &&
		slices.Equal(a.Shape(), b.Shape()) && slices.Equal(a.Strides(), b.Strides())
}

// hostAddresses returns the address of the element [0, ..., 0] of each array plus its
// offset, or an error wrapping arrowbuf.ErrDevice if the host cannot access an array.
// There must be elements.
func (o *operands) hostAddresses(offsets []int64) ([]unsafe.Pointer, error) {
	addresses := make([]unsafe.Pointer, 0, len(offsets))
	for _, a := range o.arrays {
		if a == nil {
			continue
		}
		at, err := hostAddress(a, offsets[len(addresses)])
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, at)
	}
	return addresses, nil
}

// hostAddress returns the address of a byte, counted from the element [0, ..., 0].
func hostAddress(a *ndview.NDBuffer, offset int64) (unsafe.Pointer, error) {
	raw, ok := arrowbuf.HostBytes(a.Buffer())
	if !ok {
		return nil, fmt.Errorf("the host cannot access memory of %s: %w", a.Device(), arrowbuf.ErrDevice)
	}
	return unsafe.Pointer(&raw[a.Offset()+offset]), nil
}

// launchArgs returns the arguments of a launch. offsets, one per array, are bytes from
// the array's element [0, ..., 0].
func (o *operands) launchArgs(args []Arg, offsets []int64) []any {
	launched := make([]any, 0, len(args)+2) // callers append up to 2
	array := 0
	for i, a := range o.arrays {
		if a == nil {
			launched = append(launched, o.scalars[i])
			continue
		}
		buf, at := launch.CUDABuffer(a.Buffer()), a.Offset()+offsets[array]
		array++
		if args[i].Write {
			launched = append(launched, cudabuf.InOut(buf, at))
		} else {
			launched = append(launched, cudabuf.In(buf, at))
		}
	}
	return launched
}

// broadcastShape is the shape to which a kernel's arrays broadcast.
type broadcastShape struct {
	shape   []int64
	strides [][]int64 // per array, for shape
	sizes   []int64   // per array, the bytes of an element
}

// broadcast broadcasts the arrays. Written arrays must have the resulting shape.
func (o *operands) broadcast(args []Arg) (b broadcastShape, err error) {
	var shapes [][]int64
	for _, a := range o.arrays {
		if a != nil {
			shapes = append(shapes, a.Shape())
		}
	}
	if len(shapes) == 0 {
		return b, errors.New("no operand is an array")
	}
	if b.shape, err = layout.Broadcast(shapes...); err != nil {
		return b, err
	}
	for i, a := range o.arrays {
		if a == nil {
			continue
		}
		if args[i].Write && !slices.Equal(a.Shape(), b.shape) {
			return b, fmt.Errorf("argument %s is written: got shape %v, want %v: %w", args[i].Name, a.Shape(), b.shape, ndview.ErrShape)
		}
		strides, err := layout.BroadcastStrides(a.Shape(), a.Strides(), b.shape)
		if err != nil {
			return b, err
		}
		b.strides, b.sizes = append(b.strides, strides), append(b.sizes, a.DType().Size())
	}
	return b, nil
}

// fits32 reports whether 32 bits count all elements and all bytes of each array.
func (b *broadcastShape) fits32() bool {
	for i, strides := range b.strides {
		if !fits32(b.sizes[i], b.shape, strides) {
			return false
		}
	}
	return true
}

func fits32(size int64, shape, strides []int64) bool {
	low, high, ok := layout.ByteBounds(size, 0, shape, strides)
	return ok && layout.Product(shape) <= math.MaxInt32 && high-low <= math.MaxInt32
}

// formKey names everything about a nest of loops on which a source depends: the number
// of loops and the width of indices. For a single loop it also names the arrays that have
// a stride of 0 or no gaps.
func formKey(n layout.Nest, sizes []int64, small bool) string {
	form := []byte{byte(len(n.Shape)), 'L'}
	if small {
		form[1] = 'S'
	}
	if len(n.Shape) == 1 {
		for i, size := range sizes {
			switch n.Strides[i][0] {
			case 0:
				form = append(form, '0')
			case size:
				form = append(form, '1')
			default:
				form = append(form, '-')
			}
		}
	}
	return string(form) + "/"
}

// withLoop returns a nest of at least one loop: sources declare arrays of that length,
// and C++ has none of length 0.
func withLoop(n layout.Nest) layout.Nest {
	if len(n.Shape) > 0 {
		return n
	}
	n.Shape = []int64{1}
	for i := range n.Strides {
		n.Strides[i] = []int64{0}
	}
	return n
}
