package ndview

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// ReductionSource is a reduction in expressions of CUDA C++, of the type that
// variables of the result's dtype have.
type ReductionSource struct {
	Out DType // of the result, in whose C++ type is accumulated
	// Neutral is what reducing nothing gives, and changes nothing: "0".
	Neutral string
	// Reduce makes one of two, called a and b: "a + b". The order in which it
	// meets elements is not defined.
	Reduce string
	// Map is what is reduced, for each element of the arguments: "x * y". With
	// one argument it may be "", which means the argument.
	Map string
	// Preamble is C++ before the kernel, for functions of the expressions' own.
	Preamble string
}

// ReductionKernel is a reduction that a program writes itself. It may be used
// from any goroutine.
type ReductionKernel struct {
	dev    *cudabuf.Device
	source ReductionSource
	args   []KernelArg

	programs sync.Map // by form
}

// NewReductionKernel makes a reduction over elements of the arguments, which are
// read or scalars. It is compiled as an Elementwise is, and like one runs on
// CUDA devices only: another is arrowbuf.ErrDevice.
func NewReductionKernel(dev arrowbuf.Device, source ReductionSource, args ...KernelArg) (*ReductionKernel, error) {
	cuda, err := needsGPU(dev)
	if err != nil {
		return nil, err
	}
	if err := checkReduction(&source, args); err != nil {
		return nil, fmt.Errorf("reduction kernel %q: %w", source.Reduce, err)
	}
	return &ReductionKernel{dev: cuda, source: source, args: slices.Clone(args)}, nil
}

func checkReduction(s *ReductionSource, args []KernelArg) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	if _, ok := cType(s.Out); !ok {
		return fmt.Errorf("a result of %s: %w", s.Out, ErrDType)
	}
	arrays := 0
	for _, arg := range args {
		if arg.Write {
			return fmt.Errorf("argument %s is written: a reduction only reads", arg.Name)
		}
		if arg.Read {
			arrays++
		}
	}
	switch {
	case arrays == 0:
		return errors.New("no argument is an array")
	case s.Neutral == "" || s.Reduce == "":
		return errors.New("it has no neutral element, or no expression of a and b")
	case s.Map == "" && len(args) > 1:
		return fmt.Errorf("%d arguments and no expression of what is reduced", len(args))
	case s.Map == "":
		s.Map = args[0].Name
	}
	s.Map = bare(s.Map, args)
	return nil
}

// Of reduces operands, one for each argument as Elementwise.Run takes them,
// along axes of the shape that they take together: those named, counted from the
// end if negative, or all where axes is nil. keepDims leaves the axes in place
// with an extent of 1. The result is a new array in C order.
func (k *ReductionKernel) Of(axes []int, keepDims bool, given ...any) (*NDBuffer, error) {
	var out *NDBuffer
	err := k.with(given, axes, func(o *operands, r reduced) (err error) {
		shape := r.kept
		if keepDims {
			shape = r.inPlace
		}
		if out, err = Empty(k.dev, k.source.Out, shape...); err != nil {
			return err
		}
		if err = k.launch(o, r, out, r.keptStrides(out.strides, keepDims)); err != nil {
			out.Release()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Into is Of with the result in an array that is there, of the dtype of the
// kernel's result and of the shape that Of gives without keepDims, with any
// strides. It may share memory with the operands.
func (k *ReductionKernel) Into(out *NDBuffer, axes []int, given ...any) error {
	return k.with(given, axes, func(o *operands, r reduced) error {
		write := []KernelArg{{Name: "out", DType: k.source.Out, Write: true}}
		target, err := bind(k.dev, write, []any{out})
		if err != nil {
			return err
		}
		defer target.release()
		if !slices.Equal(out.shape, r.kept) {
			return fmt.Errorf("a result of shape %v for an array of shape %v: %w", r.kept, out.shape, ErrShape)
		}
		if out.run().Overlaps() {
			return fmt.Errorf("the elements of the result share memory: %w", ErrShape)
		}
		for i, a := range o.arrays {
			if a != nil && MayShareMemory(out, a) {
				copied, err := a.inCOrder()
				if err != nil {
					return err
				}
				o.arrays[i], o.held = copied, append(o.held, copied)
			}
		}
		return k.launch(o, r, out, out.strides)
	})
}

// with binds operands and hands them to f with their shape.
func (k *ReductionKernel) with(given []any, axes []int, f func(*operands, reduced) error) error {
	o, err := bind(k.dev, k.args, given)
	if err == nil {
		defer o.release()
		var r reduced
		if r, err = k.reduced(o, axes); err == nil {
			err = f(o, r)
		}
	}
	if err != nil {
		return fmt.Errorf("reduction kernel %q: %w", k.source.Reduce, err)
	}
	return nil
}

// Where a result has so few elements that they do not occupy a GPU, each is
// reduced by several blocks, of which each takes so many elements at least.
const elementsPerBlock = 16 * launch.Threads

// launch queues the reduction: blocks reduce parts of each result's elements to
// one, and a second kernel reduces those where there are several.
func (k *ReductionKernel) launch(o *operands, r reduced, out *NDBuffer, outStrides []int64) error {
	shape, strides, sizes, err := together(k.args, o)
	if err != nil {
		return err
	}
	kept, gone := [][]int64{outStrides}, [][]int64{}
	small := fits32(out.dtype.Size(), r.kept, outStrides)
	for i, s := range strides {
		stay, leave := r.apart(s)
		kept, gone = append(kept, stay), append(gone, leave)
		small = small && fits32(sizes[i], shape, s)
	}
	outer, inner := layout.Collapse(r.kept, kept...), layout.Collapse(r.gone, gone...)
	outer, inner = atLeastOne(outer), atLeastOne(inner)
	results, each := product(r.kept), product(r.gone)
	if results == 0 {
		return nil
	}
	offsets := make([]int64, len(sizes))
	for i := range offsets {
		offsets[i] = outer.Offsets[i+1] + inner.Offsets[i]
	}
	wanted := int64(8 * k.dev.Multiprocessors())
	parts := max(min((each-1)/elementsPerBlock+1, (wanted-1)/results+1), 1)
	partials, err := k.dev.NewBuffer(results * parts * accumulatorSize(k.source.Out))
	if err != nil {
		return err
	}
	defer partials.Release()
	form := walkForm(outer, append([]int64{out.dtype.Size()}, sizes...), small) + walkForm(inner, sizes, small)
	program := programOfForm(&k.programs, form, func() string { return k.text(outer, inner, sizes, small) })
	stream, err := k.dev.DefaultStream()
	if err != nil {
		return err
	}
	var walk []byte
	for _, v := range []int64{results, each, parts, (each-1)/parts + 1} {
		walk = binary.NativeEndian.AppendUint64(walk, uint64(v))
	}
	walk = loops(loops(walk, outer), inner)
	reduce := func(name string, blocks, each int64, args ...any) error {
		kernel, err := k.dev.Kernel(program, name)
		if err != nil {
			return err
		}
		width := uint32(32)
		for width < launch.Threads && int64(width) < each {
			width *= 2
		}
		grid := cudabuf.Dim3{X: uint32(min(blocks, 1<<30))}
		return kernel.LaunchAsync(stream, grid, cudabuf.Dim3{X: width}, 0, args...)
	}
	if err := reduce(ownKernel, results*parts, each, append(o.pointers(k.args, offsets), partials, walk)...); err != nil {
		return err
	}
	target := cudabuf.InOut(out.buf.(*cudabuf.Buffer), out.offset+outer.Offsets[0])
	return reduce(ownKernel+"_rest", results, parts, cudabuf.In(partials, 0), target, walk)
}

func accumulatorSize(t DType) int64 {
	if t == Float16 || t == BFloat16 {
		return 4
	}
	return t.Size()
}
