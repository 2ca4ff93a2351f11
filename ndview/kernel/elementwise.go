package kernel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Elementwise is a kernel whose statements run once per element. It may be used from
// any goroutine.
type Elementwise struct {
	dev            *cudabuf.Device
	args           []Arg
	code, preamble string
	programs       formCache
}

// NewElementwise returns a kernel of C++ statements such as
//
//	res = a > 0 ? a : slope * a
//
// which run once per element, in any order. The arguments are the statements'
// variables: those that are read hold the element, and those that are written are
// stored after the last statement. preamble is C++ that stands before the kernel, such
// as functions that the statements call; it may be empty.
//
// A form is the number of loops over the operands and whether 32 bits count them. NVRTC
// compiles the kernel for the device when [Elementwise.Run] first meets operands of a
// new form; the process and a cache on disk keep the image. A device other than a CUDA
// device returns an error wrapping arrowbuf.ErrDevice.
func NewElementwise(dev arrowbuf.Device, code, preamble string, args ...Arg) (*Elementwise, error) {
	cuda, err := cudaDevice(dev)
	if err != nil {
		return nil, fmt.Errorf("kernel.NewElementwise: %w", err)
	}
	if err := validateArgs(args); err != nil {
		return nil, fmt.Errorf("kernel.NewElementwise %q: %w", code, err)
	}
	if !slices.ContainsFunc(args, func(arg Arg) bool { return arg.Write }) {
		return nil, fmt.Errorf("kernel.NewElementwise %q: no argument is written", code)
	}
	return &Elementwise{dev: cuda, args: slices.Clone(args), code: removeIndices(code, args), preamble: preamble}, nil
}

// Run enqueues the kernel on the device's default stream with one operand per argument:
// an *ndview.NDBuffer of its dtype on the device, or for a scalar a Go number that the
// dtype represents. Operands broadcast as NumPy's do. An array that is written must
// have the resulting shape, or the error wraps ndview.ErrShape. The result is that of
// reading all elements before writing any, even if operands share memory. Two arrays
// that are written must not share memory.
func (e *Elementwise) Run(operands ...any) error {
	if err := e.run(operands); err != nil {
		return fmt.Errorf("kernel.Elementwise.Run %q: %w", e.code, err)
	}
	return nil
}

func (e *Elementwise) run(values []any) error {
	o, err := bind(e.dev, e.args, values)
	if err != nil {
		return err
	}
	defer o.release()
	if err := o.separate(e.args); err != nil {
		return err
	}
	b, err := o.broadcast(e.args)
	if err != nil {
		return err
	}
	n := layout.Product(b.shape)
	if n == 0 {
		return nil
	}
	small, nest := b.fits32(), withLoop(layout.Collapse(b.shape, b.strides...))
	program := e.programs.program(formKey(nest, b.sizes, small), func() string { return e.source(nest, b.sizes, small) })
	kernel, err := e.dev.Kernel(program, entryPoint)
	if err != nil {
		return err
	}
	stream, err := e.dev.DefaultStream()
	if err != nil {
		return err
	}
	walk := appendNest(appendWords(nil, n), nest)
	blocks := min((n-1)/launch.Threads+1, int64(32*e.dev.Multiprocessors()))
	return kernel.LaunchAsync(stream, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: launch.Threads}, 0, append(o.launchArgs(e.args, nest.Offsets), walk)...)
}

// source returns the C++ of the kernel for a form of operands.
func (e *Elementwise) source(nest layout.Nest, sizes []int64, small bool) string {
	var s strings.Builder
	s.WriteString(prelude + e.preamble + "\n")
	writeIndexTypes(&s, small)
	loops := len(nest.Shape)
	fmt.Fprintf(&s, "struct quiver_walk { long long n, extent[%d], stride[%d][%d]; };\n", loops, len(sizes), loops)
	fmt.Fprintf(&s, "extern \"C\" __global__ void %s(%sconst quiver_walk quiver_w) {\n", entryPoint, parameterList(e.args))
	writeVariableTypes(&s, e.args)
	s.WriteString("\tfor (quiver_index quiver_i = blockIdx.x * (quiver_index)blockDim.x + threadIdx.x; quiver_i < quiver_w.n; quiver_i += gridDim.x * (quiver_index)blockDim.x) {\n")
	writeOffsets(&s, "quiver_i", "quiver_w.extent", "quiver_w.stride", nest, sizes)
	writeLoads(&s, e.args)
	fmt.Fprintf(&s, "\t\t{%s;}\n", userText("code", e.code))
	for _, arg := range e.args {
		if arg.Write {
			fmt.Fprintf(&s, "\t\t*quiver_at_%s = %s;\n", arg.Name, arg.Name)
		}
	}
	s.WriteString("\t}\n}\n")
	return s.String()
}
