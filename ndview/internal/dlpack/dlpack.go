// Package dlpack has the C structs of DLPack. It exports tensors, which C code releases
// by calling their deleter, and imports tensors of other libraries. The interpretation
// of tensors is up to the caller.
package dlpack

import "unsafe"

// The ABI version. A tensor of another major version may only be deleted.
const (
	Major = 1
	Minor = 1
)

// Device types; their numbers are the same in Arrow's C device interface.
const (
	CPU         = 1
	CUDA        = 2
	CUDAHost    = 3
	CUDAManaged = 13
)

// Element type codes.
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

// Tensor is DLTensor. Addresses are integers, as they may be device addresses.
type Tensor struct {
	Data       uintptr
	Device     Device
	NDim       int32
	DataType   DataType
	Shape      uintptr // NDim int64 extents
	Strides    uintptr // NDim int64 strides, in elements
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

// Imported is a tensor of another library. The caller must release it with Delete.
type Imported struct {
	Tensor
	Version uint32 // major version; Major for a Legacy tensor
	Flags   uint64
	self    unsafe.Pointer
	deleter uintptr
}

// Import reads a Versioned tensor. If its major version differs, it reads only the fields
// that all versions have.
func Import(p unsafe.Pointer) *Imported {
	v := (*Versioned)(p)
	t := &Imported{Version: v.Major, self: p, deleter: v.Deleter}
	if v.Major == Major {
		t.Tensor, t.Flags = v.Tensor, v.Flags
	}
	return t
}

// ImportLegacy reads a Legacy tensor.
func ImportLegacy(p unsafe.Pointer) *Imported {
	l := (*Legacy)(p)
	return &Imported{Version: Major, Tensor: l.Tensor, self: p, deleter: l.Deleter}
}

// Extents returns a tensor's shape, and its strides in elements, or nil if it has no
// strides.
func (t *Imported) Extents() (shape, strides []int64) {
	return int64s(t.Shape, t.NDim), int64s(t.Strides, t.NDim)
}

// int64s copies a C array. It returns nil for a null pointer.
func int64s(address uintptr, n int32) []int64 {
	if address == 0 {
		return nil
	}
	return append([]int64{}, unsafe.Slice((*int64)(Pointer(address)), n)...)
}

// Pointer converts the address of pinned memory, or of memory outside Go's heap. The
// indirection avoids a false report by go vet.
func Pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
