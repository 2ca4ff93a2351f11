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
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// ElementwiseSource is the code of an elementwise kernel.
type ElementwiseSource struct {
	// Code is C++ statements such as
	//
	//	res = a > 0 ? a : slope * a
	//
	// which run once per element, in any order. The arguments are their variables:
	// those that are read hold the element, and those that are written are stored
	// after the last statement. A variable that is only written is 0 at first.
	Code string
	// Preamble is C++ that stands before the kernel, such as functions that the
	// statements call. It may be empty.
	Preamble string
	// Records names the structs of record dtypes, for Preamble and Code. A record
	// without a name can be named as NAME_t of an argument.
	Records map[string]dtype.DType
	// Host does in Go what Code does in C++. It is a function such as
	//
	//	func(res, a []float32, slope float32)
	//
	// with a slice per array and a value per scalar, in the order of the arguments.
	// It must set each element of the slices that are written, and may be called
	// from several goroutines, with some elements each. All slices of a call have
	// the same length. Types are those of Go for the dtype: float16 and bfloat16 are
	// float32, times are int64. A record is a struct whose fields have the names of
	// the record's, in any case and without underscores, in the same order; a
	// float16 in it is the uint16 of its bits.
	//
	// The CPU device and simulated devices run Host. It may be nil for a GPU, which
	// never calls it.
	Host any
}

// Elementwise is a kernel whose statements run once per element. It may be used from
// any goroutine.
type Elementwise struct {
	dev      arrowbuf.Device
	args     []Arg
	vars     []variable
	source   ElementwiseSource
	records  string
	host     *hostFunction
	programs formCache
}

// NewElementwise returns a kernel of C++ statements, or for devices other than GPUs of a
// Go function. NVRTC compiles the kernel when [Elementwise.Run] first meets operands of
// a new form. A form is the number of loops over the operands, and whether 32 bits count
// them. The process and a cache on disk keep the image.
//
// A device that runs no compiled kernels returns an error wrapping arrowbuf.ErrDevice
// if there is no Host.
func NewElementwise(dev arrowbuf.Device, source ElementwiseSource, args ...Arg) (*Elementwise, error) {
	e := &Elementwise{dev: dev, args: slices.Clone(args), source: source}
	err := checkDevice(dev, source.Host != nil)
	if err == nil {
		err = e.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("kernel.NewElementwise %q: %w", source.Code, err)
	}
	return e, nil
}

// validate checks the source and the arguments, and sets what follows from them.
func (e *Elementwise) validate() error {
	records, err := newRecordTypes(e.source.Records)
	if err != nil {
		return err
	}
	if e.vars, err = declareArgs(e.args, records); err != nil {
		return err
	}
	e.records = records.text.String()
	if !slices.ContainsFunc(e.args, func(arg Arg) bool { return arg.Write }) {
		return errors.New("no argument is written")
	}
	if strings.TrimSpace(e.source.Code) == "" {
		return errors.New("Code is empty")
	}
	if e.source.Host != nil {
		e.host, err = newHostFunction(e.source.Host, nil, e.args)
	}
	e.source.Code = removeIndices(e.source.Code, e.args)
	return err
}

// Run enqueues the kernel on the device's default stream with one operand per argument.
// For an array it is an *ndview.NDBuffer of its dtype on the device. For a scalar it is
// a Go number that the dtype represents, or for a record a Go struct. Operands broadcast as NumPy's do. An
// array that is written must have the resulting shape, or the error wraps
// ndview.ErrShape. The result is that of reading all elements before writing any, even
// if operands share memory. Two arrays that are written must not share memory.
//
// On the CPU device the kernel is complete when Run returns. A panic of Host is an
// error.
func (e *Elementwise) Run(operands ...any) error {
	if e == nil || e.dev == nil {
		return errors.New("kernel.Elementwise.Run: got a kernel that NewElementwise has not made")
	}
	if err := e.run(operands); err != nil {
		return fmt.Errorf("kernel.Elementwise.Run %q: %w", e.source.Code, err)
	}
	return nil
}

// elementwiseLoops are the loops over the operands of a run.
type elementwiseLoops struct {
	n     int64
	nest  layout.Nest
	sizes []int64 // per array
	small bool    // 32 bits count elements and bytes
}

func (e *Elementwise) run(values []any) error {
	o, err := bind(e.dev, e.args, values)
	if err != nil {
		return err
	}
	defer o.release()
	loops, err := e.plan(o)
	if err != nil || loops.n == 0 {
		return err
	}
	cuda, ok := arrowbuf.As[*cudabuf.Device](e.dev)
	if ok {
		return e.launch(cuda, o, loops)
	}
	at, err := o.hostAddresses(loops.nest.Offsets)
	if err != nil {
		return err
	}
	return e.runHost(loops.nest, loops.n, at, o.scalars)
}

// plan separates and broadcasts the operands.
func (e *Elementwise) plan(o *operands) (elementwiseLoops, error) {
	if err := o.separate(e.args); err != nil {
		return elementwiseLoops{}, err
	}
	b, err := o.broadcast(e.args)
	if err != nil {
		return elementwiseLoops{}, err
	}
	nest := withLoop(layout.Collapse(b.shape, b.strides...))
	return elementwiseLoops{layout.Product(b.shape), nest, b.sizes, b.fits32()}, nil
}

func (e *Elementwise) launch(dev *cudabuf.Device, o *operands, l elementwiseLoops) error {
	program := e.programs.program(dev, formKey(l.nest, l.sizes, l.small),
		func() string { return e.text(l.nest, l.sizes, l.small) },
		func() map[string]cudabuf.HostKernel {
			return map[string]cudabuf.HostKernel{entryPoint: e.hostKernel(len(l.nest.Shape))}
		})
	kernel, err := dev.Kernel(program, entryPoint)
	if err != nil {
		return err
	}
	stream, err := dev.DefaultStream()
	if err != nil {
		return err
	}
	walk := appendNest(appendWords(nil, l.n), l.nest)
	blocks := min((l.n-1)/launch.Threads+1, int64(32*dev.Multiprocessors()))
	return kernel.LaunchAsync(stream, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: launch.Threads}, 0, append(o.launchArgs(e.args, l.nest.Offsets), walk)...)
}

// hostGrain is the number of elements that are worth a goroutine.
const hostGrain = 8 * hostBlock

// runHost runs the host function. at has the address of each array's first element.
func (e *Elementwise) runHost(nest layout.Nest, n int64, at []unsafe.Pointer, scalars [][]byte) error {
	return parallelHost(n, hostGrain, func(lo, hi int64) { e.host.newCall(scalars).run(nest, at, make([]int64, len(at)), lo, hi, nil) })
}

// hostKernel returns the host kernel for a number of loops.
func (e *Elementwise) hostKernel(loops int) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		arrays := countArrays(e.args)
		w := structWords(l, len(e.args), 1+loops+arrays*loops)
		n, nest := w[0], nestOf(w[1:], loops, arrays)
		at, scalars := hostLaunchArgs(l, e.args, nest)
		if err := e.runHost(nest, n, at, scalars); err != nil {
			panic(err)
		}
	}
}

// text returns the C++ of the kernel for a form of operands.
func (e *Elementwise) text(nest layout.Nest, sizes []int64, small bool) string {
	var s strings.Builder
	s.WriteString(prelude + e.records + userText("Preamble", e.source.Preamble))
	writeIndexTypes(&s, small)
	loops := len(nest.Shape)
	fmt.Fprintf(&s, "struct quiver_walk { long long n, extent[%d], stride[%d][%d]; };\n", loops, len(sizes), loops)
	fmt.Fprintf(&s, "extern \"C\" __global__ void %s(%sconst quiver_walk quiver_w) {\n", entryPoint, parameterList(e.vars))
	writeVariableTypes(&s, e.vars)
	s.WriteString("\tfor (quiver_index quiver_i = blockIdx.x * (quiver_index)blockDim.x + threadIdx.x; quiver_i < quiver_w.n; quiver_i += gridDim.x * (quiver_index)blockDim.x) {\n")
	writeOffsets(&s, "quiver_i", "quiver_w.extent", "quiver_w.stride", nest, sizes)
	writeLoads(&s, e.vars)
	fmt.Fprintf(&s, "\t\t{%s;}\n", userText("code", e.source.Code))
	for _, arg := range e.args {
		if arg.Write {
			fmt.Fprintf(&s, "\t\t*quiver_at_%s = %s;\n", arg.Name, arg.Name)
		}
	}
	s.WriteString("\t}\n}\n")
	return s.String()
}
