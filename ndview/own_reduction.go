package ndview

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// text is the source for a form of operands.
func (k *ReductionKernel) text(outer, inner layout.Nest, sizes []int64, small bool) string {
	var s strings.Builder
	out, _ := cType(k.source.Out)
	arrays, outerLoops, innerLoops := len(sizes), len(outer.Shape), len(inner.Shape)
	s.WriteString(prelude + k.source.Preamble + "\n")
	writeIndex(&s, small)
	fmt.Fprintf(&s, "typedef %s quiver_out;\ntypedef %s quiver_acc;\n", out, computed(k.source.Out))
	fmt.Fprintf(&s, "struct quiver_walk { long long results, each, parts, per, kept[%d], kept_stride[%d][%d], extent[%d], stride[%d][%d]; };\n",
		outerLoops, arrays+1, outerLoops, innerLoops, arrays, innerLoops)
	fmt.Fprintf(&s, "static __device__ quiver_acc quiver_reduce(quiver_acc a, quiver_acc b) { return (%s); }\n", given("Reduce", k.source.Reduce))
	fmt.Fprintf(&s, "static __device__ quiver_acc quiver_neutral() { return (%s); }\n", given("Neutral", k.source.Neutral))
	s.WriteString(blockReduce)
	fmt.Fprintf(&s, "extern \"C\" __global__ void %s(%squiver_acc *quiver_partials, const quiver_walk quiver_w) {\n", ownKernel, parameterList(k.args))
	writeTypes(&s, k.args)
	s.WriteString(`	for (quiver_index quiver_b = blockIdx.x; quiver_b < quiver_w.results * quiver_w.parts; quiver_b += gridDim.x) {
		const quiver_index quiver_o = quiver_b / (quiver_index)quiver_w.parts;
		const quiver_index quiver_first = (quiver_b - quiver_o * quiver_w.parts) * quiver_w.per;
		const quiver_index quiver_last = quiver_first + quiver_w.per < quiver_w.each ? quiver_first + quiver_w.per : quiver_w.each;
`)
	withoutOut := layout.Nest{Shape: outer.Shape, Strides: outer.Strides[1:]}
	writePlaces(&s, "quiver_o", "quiver_w.kept", "(quiver_w.kept_stride + 1)", withoutOut, sizes)
	fmt.Fprintf(&s, "\t\tquiver_bytes quiver_row[%d];\n\t\tfor (int quiver_a = 0; quiver_a < %d; quiver_a++) quiver_row[quiver_a] = quiver_d[quiver_a];\n", arrays, arrays)
	s.WriteString("\t\tquiver_acc quiver_sum = quiver_neutral();\n")
	s.WriteString("\t\tfor (quiver_index quiver_i = quiver_first + threadIdx.x; quiver_i < quiver_last; quiver_i += blockDim.x) {\n")
	writePlaces(&s, "quiver_i", "quiver_w.extent", "quiver_w.stride", inner, sizes)
	fmt.Fprintf(&s, "\t\tfor (int quiver_a = 0; quiver_a < %d; quiver_a++) quiver_d[quiver_a] += quiver_row[quiver_a];\n", arrays)
	writeLoads(&s, k.args)
	fmt.Fprintf(&s, `		quiver_sum = quiver_reduce(quiver_sum, (%s));
		}
		quiver_sum = quiver_block(quiver_sum);
		if (threadIdx.x == 0) quiver_partials[quiver_b] = quiver_sum;
	}
}
`, given("Map", k.source.Map))
	fmt.Fprintf(&s, `extern "C" __global__ void %s_rest(const quiver_acc *quiver_partials, quiver_out *quiver_p, const quiver_walk quiver_w) {
	for (quiver_index quiver_o = blockIdx.x; quiver_o < quiver_w.results; quiver_o += gridDim.x) {
		quiver_acc quiver_sum = quiver_neutral();
		for (quiver_index quiver_i = threadIdx.x; quiver_i < quiver_w.parts; quiver_i += blockDim.x) quiver_sum = quiver_reduce(quiver_sum, quiver_partials[quiver_o * quiver_w.parts + quiver_i]);
		quiver_sum = quiver_block(quiver_sum);
`, ownKernel)
	onlyOut := layout.Nest{Shape: outer.Shape, Strides: outer.Strides[:1]}
	writePlaces(&s, "quiver_o", "quiver_w.kept", "quiver_w.kept_stride", onlyOut, []int64{k.source.Out.Size()})
	s.WriteString("\t\tif (threadIdx.x == 0) *(quiver_out *)((char *)quiver_p + quiver_d[0]) = quiver_sum;\n\t}\n}\n")
	return s.String()
}

// blockReduce reduces what the threads of a block have, for its first thread.
var blockReduce = fmt.Sprintf(`static __device__ quiver_acc quiver_block(quiver_acc quiver_mine) {
	__shared__ __align__(16) unsigned char quiver_memory[%d * sizeof(quiver_acc)];
	quiver_acc *quiver_all = (quiver_acc *)quiver_memory;
	__syncthreads();
	quiver_all[threadIdx.x] = quiver_mine;
	__syncthreads();
	for (unsigned quiver_half_way = blockDim.x / 2; quiver_half_way > 0; quiver_half_way /= 2) {
		if (threadIdx.x < quiver_half_way) quiver_all[threadIdx.x] = quiver_reduce(quiver_all[threadIdx.x], quiver_all[threadIdx.x + quiver_half_way]);
		__syncthreads();
	}
	return quiver_all[0];
}
`, launch.Threads)
