package ndview

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Elementwise is an operation on elements that a program writes itself, in CUDA
// C++. It may be used from any goroutine.
type Elementwise struct {
	dev            *cudabuf.Device
	args           []KernelArg
	code, preamble string
	programs       sync.Map // by form
}

// NewElementwise makes an operation of statements such as
//
//	res = a > 0 ? a : slope * a
//
// which run once for each element, in any order. The arguments are the
// statements' variables: those that are read hold the element, those that are
// written are stored after the last statement. preamble is C++ before the
// kernel, for functions of the statements' own; it may be empty.
//
// NVRTC compiles the operation when it first meets operands of a new form (how
// many loops walk them, whether 32 bits count them), for the device, once a
// process; images are kept on disk too. Only a CUDA device runs it: another is
// arrowbuf.ErrDevice.
func NewElementwise(dev arrowbuf.Device, code, preamble string, args ...KernelArg) (*Elementwise, error) {
	cuda, err := needsGPU(dev)
	if err != nil {
		return nil, err
	}
	if err := checkArgs(args); err != nil {
		return nil, fmt.Errorf("elementwise kernel %q: %w", code, err)
	}
	if !slices.ContainsFunc(args, func(arg KernelArg) bool { return arg.Write }) {
		return nil, fmt.Errorf("elementwise kernel %q writes nothing", code)
	}
	return &Elementwise{dev: cuda, args: slices.Clone(args), code: bare(code, args), preamble: preamble}, nil
}

// Run queues the operation on the device's default stream, with an operand for
// each argument: an *NDBuffer of its dtype on the device, or for a scalar a Go
// number that the dtype holds. Operands broadcast as NumPy's do, but to arrays
// that are written, which must have the shape that all take together, or it is
// ErrShape. The result is that of reading all before writing any, also where
// operands share memory; two that are written may not.
func (e *Elementwise) Run(given ...any) error {
	if err := e.run(given); err != nil {
		return fmt.Errorf("elementwise kernel %q: %w", e.code, err)
	}
	return nil
}

func (e *Elementwise) run(given []any) error {
	o, err := bind(e.dev, e.args, given)
	if err != nil {
		return err
	}
	defer o.release()
	if err := o.separate(e.args); err != nil {
		return err
	}
	shape, strides, sizes, err := together(e.args, o)
	if err != nil {
		return err
	}
	small := true
	for i := range strides {
		small = small && fits32(sizes[i], shape, strides[i])
	}
	nest := atLeastOne(layout.Collapse(shape, strides...))
	n := product(shape)
	if n == 0 {
		return nil
	}
	program := programOfForm(&e.programs, walkForm(nest, sizes, small), func() string { return e.source(nest, sizes, small) })
	kernel, err := e.dev.Kernel(program, ownKernel)
	if err != nil {
		return err
	}
	stream, err := e.dev.DefaultStream()
	if err != nil {
		return err
	}
	walk := loops(binary.NativeEndian.AppendUint64(nil, uint64(n)), nest)
	blocks := min((n-1)/launch.Threads+1, int64(32*e.dev.Multiprocessors()))
	return kernel.LaunchAsync(stream, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: launch.Threads}, 0, append(o.pointers(e.args, nest.Offsets), walk)...)
}

// source is the kernel for a form of operands. Strides that one loop takes are
// written into it: the compiler then knows which accesses are neighbours.
func (e *Elementwise) source(nest layout.Nest, sizes []int64, small bool) string {
	var s strings.Builder
	s.WriteString(prelude + e.preamble + "\n")
	writeIndex(&s, small)
	loops := len(nest.Shape)
	fmt.Fprintf(&s, "struct quiver_walk { long long n, extent[%d], stride[%d][%d]; };\n", loops, len(sizes), loops)
	fmt.Fprintf(&s, "extern \"C\" __global__ void %s(%sconst quiver_walk quiver_w) {\n", ownKernel, parameterList(e.args))
	writeTypes(&s, e.args)
	s.WriteString("\tfor (quiver_index quiver_i = blockIdx.x * (quiver_index)blockDim.x + threadIdx.x; quiver_i < quiver_w.n; quiver_i += gridDim.x * (quiver_index)blockDim.x) {\n")
	writePlaces(&s, "quiver_i", "quiver_w.extent", "quiver_w.stride", nest, sizes)
	writeLoads(&s, e.args)
	fmt.Fprintf(&s, "\t\t{%s;}\n", given("code", e.code))
	for _, arg := range e.args {
		if arg.Write {
			fmt.Fprintf(&s, "\t\t*quiver_at_%s = %s;\n", arg.Name, arg.Name)
		}
	}
	s.WriteString("\t}\n}\n")
	return s.String()
}
