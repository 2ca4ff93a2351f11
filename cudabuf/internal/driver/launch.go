package driver

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Dim3 is the size of a grid in blocks or of a block in threads. In a launch,
// all three must be positive.
type Dim3 struct{ X, Y, Z uint32 }

// Kind is the type of a kernel's argument.
type Kind uint8

// The kinds, one per Go type.
const (
	Int32 Kind = iota + 1
	Uint32
	Float32
	Int64
	Uint64
	Float64
	Pointer
	Struct
)

func (k Kind) String() string {
	names := [...]string{"none", "int32", "uint32", "float32", "int64", "uint64", "float64", "pointer", "struct"}
	return names[min(int(k), len(names)-1)]
}

// Arg is one argument of a launch. A kernel reads its parameter from the low
// bytes of Bits. These come first, because every machine that CUDA supports is
// little-endian. A Struct is passed by value in C's layout: Size bytes, at
// least one, at offset Bits of the launch's Structs.
type Arg struct {
	Kind Kind
	Size uint32
	Bits uint64
}

// ByteSize returns the size of the parameter that the argument is for, in bytes.
func (a *Arg) ByteSize() int64 {
	switch a.Kind {
	case Int32, Uint32, Float32:
		return 4
	case Struct:
		return int64(a.Size)
	}
	return 8
}

// Launch is the argument of LaunchKernel. The caller may reuse it after
// LaunchKernel returns.
type Launch struct {
	Function    Function
	Grid, Block Dim3
	SharedBytes uint32
	Stream      Stream
	Args        []Arg
	Structs     []byte

	values []unsafe.Pointer // kept, so that a launch does not allocate
}

// Values returns the array of addresses of the arguments, as cuLaunchKernel
// needs it. It is valid while the launch is alive and unmodified.
func (l *Launch) Values() *unsafe.Pointer {
	if len(l.values) <= len(l.Args) { // at least one element
		l.values = make([]unsafe.Pointer, len(l.Args)+8)
	}
	for i := range l.Args {
		a := &l.Args[i]
		if a.Kind == Struct {
			l.values[i] = unsafe.Pointer(&l.Structs[a.Bits])
		} else {
			l.values[i] = unsafe.Pointer(&a.Bits)
		}
	}
	return &l.values[0]
}

// HostKernel is the host implementation of a kernel. One call runs the whole
// grid.
type HostKernel func(*HostLaunch)

// HostLaunch is one launch of a HostKernel. Arguments are counted from 0.
// Reading an argument as another type, or memory that the device cannot access,
// ends the host kernel. The launch then fails.
type HostLaunch struct {
	Grid, Block Dim3
	SharedBytes uint32

	args    []Arg
	structs []byte
	memory  func(address uintptr, n int64) ([]byte, bool)
}

// NewHostLaunch returns a launch for drivers that run host kernels. It copies
// the contents of l. The function memory reports false for bytes that are not
// in one allocation.
func NewHostLaunch(l *Launch, memory func(uintptr, int64) ([]byte, bool)) *HostLaunch {
	return &HostLaunch{
		Grid: l.Grid, Block: l.Block, SharedBytes: l.SharedBytes,
		args: slices.Clone(l.Args), structs: slices.Clone(l.Structs), memory: memory,
	}
}

// Int32 returns argument i.
func (l *HostLaunch) Int32(i int) int32 { return int32(l.argument(i, Int32)) }

// Int64 returns argument i.
func (l *HostLaunch) Int64(i int) int64 { return int64(l.argument(i, Int64)) }

// Uint32 returns argument i.
func (l *HostLaunch) Uint32(i int) uint32 { return uint32(l.argument(i, Uint32)) }

// Uint64 returns argument i.
func (l *HostLaunch) Uint64(i int) uint64 { return l.argument(i, Uint64) }

// Float32 returns argument i.
func (l *HostLaunch) Float32(i int) float32 {
	return math.Float32frombits(uint32(l.argument(i, Float32)))
}

// Float64 returns argument i.
func (l *HostLaunch) Float64(i int) float64 { return math.Float64frombits(l.argument(i, Float64)) }

// Pointer returns argument i, a device address. Memory returns its bytes.
func (l *HostLaunch) Pointer(i int) uintptr { return uintptr(l.argument(i, Pointer)) }

// Struct returns argument i, a struct of n bytes in C's layout.
func (l *HostLaunch) Struct(i, n int) []byte {
	at := l.argument(i, Struct)
	if size := int(l.args[i].Size); size != n {
		panic(&Error{"cuLaunchKernel", InvalidValue, fmt.Sprintf("argument %d is a struct of %d bytes, the host kernel reads %d", i, size, n)})
	}
	return l.structs[at:][:n]
}

// Args returns the number of arguments.
func (l *HostLaunch) Args() int { return len(l.args) }

// Memory returns n bytes of device memory. The host kernel may read and write
// them until it returns. Zero bytes are nil at any address.
func (l *HostLaunch) Memory(address uintptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	b, ok := l.memory(address, n)
	if !ok {
		panic(&Error{"cuLaunchKernel", IllegalAddress, fmt.Sprintf("the host kernel accesses %d bytes at %#x", n, address)})
	}
	return b
}

// Elements returns n values of device memory, like HostLaunch.Memory. An
// address that is not a multiple of the value's size is an error, as on a GPU.
func Elements[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64](l *HostLaunch, address uintptr, n int64) []T {
	var zero T
	size := unsafe.Sizeof(zero)
	if n < 0 || n > math.MaxInt64/int64(size) {
		panic(&Error{"cuLaunchKernel", IllegalAddress, fmt.Sprintf("the host kernel accesses %d values at %#x", n, address)})
	}
	if address%size != 0 {
		panic(&Error{"cuLaunchKernel", MisalignedAddress, fmt.Sprintf("the host kernel reads %T at %#x", zero, address)})
	}
	b := l.Memory(address, n*int64(size))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func (l *HostLaunch) argument(i int, k Kind) uint64 {
	if i < 0 || i >= len(l.args) {
		panic(&Error{"cuLaunchKernel", InvalidValue, fmt.Sprintf("the host kernel reads argument %d of %d", i, len(l.args))})
	}
	if a := l.args[i]; a.Kind != k {
		panic(&Error{"cuLaunchKernel", InvalidValue, fmt.Sprintf("argument %d is %v, the host kernel reads %v", i, a.Kind, k)})
	}
	return l.args[i].Bits
}
