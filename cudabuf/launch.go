package cudabuf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Launch runs the kernel and returns when it is done (cuLaunchKernel).
// sharedBytes is dynamic shared memory a block.
//
// Each argument has the Go type of the kernel's parameter: int32, uint32,
// int64, uint64, float32, float64; for a pointer a uintptr, a *Buffer of this
// device, or a *HostBuffer that kernels reach; for a struct that is passed by
// value the []byte of it in C's layout, up to 4 KiB. A buffer's memory stays until
// the kernel is done, and is ordered as memory that the kernel writes, unless the
// buffer is of [Buffer.ReadOnly] or passed as [In]; a uintptr is not ordered at all.
// CUDA checks neither number nor types; the soft device checks them where the
// twin reads them.
func (k *Kernel) Launch(grid, block Dim3, sharedBytes uint32, args ...any) error {
	return k.launch(nil, grid, block, sharedBytes, args)
}

// LaunchAsync is Launch in the order of a stream: it returns when the kernel is
// queued. What fails in the kernel is reported by the stream.
func (k *Kernel) LaunchAsync(s *Stream, grid, block Dim3, sharedBytes uint32, args ...any) error {
	return k.launch(s, grid, block, sharedBytes, args)
}

// In is an argument of a launch: a pointer into a buffer, offset bytes from its
// start, through which the kernel only reads the buffer. In a slice the offset
// may be negative, or beyond the end, as far as the buffer reaches that it was
// cut from.
func In(b *Buffer, offset int64) Pointer { return Pointer{b, offset, reads} }

// InOut is In for a buffer that the kernel reads and writes, as it does a
// *Buffer that is passed without.
func InOut(b *Buffer, offset int64) Pointer { return Pointer{b, offset, writes} }

// Pointer is the result of In and InOut.
type Pointer struct {
	buffer *Buffer
	offset int64
	mode   accessMode
}

// launchState is what a launch needs while it is issued. They are used again, so
// that launching allocates nothing.
type launchState struct {
	driver.Launch
	accesses []access
}

// maxStructBytes is what CUDA takes as parameters of every GPU.
const maxStructBytes = 4 << 10

var launchStates = sync.Pool{New: func() any {
	l := &launchState{accesses: make([]access, 0, 16)}
	l.Args, l.Structs = make([]driver.Arg, 0, 16), make([]byte, 0, maxStructBytes)
	return l
}}

func (k *Kernel) launch(s *Stream, grid, block Dim3, sharedBytes uint32, args []any) error {
	l := launchStates.Get().(*launchState)
	l.Function, l.Grid, l.Block, l.SharedBytes = k.handle, defaultAxes(grid), defaultAxes(block), sharedBytes
	err := l.addArgs(k.dev, args)
	if err == nil {
		err = k.dev.submit(s, l.accesses, func(h driver.Stream) error {
			l.Stream = h
			return k.dev.api.LaunchKernel(&l.Launch)
		})
	}
	l.recycle()
	return k.annotate(err)
}

// recycle makes the launch ready for the next one.
func (l *launchState) recycle() {
	for i := range l.accesses {
		l.accesses[i].memory = nil
	}
	l.Args, l.Structs, l.accesses = l.Args[:0], l.Structs[:0], l.accesses[:0]
	launchStates.Put(l)
}

func (l *launchState) addArgs(d *Device, args []any) error {
	for i, arg := range args {
		if err := l.addArg(d, arg); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return nil
}

// addArg appends an argument. What arg points to must not escape from here: a
// call's numbers then stay on the caller's stack.
func (l *launchState) addArg(d *Device, arg any) error {
	var a driver.Arg
	switch v := arg.(type) {
	case int32:
		a = driver.Arg{Kind: driver.Int32, Bits: uint64(uint32(v))}
	case uint32:
		a = driver.Arg{Kind: driver.Uint32, Bits: uint64(v)}
	case float32:
		a = driver.Arg{Kind: driver.Float32, Bits: uint64(math.Float32bits(v))}
	case int64:
		a = driver.Arg{Kind: driver.Int64, Bits: uint64(v)}
	case uint64:
		a = driver.Arg{Kind: driver.Uint64, Bits: v}
	case float64:
		a = driver.Arg{Kind: driver.Float64, Bits: math.Float64bits(v)}
	case uintptr:
		a = driver.Arg{Kind: driver.Pointer, Bits: uint64(v)}
	case []byte:
		return l.addStruct(v)
	case *Buffer:
		return l.addPointer(d, Pointer{noescape(v), 0, accessMode(!v.readOnly)})
	case *HostBuffer:
		return l.addHost(d, noescape(v))
	case Pointer:
		return l.addPointer(d, Pointer{noescape(v.buffer), v.offset, v.mode})
	case arrowbuf.Buffer:
		return fmt.Errorf("%s, memory of another device, for a kernel on %v: %w", reflect.TypeOf(arg).String(), d, arrowbuf.ErrDevice)
	default:
		return errors.New(reflect.TypeOf(arg).String() + " is no kernel argument: pass int32, uint32, int64, uint64, float32, float64, uintptr, []byte or a Buffer")
	}
	l.Args = append(l.Args, a)
	return nil
}

// addStruct copies the bytes, so that they may lie on the caller's stack.
func (l *launchState) addStruct(b []byte) error {
	at := len(l.Structs)
	end := at + len(b)
	if len(b) == 0 || end > maxStructBytes {
		return fmt.Errorf("structs of %d bytes, of which a kernel takes 1 to %d", end, maxStructBytes)
	}
	l.Structs = l.Structs[:(end+7)&^7] // C may copy a struct in words
	copy(l.Structs[at:], b)
	l.Args = append(l.Args, driver.Arg{Kind: driver.Struct, Size: uint32(len(b)), Bits: uint64(at)})
	return nil
}

// noescape returns b, and hides from the compiler that a launch keeps it: else all
// that is passed beside it would have to be on the heap too. Buffers are, since
// no one else can make one.
func noescape[T Buffer | HostBuffer](b *T) *T {
	address := uintptr(unsafe.Pointer(b))
	return *(**T)(unsafe.Pointer(&address))
}

func (l *launchState) addPointer(d *Device, p Pointer) error {
	b := p.buffer
	switch {
	case b.dev != d:
		return fmt.Errorf("a buffer on %v for a kernel on %v: %w", b.dev, d, arrowbuf.ErrDevice)
	case b.readOnly && p.mode == writes:
		return fmt.Errorf("for a kernel to write: %w", ErrReadOnly)
	}
	if p.offset != 0 {
		if err := b.checkOffset(p.offset); err != nil {
			return err
		}
	}
	return l.addAddress(&b.memoryView, b.address+uintptr(p.offset), p.mode)
}

// addHost appends a pointer to mapped memory of the host.
func (l *launchState) addHost(d *Device, h *HostBuffer) error {
	address, err := h.addressOn(d)
	if err != nil {
		return err
	}
	return l.addAddress(&h.memoryView, address, accessMode(!h.readOnly))
}

// addAddress appends a pointer to memory that a span is part of. The span is not
// held: should it go meanwhile, issuing the launch finds the memory gone, or makes
// it wait.
func (l *launchState) addAddress(s *memoryView, address uintptr, mode accessMode) error {
	if s.refs.Load() <= 0 {
		return s.errReleased()
	}
	if s.memory != nil {
		l.accesses = append(l.accesses, access{s.memory, mode})
	}
	l.Args = append(l.Args, driver.Arg{Kind: driver.Pointer, Bits: uint64(address)})
	return nil
}

// annotate adds the kernel's name to an error.
func (k *Kernel) annotate(err error) error {
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.name, err)
	}
	return nil
}

func defaultAxes(d Dim3) Dim3 { return Dim3{X: d.X, Y: max(d.Y, 1), Z: max(d.Z, 1)} }
