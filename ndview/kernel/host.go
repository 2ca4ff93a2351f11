package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// hostBlock is the number of elements that a host function receives at a time, at most.
const hostBlock = 512

// hostFunction is the Go function that the caller has written for a kernel. It receives a
// slice of elements per array and a value per scalar.
type hostFunction struct {
	call reflect.Value
	args []hostArg
	// out is the type of the elements of an additional first slice, or nil.
	out reflect.Type
}

// hostArg is the Go type of an argument's variables, and how elements are converted.
type hostArg struct {
	Arg
	typ    reflect.Type
	pieces []piece // of records in another layout than typ
}

// piece is bytes of a record, at their offsets in memory and in the Go struct.
type piece struct{ memory, local, size int64 }

// newHostFunction checks the type of a function: func([]T, ..., U, ...) with a slice per
// array and a value per scalar, after a slice of out if that is not nil.
func newHostFunction(f any, out reflect.Type, args []Arg) (*hostFunction, error) {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Func || v.IsNil() {
		return nil, fmt.Errorf("the host function: got %T, want a function that is not nil", f)
	}
	t, first := v.Type(), 0
	if out != nil {
		first = 1
	}
	if t.IsVariadic() || t.NumOut() != 0 || t.NumIn() != first+len(args) {
		return nil, fmt.Errorf("the host function: got %s, want %d parameters and no results", t, first+len(args))
	}
	if out != nil && t.In(0) != reflect.SliceOf(out) {
		return nil, fmt.Errorf("the host function: the first parameter is %s, want []%s", t.In(0), out)
	}
	h := &hostFunction{call: v, args: make([]hostArg, len(args)), out: out}
	for i, arg := range args {
		param := t.In(first + i)
		if !arg.Scalar {
			if param.Kind() != reflect.Slice {
				return nil, fmt.Errorf("the host function: argument %s is %s, want a slice", arg.Name, param)
			}
			param = param.Elem()
		}
		pieces, err := matchType(arg.DType, param)
		if err != nil {
			return nil, fmt.Errorf("the host function: argument %s: %w", arg.Name, err)
		}
		h.args[i] = hostArg{arg, param, pieces}
	}
	return h, nil
}

// kindsOf are the kinds of Go values for the variables of plain dtypes.
var kindsOf = map[dtype.DType]reflect.Kind{
	dtype.Bool: reflect.Bool, dtype.Int8: reflect.Int8, dtype.Int16: reflect.Int16, dtype.Int32: reflect.Int32, dtype.Int64: reflect.Int64,
	dtype.Uint8: reflect.Uint8, dtype.Uint16: reflect.Uint16, dtype.Uint32: reflect.Uint32, dtype.Uint64: reflect.Uint64,
	dtype.Float16: reflect.Float32, dtype.BFloat16: reflect.Float32, dtype.Float32: reflect.Float32, dtype.Float64: reflect.Float64,
	dtype.Complex64: reflect.Complex64, dtype.Complex128: reflect.Complex128,
}

// matchType returns an error unless variables of a dtype are values of a Go type. It
// returns pieces for a record whose layout in Go is another than in memory.
func matchType(t dtype.DType, typ reflect.Type) ([]piece, error) {
	if t.Kind() != dtype.KindRecord {
		if want, ok := kindsOf[t]; ok && typ.Kind() != want {
			return nil, fmt.Errorf("got Go type %s, want %s for %s: %w", typ, want, t, dtype.ErrDType)
		}
		if t.IsTime() && typ.Kind() != reflect.Int64 {
			return nil, fmt.Errorf("got Go type %s, want int64 for %s: %w", typ, t, dtype.ErrDType)
		}
		return nil, nil
	}
	pieces, err := matchStruct(nil, t, typ, 0, 0)
	if err != nil {
		return nil, err
	}
	if len(pieces) == 1 && int64(typ.Size()) == t.Size() {
		return nil, nil
	}
	return pieces, nil
}

// matchStruct appends the pieces of a record at offsets in memory and in the Go value.
func matchStruct(pieces []piece, t dtype.DType, typ reflect.Type, memory, local int64) ([]piece, error) {
	if typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("got Go type %s, want a struct for a record: %w", typ, dtype.ErrDType)
	}
	fields := t.Fields()
	if typ.NumField() != len(fields) {
		return nil, fmt.Errorf("got Go type %s with %d fields, want %d: %w", typ, typ.NumField(), len(fields), dtype.ErrDType)
	}
	for i, f := range fields {
		g := typ.Field(i)
		if !strings.EqualFold(g.Name, strings.ReplaceAll(f.Name, "_", "")) && !strings.EqualFold(g.Name, f.Name) {
			return nil, fmt.Errorf("field %q: got a Go field %s at its place: %w", f.Name, g.Name, dtype.ErrDType)
		}
		var err error
		if pieces, err = matchField(pieces, f, g.Type, memory+f.Offset, local+int64(g.Offset)); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return pieces, nil
}

// matchField appends the pieces of a field, whose subarray is a Go array.
func matchField(pieces []piece, f dtype.Field, typ reflect.Type, memory, local int64) ([]piece, error) {
	for _, n := range f.Shape {
		if typ.Kind() != reflect.Array || int64(typ.Len()) != n {
			return nil, fmt.Errorf("got Go type %s, want an array of %d: %w", typ, n, dtype.ErrDType)
		}
		typ = typ.Elem()
	}
	switch kind, n := f.DType.Kind(), f.DType.Size(); {
	case kind == dtype.KindRecord:
		for i := range layout.Product(f.Shape) {
			var err error
			if pieces, err = matchStruct(pieces, f.DType, typ, memory+i*n, local+i*int64(typ.Size())); err != nil {
				return nil, err
			}
		}
		return pieces, nil
	case kind == dtype.KindBytes:
		if typ.Kind() != reflect.Array || typ.Elem().Kind() != reflect.Uint8 || int64(typ.Len()) != n {
			return nil, fmt.Errorf("got Go type %s, want [%d]byte: %w", typ, n, dtype.ErrDType)
		}
	case isHalf(f.DType):
		if typ.Kind() != reflect.Uint16 {
			return nil, fmt.Errorf("got Go type %s, want uint16 for the bits of %s: %w", typ, f.DType, dtype.ErrDType)
		}
	default:
		if _, err := matchType(f.DType, typ); err != nil {
			return nil, err
		}
	}
	if n := len(pieces); n > 0 {
		if p := &pieces[n-1]; p.memory+p.size == memory && p.local+p.size == local {
			p.size += f.Size()
			return pieces, nil
		}
	}
	return append(pieces, piece{memory, local, f.Size()}), nil
}

// hostCall is the variables of a host function for one goroutine.
type hostCall struct {
	f         *hostFunction
	out       reflect.Value
	slices    []reflect.Value // of hostBlock elements, one per array
	values    []reflect.Value // one per argument: the scalar, or a slice of this block
	halves    [hostBlock]uint16
	addresses []unsafe.Pointer // of the first element in each slice, nil for scalars
}

// newCall returns variables, with the scalars set.
func (h *hostFunction) newCall(scalars [][]byte) *hostCall {
	c := &hostCall{f: h, slices: make([]reflect.Value, len(h.args)), addresses: make([]unsafe.Pointer, len(h.args))}
	first := 0
	if h.out != nil {
		c.out, first = reflect.MakeSlice(reflect.SliceOf(h.out), hostBlock, hostBlock), 1
	}
	c.values = make([]reflect.Value, first+len(h.args))
	for i := range h.args {
		arg := &h.args[i]
		if !arg.Scalar {
			c.slices[i] = reflect.MakeSlice(reflect.SliceOf(arg.typ), hostBlock, hostBlock)
			c.addresses[i] = c.slices[i].UnsafePointer()
			continue
		}
		v := reflect.New(arg.typ)
		c.load(arg, v.UnsafePointer(), unsafe.Pointer(unsafe.SliceData(scalars[i])), 1, 0)
		c.values[first+i] = v.Elem()
	}
	return c
}

// run calls the function for elements [lo, hi) of a nest. at has an address in each array,
// and base the bytes from there to the nest's first element. The sum of base and a stride
// is in the array, but base alone need not be. after is called after each block with the number of elements.
func (c *hostCall) run(n layout.Nest, at []unsafe.Pointer, base []int64, lo, hi int64, after func(n int64)) {
	for ; lo < hi; lo += hostBlock {
		size := min(hostBlock, hi-lo)
		c.transfer(n, at, base, lo, lo+size, false)
		c.invoke(size)
		c.transfer(n, at, base, lo, lo+size, true)
		if after != nil {
			after(size)
		}
	}
}

// invoke calls the function with the first n elements of its slices.
func (c *hostCall) invoke(n int64) {
	first := 0
	if c.f.out != nil {
		c.out.Clear()
		c.values[0], first = c.out.Slice(0, int(n)), 1
	}
	for i := range c.f.args {
		if !c.f.args[i].Scalar {
			c.values[first+i] = c.slices[i].Slice(0, int(n))
		}
	}
	c.f.call.Call(c.values)
}

// transfer loads the elements that are read, or stores those that are written. A
// variable that is only written is 0 before the call, as in C++.
func (c *hostCall) transfer(nest layout.Nest, at []unsafe.Pointer, base []int64, lo, hi int64, store bool) {
	inner := len(nest.Shape) - 1
	for done := lo; done < hi; {
		n := min(nest.Shape[inner]-done%nest.Shape[inner], hi-done)
		array := 0
		for i := range c.f.args {
			arg := &c.f.args[i]
			if arg.Scalar {
				continue
			}
			strides := nest.Strides[array]
			local := unsafe.Add(c.addresses[i], (done-lo)*int64(arg.typ.Size()))
			memory := unsafe.Add(at[array], base[array]+offsetOf(nest.Shape, strides, done))
			array++
			switch {
			case store && arg.Write:
				c.store(arg, memory, local, n, strides[inner])
			case store:
			case arg.Read:
				c.load(arg, local, memory, n, strides[inner])
			default:
				clear(unsafe.Slice((*byte)(local), n*int64(arg.typ.Size())))
			}
		}
		done += n
	}
}

// offsetOf returns the bytes from the first element of a nest to the element of a number.
func offsetOf(shape, strides []int64, number int64) (at int64) {
	for loop := len(shape) - 1; loop >= 0; loop-- {
		at += number % shape[loop] * strides[loop]
		number /= shape[loop]
	}
	return at
}

// load converts n elements in memory, stride bytes apart, to variables.
func (c *hostCall) load(arg *hostArg, local, memory unsafe.Pointer, n, stride int64) {
	switch {
	case isHalf(arg.DType):
		copyElements(unsafe.Pointer(&c.halves), memory, n, 2, stride, 2)
		if arg.DType == dtype.Float16 {
			half.Float16sToFloat32s(unsafe.Slice((*float32)(local), n), c.halves[:n])
		} else {
			half.BFloat16sToFloat32s(unsafe.Slice((*float32)(local), n), c.halves[:n])
		}
	case arg.pieces != nil:
		for _, p := range arg.pieces {
			copyElements(unsafe.Add(local, p.local), unsafe.Add(memory, p.memory), n, int64(arg.typ.Size()), stride, p.size)
		}
	default:
		copyElements(local, memory, n, arg.DType.Size(), stride, arg.DType.Size())
	}
}

// store converts n variables to elements in memory, stride bytes apart.
func (c *hostCall) store(arg *hostArg, memory, local unsafe.Pointer, n, stride int64) {
	switch {
	case isHalf(arg.DType):
		if arg.DType == dtype.Float16 {
			half.Float32sToFloat16s(c.halves[:n], unsafe.Slice((*float32)(local), n))
		} else {
			half.Float32sToBFloat16s(c.halves[:n], unsafe.Slice((*float32)(local), n))
		}
		copyElements(memory, unsafe.Pointer(&c.halves), n, stride, 2, 2)
	case arg.pieces != nil:
		for _, p := range arg.pieces {
			copyElements(unsafe.Add(memory, p.memory), unsafe.Add(local, p.local), n, stride, int64(arg.typ.Size()), p.size)
		}
	default:
		copyElements(memory, local, n, stride, arg.DType.Size(), arg.DType.Size())
	}
}

// copyElements copies n elements of size bytes between strides of to and from bytes.
func copyElements(dst, src unsafe.Pointer, n, to, from, size int64) {
	if to == size && from == size {
		copy(unsafe.Slice((*byte)(dst), n*size), unsafe.Slice((*byte)(src), n*size))
		return
	}
	aligned := (uint64(uintptr(dst))|uint64(uintptr(src))|uint64(to)|uint64(from))%uint64(size) == 0
	switch {
	case size == 4 && aligned:
		copyStrided[uint32](dst, src, n, to, from)
	case size == 8 && aligned:
		copyStrided[uint64](dst, src, n, to, from)
	case size == 2 && aligned:
		copyStrided[uint16](dst, src, n, to, from)
	default:
		for i := range n {
			copy(unsafe.Slice((*byte)(unsafe.Add(dst, i*to)), size), unsafe.Slice((*byte)(unsafe.Add(src, i*from)), size))
		}
	}
}

func copyStrided[T any](dst, src unsafe.Pointer, n, to, from int64) {
	for i := range n {
		*(*T)(unsafe.Add(dst, i*to)) = *(*T)(unsafe.Add(src, i*from))
	}
}

// parallelHost calls do with ranges of n tasks, in several goroutines. It returns an error
// if a host function panics, since that is the kernel's failure and not the device's.
func parallelHost(n, grain int64, do func(lo, hi int64)) error {
	var mu sync.Mutex
	var failure error
	cpu.Parallel(n, grain, func(lo, hi int64) {
		defer func() {
			if p := recover(); p != nil {
				mu.Lock()
				defer mu.Unlock()
				failure = errors.Join(failure, fmt.Errorf("the host function panicked: %v", p))
			}
		}()
		do(lo, hi)
	})
	return failure
}

// pointerArg returns pointer argument i of a launch, which accesses elements of a size at
// the offsets of the nests.
func pointerArg(l *cudabuf.HostLaunch, i int, size int64, array int, nests ...layout.Nest) unsafe.Pointer {
	low, high := int64(0), size
	for _, n := range nests {
		for k, extent := range n.Shape {
			if extent == 0 {
				return nil // no element is accessed
			}
			low += min((extent-1)*n.Strides[array][k], 0)
			high += max((extent-1)*n.Strides[array][k], 0)
		}
	}
	return launch.PointerArg(l, i, low, high)
}

// hostLaunchArgs returns the addresses of arrays and the bytes of scalars of a launch. The
// offsets of an element are the sums of those in the nests.
func hostLaunchArgs(l *cudabuf.HostLaunch, args []Arg, nests ...layout.Nest) (at []unsafe.Pointer, scalars [][]byte) {
	scalars = make([][]byte, len(args))
	for i, arg := range args {
		if arg.Scalar {
			scalars[i] = l.Struct(i, int(arg.DType.Size()))
			continue
		}
		at = append(at, pointerArg(l, i, arg.DType.Size(), len(at), nests...))
	}
	return at, scalars
}

// countArrays returns the number of arguments that are arrays.
func countArrays(args []Arg) (n int) {
	for _, arg := range args {
		if !arg.Scalar {
			n++
		}
	}
	return n
}

// structWords returns the n long longs of struct argument i.
func structWords(l *cudabuf.HostLaunch, i, n int) []int64 {
	words := make([]int64, n)
	for j, raw := 0, l.Struct(i, 8*n); j < n; j++ {
		words[j] = int64(binary.NativeEndian.Uint64(raw[8*j:]))
	}
	return words
}

// nestOf returns the nest that appendNest has written.
func nestOf(words []int64, loops, arrays int) layout.Nest {
	n := layout.Nest{Shape: words[:loops]}
	for a := range arrays {
		n.Strides = append(n.Strides, words[loops*(1+a):][:loops])
	}
	return n
}
