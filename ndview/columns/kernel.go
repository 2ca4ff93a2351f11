package columns

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/kernels"
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

// program is the kernels of kernels/NAME.cu with their twins.
type program struct {
	twins map[string]twin
	cuda  *cudabuf.Program
}

func newProgram(name string, twins map[string]twin) *program {
	soft := map[string]cudabuf.Twin{}
	for kernel, do := range twins {
		soft[kernel] = func(l *cudabuf.TwinLaunch) { do(l) }
	}
	return &program{twins, &cudabuf.Program{
		ImageFor: func(major, minor int) ([]byte, error) { return kernels.Image(name, major, minor) },
		Twins:    soft,
	}}
}

// threads is the size of a block.
const threads = 256

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
	cuda, ok := w.dev.(*cudabuf.Device)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", w.dev, arrowbuf.ErrDevice)
	}
	blocks := (items-1)/perBlock + 1
	if blocks > math.MaxInt32 {
		return fmt.Errorf("kernel %s: %d items are more than a grid has threads for: %w", name, items, arrowbuf.ErrOutOfRange)
	}
	kernel, err := cuda.Kernel(p.cuda, name)
	if err != nil {
		return fmt.Errorf("loading kernel %s: %w", name, err)
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return err
	}
	for i, arg := range args {
		args[i] = pointer(arg)
	}
	return kernel.LaunchAsync(stream, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: threads}, 0, args...)
}

// pointer makes an argument of a launch of an array, and leaves others.
func pointer(arg any) any {
	switch a := arg.(type) {
	case *ndview.NDBuffer:
		if a == nil {
			return uintptr(0)
		}
		if b, ok := a.Buffer().(*cudabuf.Buffer); ok {
			return cudabuf.In(b, a.Offset())
		}
		return a.Buffer() // the launch refuses it
	case written:
		if b, ok := a.Buffer().(*cudabuf.Buffer); ok {
			return cudabuf.InOut(b, a.Offset())
		}
		return a.Buffer()
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

// mustAlign ends a twin where a GPU would: at a pointer that is no multiple of what
// the kernel moves at once.
func mustAlign(c call, i int, width uintptr) {
	if _, host := c.(hostCall); !host && c.Pointer(i)%width != 0 {
		panic(fmt.Sprintf("argument %d at %#x is not a multiple of %d", i, c.Pointer(i), width))
	}
}

// structOf is a struct as an argument. T has C's layout: fields of fixed sizes,
// each at a multiple of its size.
func structOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// parameters gives a twin its copy of a struct back.
func parameters[T any](c call, i int) (p T) {
	copy(structOf(&p), c.Struct(i, int(unsafe.Sizeof(p))))
	return p
}
