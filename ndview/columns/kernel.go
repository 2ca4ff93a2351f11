package columns

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview"
)

// program is the kernels of kernels/NAME.cu together with their host implementations.
type program struct {
	hostKernels map[string]hostKernel
	cuda        *cudabuf.Program
}

func newProgram(name string, hostKernels map[string]hostKernel) *program {
	simulated := map[string]cudabuf.HostKernel{}
	for kernel, run := range hostKernels {
		simulated[kernel] = func(l *cudabuf.HostLaunch) { run(l) }
	}
	return &program{hostKernels, launch.Program(name, simulated)}
}

// kernelArgs is the arguments of one launch as a host kernel reads them: values by
// position, memory by address. The simulated device passes its launch; the CPU passes
// the arguments themselves.
type kernelArgs interface {
	Pointer(i int) uintptr
	Int64(i int) int64
	Struct(i, n int) []byte
	Memory(address uintptr, n int64) []byte
}

// hostKernel is the host implementation of a kernel.
type hostKernel func(c kernelArgs)

// output marks an argument that the kernel writes. Unmarked arrays are only read, and a
// nil array is a null pointer.
type output struct{ *ndview.NDBuffer }

// launch runs a kernel over a number of items, perBlock items per thread block. On a
// GPU it is enqueued on the default stream, so later users of the arrays wait for it.
func (w *workspace) launch(p *program, name string, items, perBlock int64, args ...any) error {
	if items == 0 {
		return nil
	}
	if w.dev == arrowbuf.CPU() {
		p.hostKernels[name](hostArgs(args))
		return nil
	}
	for i, arg := range args {
		args[i] = launchArg(arg)
	}
	return launch.QueueBlocks(w.dev, p.cuda, name, items, perBlock, args...)
}

// launchArg converts an array to the argument of a launch and leaves other values as
// they are.
func launchArg(arg any) any {
	switch a := arg.(type) {
	case *ndview.NDBuffer:
		if a == nil {
			return uintptr(0)
		}
		return launch.In(a.Buffer(), a.Offset())
	case output:
		return launch.InOut(a.Buffer(), a.Offset())
	default:
		return arg
	}
}

// hostArgs is kernel arguments in host memory.
type hostArgs []any

func (c hostArgs) Int64(i int) int64      { return c[i].(int64) }
func (c hostArgs) Struct(i, _ int) []byte { return c[i].([]byte) }

func (c hostArgs) Pointer(i int) uintptr {
	a, ok := c[i].(*ndview.NDBuffer)
	if !ok {
		a = c[i].(output).NDBuffer
	}
	if a == nil {
		return 0
	}
	b, _ := a.HostBytes()
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// Memory returns n bytes at an address. The caller of the kernel keeps the array alive,
// which vet cannot see; the double indirection avoids its false report.
func (c hostArgs) Memory(address uintptr, n int64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// argSlice returns argument i as a slice of n values, or nil for a null pointer.
func argSlice[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](c kernelArgs, i int, n int64) []T {
	address := c.Pointer(i)
	if address == 0 || n == 0 {
		return nil
	}
	mustAlign(c, i, unsafe.Sizeof(*new(T)))
	b := c.Memory(address, n*int64(unsafe.Sizeof(*new(T))))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// mustAlign fails the launch on the simulated device if argument i is misaligned, as a
// GPU does.
func mustAlign(c kernelArgs, i int, width uintptr) {
	if _, host := c.(hostArgs); !host {
		launch.MustAlign(c, i, int64(width))
	}
}
