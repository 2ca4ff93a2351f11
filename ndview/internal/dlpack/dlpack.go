// Package dlpack is DLPack's C structs in Go: it hands out tensors that C code
// gives back by their deleter, and takes those of others. What they mean is the
// caller's.
package dlpack

import "unsafe"

// The version of the ABI: a tensor of another major version may only be deleted.
const (
	Major = 1
	Minor = 1
)

// The device types that arrays have; they are Arrow's too.
const (
	CPU         = 1
	CUDA        = 2
	CUDAHost    = 3
	CUDAManaged = 13
)

// The codes of types of elements.
const (
	Int     = 0
	Uint    = 1
	Float   = 2
	BFloat  = 4
	Complex = 5
	Bool    = 6
)

// Flags of a Versioned tensor.
const (
	ReadOnly = 1
	IsCopied = 2
)

// Device is DLDevice.
type Device struct{ Type, ID int32 }

// DataType is DLDataType.
type DataType struct {
	Code, Bits uint8
	Lanes      uint16
}

// Tensor is DLTensor. Addresses are numbers: they may be a device's.
type Tensor struct {
	Data       uintptr
	Device     Device
	NDim       int32
	DataType   DataType
	Shape      uintptr // of NDim int64
	Strides    uintptr // of NDim int64, in elements
	ByteOffset uint64
}

// Legacy is DLManagedTensor.
type Legacy struct {
	Tensor  Tensor
	Context uintptr
	Deleter uintptr
}

// Versioned is DLManagedTensorVersioned.
type Versioned struct {
	Major, Minor uint32
	Context      uintptr
	Deleter      uintptr
	Flags        uint64
	Tensor       Tensor
}

// Taken is a tensor of another library, until Delete gives it back.
type Taken struct {
	Tensor
	Version uint32 // the major one, that of this package for a Legacy tensor
	Flags   uint64
	self    unsafe.Pointer
	deleter uintptr
}

// Take reads a Versioned tensor. Of another major version it reads no more than
// may be read.
func Take(p unsafe.Pointer) *Taken {
	v := (*Versioned)(p)
	t := &Taken{Version: v.Major, self: p, deleter: v.Deleter}
	if v.Major == Major {
		t.Tensor, t.Flags = v.Tensor, v.Flags
	}
	return t
}

// TakeLegacy reads a Legacy tensor.
func TakeLegacy(p unsafe.Pointer) *Taken {
	l := (*Legacy)(p)
	return &Taken{Version: Major, Tensor: l.Tensor, self: p, deleter: l.Deleter}
}

// Extents are a tensor's shape, and its strides in elements, nil where it has
// none.
func (t *Taken) Extents() (shape, strides []int64) {
	return int64s(t.Shape, t.NDim), int64s(t.Strides, t.NDim)
}

// int64s copies an array of C; nil for no array.
func int64s(address uintptr, n int32) []int64 {
	if address == 0 {
		return nil
	}
	return append([]int64{}, unsafe.Slice((*int64)(Pointer(address)), n)...)
}

// Pointer is an address of memory that is not Go's, or that is pinned. The
// indirection says to vet that it is meant.
func Pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
