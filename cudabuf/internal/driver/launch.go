package driver

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Dim3 is the size of a grid in blocks or of a block in threads. None of the
// three may be zero in a launch.
type Dim3 struct{ X, Y, Z uint32 }

// Kind is the type of a kernel's argument.
type Kind uint8

// The kinds, one a Go type.
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
// bytes of Bits, which come first: every machine that CUDA runs on is little
// endian. A Struct is passed by value, as its bytes in C's layout: Size of them,
// one at least, from place Bits of the launch's Structs.
type Arg struct {
	Kind Kind
	Size uint32
	Bits uint64
}

// Launch is what LaunchKernel gets. It is the caller's again, to be used for the
// next one, when that returns.
type Launch struct {
	Function    Function
	Grid, Block Dim3
	SharedBytes uint32
	Stream      Stream
	Args        []Arg
	Structs     []byte

	values []unsafe.Pointer // kept, so that a launch allocates nothing
}

// Values is where the addresses of what the kernel reads are, one an argument;
// they are good while the launch is kept alive and not changed.
func (l *Launch) Values() *unsafe.Pointer {
	if len(l.values) <= len(l.Args) { // so that there is a first
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

// HostKernel does a kernel's work in Go where there is no GPU: one call does the
// work of the whole grid.
type HostKernel func(*HostLaunch)

// HostLaunch is one launch as a Twin sees it. Arguments are counted from 0.
// Reading an argument as another type than it was passed as, or memory that is
// not the device's, ends the twin and fails the launch.
type HostLaunch struct {
	Grid, Block Dim3
	SharedBytes uint32

	args    []Arg
	structs []byte
	memory  func(address uintptr, n int64) ([]byte, bool)
}

// NewHostLaunch is for drivers that run twins; it copies what is in the launch.
// The function memory answers false for bytes that are not one allocation's.
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

// Pointer returns argument i, a device address. Memory makes bytes of it.
func (l *HostLaunch) Pointer(i int) uintptr { return uintptr(l.argument(i, Pointer)) }

// Struct returns argument i, the bytes of a struct in C's layout, n of them.
func (l *HostLaunch) Struct(i, n int) []byte {
	at := l.argument(i, Struct)
	if size := int(l.args[i].Size); size != n {
		panic(&Error{"cuLaunchKernel", InvalidValue, fmt.Sprintf("argument %d is a struct of %d bytes, the twin reads %d", i, size, n)})
	}
	return l.structs[at:][:n]
}

// Args is the number of arguments.
func (l *HostLaunch) Args() int { return len(l.args) }

// Memory returns n bytes of device memory, which the twin may read and write
// until it returns. Zero bytes are nil at any address.
func (l *HostLaunch) Memory(address uintptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	b, ok := l.memory(address, n)
	if !ok {
		panic(&Error{"cuLaunchKernel", IllegalAddress, fmt.Sprintf("the twin asks for %d bytes at %#x", n, address)})
	}
	return b
}

// Elements returns n values of device memory as HostLaunch.Memory returns
// bytes. As on a GPU, an address that is no multiple of the value's size is an
// error.
func Elements[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64](l *HostLaunch, address uintptr, n int64) []T {
	var zero T
	size := unsafe.Sizeof(zero)
	if n < 0 || n > math.MaxInt64/int64(size) {
		panic(&Error{"cuLaunchKernel", IllegalAddress, fmt.Sprintf("the twin asks for %d values at %#x", n, address)})
	}
	if address%size != 0 {
		panic(&Error{"cuLaunchKernel", MisalignedAddress, fmt.Sprintf("the twin reads %T at %#x", zero, address)})
	}
	b := l.Memory(address, n*int64(size))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func (l *HostLaunch) argument(i int, k Kind) uint64 {
	if i < 0 || i >= len(l.args) {
		panic(&Error{"cuLaunchKernel", InvalidValue, fmt.Sprintf("the twin reads argument %d of %d", i, len(l.args))})
	}
	if a := l.args[i]; a.Kind != k {
		panic(&Error{"cuLaunchKernel", InvalidValue, fmt.Sprintf("argument %d is %v, the twin reads %v", i, a.Kind, k)})
	}
	return l.args[i].Bits
}
