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

// Launch runs the kernel and returns when it is done (cuLaunchKernel). sharedBytes is
// the dynamic shared memory per block.
//
// Each argument has the Go type of the kernel's parameter:
//   - int32, uint32, int64, uint64, float32 or float64;
//   - for a pointer a uintptr, a *Buffer of this device, or a *HostBuffer that kernels
//     can access;
//   - for a struct passed by value the []byte of it in C's layout, up to 4 KiB.
//
// A buffer's memory stays until the kernel is done. The launch is ordered as a write to
// it, unless the buffer is of [Buffer.ReadOnly] or passed as [In]. A uintptr is not
// ordered. CUDA does not check the number and types of the arguments. The simulated
// device checks those that the host kernel reads.
func (k *Kernel) Launch(grid, block Dim3, sharedBytes uint32, args ...any) error {
	return k.launch(nil, grid, block, sharedBytes, args)
}

// LaunchAsync is Launch in the order of a stream. It returns when the kernel is
// enqueued. The stream reports errors of the kernel.
func (k *Kernel) LaunchAsync(s *Stream, grid, block Dim3, sharedBytes uint32, args ...any) error {
	return k.launch(s, grid, block, sharedBytes, args)
}

// In is a launch argument: a pointer offset bytes into a buffer, which the kernel only
// reads. If the buffer is a slice, the offset may be negative or beyond the slice. It
// must not leave the buffer that owns the memory.
func In(b *Buffer, offset int64) Pointer { return Pointer{b, offset, reads} }

// InOut is In for a buffer that the kernel reads and writes. A *Buffer that is passed
// directly is also read and written.
func InOut(b *Buffer, offset int64) Pointer { return Pointer{b, offset, writes} }

// Pointer is the result of In and InOut.
type Pointer struct {
	buffer *Buffer
	offset int64
	mode   accessMode
}

// launchState holds the arguments of a launch while it is enqueued. It is reused, so
// that launching allocates nothing.
type launchState struct {
	driver.Launch
	accesses []access
}

// maxStructBytes is the size of the parameters that every GPU accepts.
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

// recycle returns the state to launchStates.
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

// addArg appends an argument. arg must not escape, so that the numbers of a call stay
// on the caller's stack.
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
		return fmt.Errorf("buffer on the wrong device: got a %s, want memory of %v: %w", reflect.TypeOf(arg).String(), d, arrowbuf.ErrDevice)
	default:
		return errors.New(reflect.TypeOf(arg).String() + " is not a kernel argument: want int32, uint32, int64, uint64, float32, float64, uintptr, []byte or a Buffer")
	}
	l.Args = append(l.Args, a)
	return nil
}

// addStruct copies the bytes, which may lie on the caller's stack.
func (l *launchState) addStruct(b []byte) error {
	at := len(l.Structs)
	end := at + len(b)
	if len(b) == 0 || end > maxStructBytes {
		return fmt.Errorf("size of struct arguments: got %d bytes, want 1 to %d", end, maxStructBytes)
	}
	l.Structs = l.Structs[:(end+7)&^7] // C may copy a struct by words
	copy(l.Structs[at:], b)
	l.Args = append(l.Args, driver.Arg{Kind: driver.Struct, Size: uint32(len(b)), Bits: uint64(at)})
	return nil
}

// noescape returns b and hides from the compiler that a launch keeps it. Otherwise all
// arguments of the call would be allocated on the heap. Buffers are always on the heap,
// since only this package creates them.
func noescape[T Buffer | HostBuffer](b *T) *T {
	address := uintptr(unsafe.Pointer(b))
	return *(**T)(unsafe.Pointer(&address))
}

func (l *launchState) addPointer(d *Device, p Pointer) error {
	b := p.buffer
	switch {
	case b.dev != d:
		return fmt.Errorf("buffer on the wrong device: got %v, want %v: %w", b.dev, d, arrowbuf.ErrDevice)
	case b.readOnly && p.mode == writes:
		return fmt.Errorf("written by the kernel: %w", ErrReadOnly)
	}
	if p.offset != 0 {
		if err := b.checkOffset(p.offset); err != nil {
			return err
		}
	}
	return l.addAddress(&b.memoryView, b.address+uintptr(p.offset), p.mode)
}

// addHost appends a pointer to mapped host memory.
func (l *launchState) addHost(d *Device, h *HostBuffer) error {
	address, err := h.addressOn(d)
	if err != nil {
		return err
	}
	return l.addAddress(&h.memoryView, address, accessMode(!h.readOnly))
}

// addAddress appends a pointer into memory of a view. It adds no reference. If the
// memory is released meanwhile, submit returns arrowbuf.ErrReleased, or the memory stays
// until the launch is done.
func (l *launchState) addAddress(v *memoryView, address uintptr, mode accessMode) error {
	if v.refs.Load() <= 0 {
		return v.errReleased()
	}
	if v.memory != nil {
		l.accesses = append(l.accesses, access{v.memory, mode})
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

// defaultAxes returns d with 1 for a zero in Y or Z.
func defaultAxes(d Dim3) Dim3 { return Dim3{X: d.X, Y: max(d.Y, 1), Z: max(d.Z, 1)} }
