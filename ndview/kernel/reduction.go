package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// ReductionSource is a reduction in C++ expressions. Their type is that of variables of
// dtype Out.
type ReductionSource struct {
	Out dtype.DType // of the result and of the accumulator
	// Neutral is the neutral element of Reduce, and the result of reducing no
	// elements: "0".
	Neutral string
	// Reduce combines two values, named a and b: "a + b". The order in which it
	// combines elements is undefined.
	Reduce string
	// Map is the value to reduce per element of the arguments: "x * y". With one
	// argument it may be empty and means the argument.
	Map string
	// Preamble is C++ that stands before the kernels, such as functions that the
	// expressions call.
	Preamble string
	// Records names the structs of record dtypes, as in [ElementwiseSource].
	Records map[string]dtype.DType
	// Host does the same in Go, see [NewHostReduction]. The CPU device and simulated
	// devices run it. It may be nil for a GPU, which never calls it.
	Host *HostReduction
}

// Reduction is a kernel that reduces elements along axes. It may be used from any
// goroutine.
type Reduction struct {
	dev      arrowbuf.Device
	source   ReductionSource
	args     []Arg
	vars     []variable
	records  string
	out      variable // the result
	host     *reductionHost
	programs formCache
}

// NewReduction returns a kernel that reduces elements of the arguments, which are read
// or scalars. It is compiled as an [Elementwise] kernel is. A device that runs no
// compiled kernels returns an error wrapping arrowbuf.ErrDevice if there is no Host.
func NewReduction(dev arrowbuf.Device, source ReductionSource, args ...Arg) (*Reduction, error) {
	k := &Reduction{dev: dev, source: source, args: slices.Clone(args)}
	err := checkDevice(dev, source.Host != nil)
	if err == nil {
		err = k.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("kernel.NewReduction %q: %w", source.Reduce, err)
	}
	return k, nil
}

// validate checks the source and the arguments, and sets what follows from them.
func (k *Reduction) validate() error {
	s := &k.source
	records, err := newRecordTypes(s.Records)
	if err != nil {
		return err
	}
	if k.vars, err = declareArgs(k.args, records); err != nil {
		return err
	}
	k.out.DType = s.Out
	if k.out.stored, k.out.local, err = records.typesOf(s.Out); err != nil {
		return fmt.Errorf("the result: %w", err)
	}
	k.records = records.text.String()
	arrays := 0
	for _, arg := range k.args {
		if arg.Write {
			return fmt.Errorf("argument %s is written, but a reduction only reads", arg.Name)
		}
		if arg.Read {
			arrays++
		}
	}
	switch {
	case arrays == 0:
		return errors.New("no argument is an array")
	case s.Neutral == "" || s.Reduce == "":
		return errors.New("Neutral or Reduce is empty")
	case s.Map == "" && len(k.args) > 1:
		return fmt.Errorf("Map is empty, but there are %d arguments", len(k.args))
	case s.Host != nil:
		k.host, err = newReductionHost(s.Host, s.Out, k.args)
	}
	if s.Map == "" {
		s.Map = k.args[0].Name
	}
	s.Map = removeIndices(s.Map, k.args)
	return err
}

// errNotMade is the error of methods of a nil or zero Reduction.
var errNotMade = errors.New("got a kernel that NewReduction has not made")

// Of reduces operands, one per argument as for [Elementwise.Run], along axes of the
// shape to which they broadcast. Negative axes count from the last; nil means all.
// keepDims keeps the reduced axes, with an extent of 1. The result is a new array in C
// order, which the caller must release.
func (k *Reduction) Of(axes []int, keepDims bool, operands ...any) (*ndview.NDBuffer, error) {
	if k == nil || k.dev == nil {
		return nil, fmt.Errorf("kernel.Reduction.Of: %w", errNotMade)
	}
	r, err := k.plan(operands, axes)
	if err != nil {
		return nil, k.wrap("Of", err)
	}
	defer r.release()
	shape := r.kept
	if keepDims {
		shape = r.keptDims
	}
	out, err := ndview.Empty(k.dev, k.source.Out, shape...)
	if err != nil {
		return nil, k.wrap("Of", err)
	}
	strides := out.Strides()
	if keepDims {
		strides, _ = r.split(strides)
	}
	if err := k.reduce(r, out, strides); err != nil {
		out.Release()
		return nil, k.wrap("Of", err)
	}
	for _, a := range r.arrays {
		if a != nil && a.Scope() != nil {
			return a.Scope().Add(out, nil)
		}
	}
	return out, nil
}

// Into is [Reduction.Of] into an array of the kernel's result dtype and of the shape
// that Of returns without keepDims. The array may have any strides and may share memory
// with the operands.
func (k *Reduction) Into(out *ndview.NDBuffer, axes []int, operands ...any) error {
	if k == nil || k.dev == nil {
		return fmt.Errorf("kernel.Reduction.Into: %w", errNotMade)
	}
	return k.wrap("Into", k.into(out, axes, operands))
}

func (k *Reduction) into(out *ndview.NDBuffer, axes []int, values []any) error {
	r, err := k.plan(values, axes)
	if err != nil {
		return err
	}
	defer r.release()
	target, err := bind(k.dev, []Arg{{Name: "out", DType: k.source.Out, Write: true}}, []any{out})
	if err != nil {
		return err
	}
	defer target.release()
	if !slices.Equal(out.Shape(), r.kept) {
		return fmt.Errorf("the result: got shape %v, want %v: %w", out.Shape(), r.kept, ndview.ErrShape)
	}
	if overlapsItself(out) {
		return fmt.Errorf("the elements of the result share memory: %w", ndview.ErrShape)
	}
	for i, a := range r.arrays {
		if a != nil && ndview.MayShareMemory(out, a) {
			if err := r.replaceByCopy(i); err != nil {
				return err
			}
		}
	}
	return k.reduce(r, out, out.Strides())
}

func (k *Reduction) wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("kernel.Reduction.%s %q: %w", method, k.source.Reduce, err)
}

// reductionPlan is the operands of a reduction, and the axes of their common shape.
type reductionPlan struct {
	*operands
	isReduced []bool  // per axis
	kept      []int64 // the extents of the kept axes
	reduced   []int64 // the extents of the reduced axes
	keptDims  []int64 // the extents of all axes, 1 for the reduced ones
}

// plan binds operands and resolves axes. The caller must release the result.
func (k *Reduction) plan(values []any, axes []int) (*reductionPlan, error) {
	o, err := bind(k.dev, k.args, values)
	if err != nil {
		return nil, err
	}
	r := &reductionPlan{operands: o}
	if err := r.resolve(k.args, axes); err != nil {
		o.release()
		return nil, err
	}
	return r, nil
}

func (r *reductionPlan) resolve(args []Arg, axes []int) error {
	b, err := r.broadcast(args)
	if err != nil {
		return err
	}
	if axes == nil {
		for i := range b.shape {
			axes = append(axes, i)
		}
	}
	if r.isReduced, err = layout.MarkAxes(axes, len(b.shape)); err != nil {
		return err
	}
	r.kept, r.reduced = r.split(b.shape)
	r.keptDims = slices.Clone(b.shape)
	for i := range b.shape {
		if r.isReduced[i] {
			r.keptDims[i] = 1
		}
	}
	return nil
}

// split returns the values of the kept axes and those of the reduced ones, neither nil.
func (r *reductionPlan) split(values []int64) (kept, reduced []int64) {
	kept, reduced = []int64{}, []int64{}
	for i, v := range values {
		if r.isReduced[i] {
			reduced = append(reduced, v)
		} else {
			kept = append(kept, v)
		}
	}
	return kept, reduced
}

// elementsPerBlock is the minimum if several blocks reduce the elements of one result,
// which happens if there are too few results to occupy a GPU.
const elementsPerBlock = 16 * launch.Threads

// reduce computes the results and stores them at the strides of out.
func (k *Reduction) reduce(r *reductionPlan, out *ndview.NDBuffer, outStrides []int64) error {
	b, err := r.broadcast(k.args)
	if err != nil {
		return err
	}
	keptStrides, reducedStrides := [][]int64{outStrides}, [][]int64{}
	for _, s := range b.strides {
		kept, reduced := r.split(s)
		keptStrides, reducedStrides = append(keptStrides, kept), append(reducedStrides, reduced)
	}
	l := reductionLoops{
		outer: withLoop(layout.Collapse(r.kept, keptStrides...)), inner: withLoop(layout.Collapse(r.reduced, reducedStrides...)),
		results: layout.Product(r.kept), each: layout.Product(r.reduced),
	}
	if l.results == 0 {
		return nil
	}
	offsets := make([]int64, len(b.sizes))
	for i := range offsets {
		offsets[i] = l.outer.Offsets[i+1] + l.inner.Offsets[i]
	}
	if l.each == 0 { // no element is read, and a reversed axis would begin outside of the buffer
		clear(offsets)
	}
	if cuda, ok := arrowbuf.As[*cudabuf.Device](k.dev); ok {
		small := b.fits32() && fits32(out.DType().Size(), r.kept, outStrides)
		return k.launch(cuda, r, &l, offsets, out, b.sizes, small)
	}
	l.setParts(hostBlocks)
	at := make([]unsafe.Pointer, len(b.sizes))
	if l.each > 0 {
		if at, err = r.hostAddresses(offsets); err != nil {
			return err
		}
	}
	to, err := hostAddress(out, l.outer.Offsets[0])
	if err != nil {
		return err
	}
	return k.host.run(&l, at, r.scalars, to)
}

// hostBlocks is the number of tasks for which the elements of a result are divided on the
// CPU. It does not depend on the machine, and so neither does the result.
const hostBlocks = 64

// setParts divides the elements of each result into parts, so that there are about as
// many tasks as wanted, if the parts are large enough.
func (l *reductionLoops) setParts(wanted int64) {
	l.parts = max(min((l.each-1)/elementsPerBlock+1, (wanted-1)/l.results+1), 1)
	l.per = (l.each-1)/l.parts + 1
}

// launch enqueues two kernels: the blocks of the first reduce parts of each result's
// elements, and the second reduces those partial results.
func (k *Reduction) launch(dev *cudabuf.Device, r *reductionPlan, l *reductionLoops, offsets []int64, out *ndview.NDBuffer, sizes []int64, small bool) error {
	l.setParts(int64(8 * dev.Multiprocessors()))
	size, _ := localLayout(k.source.Out)
	if k.host != nil {
		size = max(size, k.host.size)
	}
	partials, err := dev.NewBuffer(l.results * l.parts * size)
	if err != nil {
		return err
	}
	defer partials.Release()
	form := formKey(l.outer, append([]int64{out.DType().Size()}, sizes...), small) + formKey(l.inner, sizes, small)
	program := k.programs.program(dev, form,
		func() string { return k.text(l.outer, l.inner, sizes, small) },
		func() map[string]cudabuf.HostKernel { return k.hostKernels(len(l.outer.Shape), len(l.inner.Shape)) })
	walk := appendNest(appendNest(appendWords(nil, l.results, l.each, l.parts, l.per), l.outer), l.inner)
	err = enqueue(dev, program, entryPoint, l.results*l.parts, l.each, append(r.launchArgs(k.args, offsets), partials, walk)...)
	if err != nil {
		return err
	}
	target := cudabuf.InOut(launch.CUDABuffer(out.Buffer()), out.Offset()+l.outer.Offsets[0])
	return enqueue(dev, program, entryPoint+"_rest", l.results, l.parts, cudabuf.In(partials, 0), target, walk)
}

// enqueue launches a kernel on the default stream, with one block for each of several
// values that are made of each elements.
func enqueue(dev *cudabuf.Device, program *cudabuf.Program, name string, blocks, each int64, args ...any) error {
	kernel, err := dev.Kernel(program, name)
	if err != nil {
		return err
	}
	stream, err := dev.DefaultStream()
	if err != nil {
		return err
	}
	width := uint32(32)
	for width < launch.Threads && int64(width) < each {
		width *= 2
	}
	return kernel.LaunchAsync(stream, cudabuf.Dim3{X: uint32(min(blocks, 1<<30))}, cudabuf.Dim3{X: width}, 0, args...)
}

// text returns the C++ of the kernels for a form of operands.
func (k *Reduction) text(outer, inner layout.Nest, sizes []int64, small bool) string {
	var s strings.Builder
	arrays, outerLoops, innerLoops := len(sizes), len(outer.Shape), len(inner.Shape)
	s.WriteString(prelude + k.records + userText("Preamble", k.source.Preamble))
	writeIndexTypes(&s, small)
	fmt.Fprintf(&s, "typedef %s quiver_out;\ntypedef %s quiver_acc;\n", k.out.stored, k.out.local)
	fmt.Fprintf(&s, "struct quiver_walk { long long results, each, parts, per, kept[%d], kept_stride[%d][%d], extent[%d], stride[%d][%d]; };\n",
		outerLoops, arrays+1, outerLoops, innerLoops, arrays, innerLoops)
	fmt.Fprintf(&s, "static __device__ quiver_acc quiver_reduce(quiver_acc a, quiver_acc b) { return (%s); }\n", userText("Reduce", k.source.Reduce))
	fmt.Fprintf(&s, "static __device__ quiver_acc quiver_neutral() { return (%s); }\n", userText("Neutral", k.source.Neutral))
	s.WriteString(blockReduce)
	fmt.Fprintf(&s, "extern \"C\" __global__ void %s(%squiver_acc *quiver_partials, const quiver_walk quiver_w) {\n", entryPoint, parameterList(k.vars))
	writeVariableTypes(&s, k.vars)
	s.WriteString(`	for (quiver_index quiver_b = blockIdx.x; quiver_b < quiver_w.results * quiver_w.parts; quiver_b += gridDim.x) {
		const quiver_index quiver_o = quiver_b / (quiver_index)quiver_w.parts;
		const quiver_index quiver_first = (quiver_b - quiver_o * quiver_w.parts) * quiver_w.per;
		const quiver_index quiver_last = quiver_first + quiver_w.per < quiver_w.each ? quiver_first + quiver_w.per : quiver_w.each;
`)
	withoutOut := layout.Nest{Shape: outer.Shape, Strides: outer.Strides[1:]}
	writeOffsets(&s, "quiver_o", "quiver_w.kept", "(quiver_w.kept_stride + 1)", withoutOut, sizes)
	fmt.Fprintf(&s, "\t\tquiver_bytes quiver_row[%d];\n\t\tfor (int quiver_a = 0; quiver_a < %d; quiver_a++) quiver_row[quiver_a] = quiver_d[quiver_a];\n", arrays, arrays)
	s.WriteString("\t\tquiver_acc quiver_sum = quiver_neutral();\n")
	s.WriteString("\t\tfor (quiver_index quiver_i = quiver_first + threadIdx.x; quiver_i < quiver_last; quiver_i += blockDim.x) {\n")
	writeOffsets(&s, "quiver_i", "quiver_w.extent", "quiver_w.stride", inner, sizes)
	fmt.Fprintf(&s, "\t\tfor (int quiver_a = 0; quiver_a < %d; quiver_a++) quiver_d[quiver_a] += quiver_row[quiver_a];\n", arrays)
	writeLoads(&s, k.vars)
	fmt.Fprintf(&s, `		quiver_sum = quiver_reduce(quiver_sum, (%s));
		}
		quiver_sum = quiver_block(quiver_sum);
		if (threadIdx.x == 0) quiver_partials[quiver_b] = quiver_sum;
	}
}
`, userText("Map", k.source.Map))
	fmt.Fprintf(&s, `extern "C" __global__ void %s_rest(const quiver_acc *quiver_partials, quiver_out *quiver_p, const quiver_walk quiver_w) {
	for (quiver_index quiver_o = blockIdx.x; quiver_o < quiver_w.results; quiver_o += gridDim.x) {
		quiver_acc quiver_sum = quiver_neutral();
		for (quiver_index quiver_i = threadIdx.x; quiver_i < quiver_w.parts; quiver_i += blockDim.x) quiver_sum = quiver_reduce(quiver_sum, quiver_partials[quiver_o * quiver_w.parts + quiver_i]);
		quiver_sum = quiver_block(quiver_sum);
`, entryPoint)
	onlyOut := layout.Nest{Shape: outer.Shape, Strides: outer.Strides[:1]}
	writeOffsets(&s, "quiver_o", "quiver_w.kept", "quiver_w.kept_stride", onlyOut, []int64{k.source.Out.Size()})
	s.WriteString("\t\tif (threadIdx.x == 0) *(quiver_out *)((char *)quiver_p + quiver_d[0]) = quiver_sum;\n\t}\n}\n")
	return s.String()
}

// blockReduce is C++ that combines the values of a block's threads.
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
