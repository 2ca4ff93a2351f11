package kernel

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// HostReduction does in Go what a [ReductionSource] does in C++. [NewHostReduction] makes
// it.
type HostReduction struct{ functions accumulator }

// NewHostReduction returns the Go functions of a reduction. T is Go's type for the
// result's dtype, as for [ElementwiseSource].Host. neutral and reduce are Neutral and
// Reduce.
//
// mapped is Map: a function func(values []T, x []A, ..., c C) that sets each element of
// values. It has a slice per array and a value per scalar, in the order of the arguments.
// It is nil if Map is empty, so that the elements of the only argument, of type T, are
// reduced themselves. All functions may be called from several goroutines.
func NewHostReduction[T any](neutral T, reduce func(a, b T) T, mapped any) *HostReduction {
	return &HostReduction{&typedReduction[T]{neutral, reduce, mapped}}
}

// accumulator is a HostReduction of any type T. Values are passed as addresses of T.
type accumulator interface {
	// check returns an error if a function is missing.
	check() error
	typ() reflect.Type
	// mapping returns the function that sets values, or nil.
	mapping() any
	setNeutral(at unsafe.Pointer)
	// fold reduces n values into the one at into.
	fold(into, values unsafe.Pointer, n int64)
}

type typedReduction[T any] struct {
	neutral T
	reduce  func(a, b T) T
	mapped  any
}

func (r *typedReduction[T]) check() error {
	if r.reduce == nil {
		return errors.New("Host: reduce is nil")
	}
	return nil
}

func (r *typedReduction[T]) typ() reflect.Type            { return reflect.TypeFor[T]() }
func (r *typedReduction[T]) mapping() any                 { return r.mapped }
func (r *typedReduction[T]) setNeutral(at unsafe.Pointer) { *(*T)(at) = r.neutral }

func (r *typedReduction[T]) fold(into, values unsafe.Pointer, n int64) {
	acc := *(*T)(into)
	for _, v := range unsafe.Slice((*T)(values), n) {
		acc = r.reduce(acc, v)
	}
	*(*T)(into) = acc
}

// reductionHost is a HostReduction that fits the arguments of a kernel.
type reductionHost struct {
	accumulator
	values *hostFunction // sets the values to reduce
	result hostArg       // how accumulators become elements of the result
	size   int64         // bytes of an accumulator
}

// newReductionHost checks the functions of a reduction to elements of out.
func newReductionHost(h *HostReduction, out dtype.DType, args []Arg) (*reductionHost, error) {
	if h.functions == nil {
		return nil, errors.New("Host: got a HostReduction that NewHostReduction has not made")
	}
	if err := h.functions.check(); err != nil {
		return nil, err
	}
	typ := h.functions.typ()
	pieces, err := matchType(out, typ)
	if err != nil {
		return nil, fmt.Errorf("Host: the result: %w", err)
	}
	r := &reductionHost{accumulator: h.functions, result: hostArg{Arg{DType: out, Write: true}, typ, pieces}, size: int64(typ.Size())}
	if f := h.functions.mapping(); f != nil {
		r.values, err = newHostFunction(f, typ, args)
		return r, err
	}
	if len(args) != 1 {
		return nil, fmt.Errorf("Host: mapped is nil, but there are %d arguments", len(args))
	}
	same := reflect.MakeFunc(reflect.FuncOf([]reflect.Type{reflect.SliceOf(typ), reflect.SliceOf(typ)}, nil, false), func(in []reflect.Value) []reflect.Value {
		reflect.Copy(in[0], in[1])
		return nil
	})
	if r.values, err = newHostFunction(same.Interface(), typ, args); err != nil {
		return nil, fmt.Errorf("%w: Host's mapped is nil", err)
	}
	return r, nil
}

// reductionLoops are the loops of a reduction. The first strides of outer are those of
// the result, the others those of the arrays. Each result is made of `each` elements, in
// parts of per elements.
type reductionLoops struct {
	outer, inner              layout.Nest
	results, each, parts, per int64
}

// accumulate computes the accumulators of all parts of all results. at has the address of
// each array's first element.
func (h *reductionHost) accumulate(l *reductionLoops, at []unsafe.Pointer, scalars [][]byte, accs unsafe.Pointer) error {
	grain := max(hostGrain/max(min(l.per, l.each), 1), 1)
	return parallelHost(l.results*l.parts, grain, func(lo, hi int64) {
		call, base := h.values.newCall(scalars), make([]int64, len(at))
		for i := lo; i < hi; i++ {
			acc := unsafe.Add(accs, i*h.size)
			h.setNeutral(acc)
			for a := range at {
				base[a] = offsetOf(l.outer.Shape, l.outer.Strides[1+a], i/l.parts)
			}
			first := i % l.parts * l.per
			call.run(l.inner, at, base, first, min(first+l.per, l.each), func(n int64) {
				h.fold(acc, call.out.UnsafePointer(), n)
			})
		}
	})
}

// finish reduces the parts of each result and stores it.
func (h *reductionHost) finish(l *reductionLoops, accs, out unsafe.Pointer) error {
	return parallelHost(l.results, hostGrain, func(lo, hi int64) {
		store := &hostCall{f: h.values}
		result := reflect.New(h.result.typ).UnsafePointer()
		for i := lo; i < hi; i++ {
			h.setNeutral(result)
			h.fold(result, unsafe.Add(accs, i*l.parts*h.size), l.parts)
			store.store(&h.result, unsafe.Add(out, offsetOf(l.outer.Shape, l.outer.Strides[0], i)), result, 1, 0)
		}
	})
}

// allocate returns memory of n accumulators, aligned for any of them. They have no
// pointers.
func (h *reductionHost) allocate(n int64) unsafe.Pointer {
	return reflect.MakeSlice(reflect.SliceOf(h.result.typ), int(n), int(n)).UnsafePointer()
}

// run reduces arrays in host memory.
func (h *reductionHost) run(l *reductionLoops, at []unsafe.Pointer, scalars [][]byte, out unsafe.Pointer) error {
	accs := h.allocate(l.results * l.parts)
	if err := h.accumulate(l, at, scalars, accs); err != nil {
		return err
	}
	return h.finish(l, accs, out)
}

// hostKernels returns the host kernels for a number of loops over results and elements.
func (k *Reduction) hostKernels(kept, reduced int) map[string]cudabuf.HostKernel {
	arrays, h := countArrays(k.args), k.host
	loopsOf := func(l *cudabuf.HostLaunch, i int) *reductionLoops {
		w := structWords(l, i, 4+kept*(2+arrays)+reduced*(1+arrays))
		return &reductionLoops{nestOf(w[4:], kept, arrays+1), nestOf(w[4+kept*(2+arrays):], reduced, arrays), w[0], w[1], w[2], w[3]}
	}
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	accumulators := func(l *cudabuf.HostLaunch, i int, n int64) unsafe.Pointer {
		return unsafe.Pointer(unsafe.SliceData(l.Memory(l.Pointer(i), n*h.size)))
	}
	return map[string]cudabuf.HostKernel{
		entryPoint: func(l *cudabuf.HostLaunch) {
			loops := loopsOf(l, len(k.args)+1)
			arraysOnly := layout.Nest{Shape: loops.outer.Shape, Strides: loops.outer.Strides[1:]}
			at, scalars := hostLaunchArgs(l, k.args, arraysOnly, loops.inner)
			check(h.accumulate(loops, at, scalars, accumulators(l, len(k.args), loops.results*loops.parts)))
		},
		entryPoint + "_rest": func(l *cudabuf.HostLaunch) {
			loops := loopsOf(l, 2)
			onlyOut := layout.Nest{Shape: loops.outer.Shape, Strides: loops.outer.Strides[:1]}
			out := pointerArg(l, 1, k.source.Out.Size(), 0, onlyOut)
			check(h.finish(loops, accumulators(l, 0, loops.results*loops.parts), out))
		},
	}
}
