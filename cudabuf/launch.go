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
// ordered. The number and the sizes of the arguments are checked if the driver knows
// them, see [Kernel.Parameters]; the kinds of numbers are not. The simulated device
// also checks the types that the host kernel reads.
func (k *Kernel) Launch(grid, block Dim3, sharedBytes uint32, args ...any) error {
	return k.launch(nil, grid, block, sharedBytes, args)
}

// LaunchAsync is Launch in the order of a stream. It returns when the kernel is
// enqueued. The stream reports errors of the kernel.
func (k *Kernel) LaunchAsync(s *Stream, grid, block Dim3, sharedBytes uint32, args ...any) error {
	if err := checkStream("Kernel.LaunchAsync", s); err != nil {
		return err
	}
	return k.launch(s, grid, block, sharedBytes, args)
}

// LaunchN is [Kernel.Launch] of at least n threads along X, without dynamic shared
// memory, for kernels whose threads take one element each. The last block may have
// threads with numbers of n and more, which must do nothing. If n is 0, nothing is
// launched.
//
// Blocks have the size of [Kernel.BestBlock], or less if n is too small to give each
// multiprocessor a block. It returns an error wrapping arrowbuf.ErrOutOfRange if n is
// negative, or more than a grid can have.
func (k *Kernel) LaunchN(n int64, args ...any) error { return k.launchN(nil, n, args) }

// LaunchNAsync is LaunchN in the order of a stream, see [Kernel.LaunchAsync].
func (k *Kernel) LaunchNAsync(s *Stream, n int64, args ...any) error {
	if err := checkStream("Kernel.LaunchNAsync", s); err != nil {
		return err
	}
	return k.launchN(s, n, args)
}

func (k *Kernel) launchN(s *Stream, n int64, args []any) error {
	if k == nil || k.dev == nil {
		return errors.New("cudabuf.Kernel.LaunchN: got a nil kernel")
	}
	blocks, threads, err := k.sizesFor(n)
	if err != nil || n == 0 {
		return k.annotate(err)
	}
	return k.launch(s, Dim3{X: blocks}, Dim3{X: threads}, 0, args)
}

// sizesFor returns the sizes of a grid and of its blocks for n threads.
func (k *Kernel) sizesFor(n int64) (blocks, threads uint32, err error) {
	if n < 0 {
		return 0, 0, fmt.Errorf("cudabuf.Kernel.LaunchN: got %d threads, want at least 0: %w", n, arrowbuf.ErrOutOfRange)
	}
	most := int64(k.bestBlock.Load())
	if most == 0 {
		_, best, err := k.BestBlock(0, 0)
		if err != nil {
			return 0, 0, err
		}
		k.bestBlock.Store(int32(best))
		most = int64(best)
	}
	warp := int64(k.dev.Limits().WarpSize)
	each := (max(n, 1)-1)/int64(k.dev.Multiprocessors()) + 1
	size := min((each+warp-1)/warp*warp, most)
	if grid := (max(n, 1)-1)/size + 1; grid <= int64(k.dev.Limits().MaxGrid[0]) {
		return uint32(grid), uint32(size), nil
	}
	return 0, 0, fmt.Errorf("cudabuf.Kernel.LaunchN: got %d threads, want at most %d blocks of %d: %w", n, k.dev.Limits().MaxGrid[0], size, arrowbuf.ErrOutOfRange)
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
	if err == nil && k.params != nil {
		err = checkArgs(l.Args, k.params)
	}
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

// checkArgs returns an error unless each parameter has an argument of its size. The
// driver would read beyond the arguments.
func checkArgs(args []driver.Arg, params []Parameter) error {
	if len(args) != len(params) {
		return fmt.Errorf("got %d arguments, want %d: %w", len(args), len(params), ErrArguments)
	}
	for i := range args {
		if got := args[i].ByteSize(); got != params[i].Size {
			return fmt.Errorf("argument %d: got %d bytes, want %d: %w", i, got, params[i].Size, ErrArguments)
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
		if v == nil {
			return errNilBuffer
		}
		return l.addPointer(d, Pointer{noescape(v), 0, accessMode(!v.readOnly)})
	case *HostBuffer:
		if v == nil {
			return errNilBuffer
		}
		return l.addHost(d, noescape(v))
	case Pointer:
		return l.addPointer(d, Pointer{noescape(v.buffer), v.offset, v.mode})
	case arrowbuf.Buffer:
		return fmt.Errorf("buffer on the wrong device: got a %s, want memory of %v: %w", reflect.TypeOf(arg).String(), d, arrowbuf.ErrDevice)
	case nil:
		return fmt.Errorf("nil is not a kernel argument: %w", ErrNil)
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
	case b == nil:
		return errNilBuffer
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
func defaultAxes(d Dim3) driver.Dim3 { return driver.Dim3{X: d.X, Y: max(d.Y, 1), Z: max(d.Z, 1)} }
