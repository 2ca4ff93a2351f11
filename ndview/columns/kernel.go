package columns

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// call is what a twin sees of a call of its kernel: arguments by number, and
// memory by address. On the soft device it is the launch, on the CPU the
// arguments themselves.
type call interface {
	Pointer(i int) uintptr
	Int64(i int) int64
	Struct(i, n int) []byte
	Memory(address uintptr, n int64) []byte
}

// twin does the work of a kernel in Go.
type twin func(c call)

// program is the kernels of kernels/NAME.cu ("copy/tiles") with their twins.
type program struct {
	twins map[string]twin
	cuda  *cudabuf.Program
}

func newProgram(name string, twins map[string]twin) *program {
	soft := map[string]cudabuf.HostKernel{}
	for kernel, do := range twins {
		soft[kernel] = func(l *cudabuf.HostLaunch) { do(l) }
	}
	return &program{twins, launch.Program(name, soft)}
}

// written marks an argument as one that the kernel writes. An array without it
// is read; nil is a null pointer.
type written struct{ *ndview.NDBuffer }

// run calls a kernel on items, of which a block does so many: on a GPU in the
// order of the default stream, so that what uses the arrays later waits for it.
func (w *work) run(p *program, name string, items, perBlock int64, args ...any) error {
	if items == 0 {
		return nil
	}
	if w.dev == arrowbuf.CPU() {
		p.twins[name](hostCall(args))
		return nil
	}
	for i, arg := range args {
		args[i] = pointer(arg)
	}
	return launch.Blocks(w.dev, p.cuda, name, items, perBlock, args...)
}

// pointer makes an argument of a launch of an array, and leaves others.
func pointer(arg any) any {
	switch a := arg.(type) {
	case *ndview.NDBuffer:
		if a == nil {
			return uintptr(0)
		}
		return launch.In(a.Buffer(), a.Offset())
	case written:
		return launch.InOut(a.Buffer(), a.Offset())
	default:
		return arg
	}
}

// hostCall are arguments in memory of the host.
type hostCall []any

func (c hostCall) Int64(i int) int64      { return c[i].(int64) }
func (c hostCall) Struct(i, _ int) []byte { return c[i].([]byte) }

func (c hostCall) Pointer(i int) uintptr {
	a, ok := c[i].(*ndview.NDBuffer)
	if !ok {
		a = c[i].(written).NDBuffer
	}
	if a == nil {
		return 0
	}
	b, _ := a.HostBytes()
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// Memory reaches n bytes of an array, which the caller of the kernel holds. The
// double indirection tells vet what run knows: the memory stays where it is.
func (c hostCall) Memory(address uintptr, n int64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// elements are n values from pointer i of a call on, nil for a null pointer.
func elements[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](c call, i int, n int64) []T {
	address := c.Pointer(i)
	if address == 0 || n == 0 {
		return nil
	}
	mustAlign(c, i, unsafe.Sizeof(*new(T)))
	b := c.Memory(address, n*int64(unsafe.Sizeof(*new(T))))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// mustAlign ends a twin of the soft device where a GPU would.
func mustAlign(c call, i int, width uintptr) {
	if _, host := c.(hostCall); !host {
		launch.MustAlign(c, i, int64(width))
	}
}
