package ndview

import "github.com/quiver-gpu/quiver/arrowbuf"

// Prototype says what kind of memory a reader should produce, such as those of
// zarr.Array. It is a small value: two are equal by == when they mean the same
// device. The zero value means the CPU.
//
// It goes where it is meant, as an argument. There is no default that a program
// could change for all its readers at once, as zarr-python's enable_gpu does.
type Prototype struct {
	device arrowbuf.Device // nil for the CPU
}

// PrototypeOn means memory of a device.
func PrototypeOn(dev arrowbuf.Device) Prototype {
	if dev == arrowbuf.CPU() {
		return Prototype{}
	}
	return Prototype{device: dev}
}

// Device is where the memory is to be.
func (p Prototype) Device() arrowbuf.Device {
	if p.device == nil {
		return arrowbuf.CPU()
	}
	return p.device
}

// Buffer makes n bytes whose values are undefined.
func (p Prototype) Buffer(n int64) (*Buffer, error) { return newBuffer(p.Device(), n) }

// BufferFrom is BufferFrom for the prototype's device.
func (p Prototype) BufferFrom(data []byte) (*Buffer, error) { return BufferFrom(p.Device(), data) }

// NDBuffer makes an array in C order whose elements are undefined.
func (p Prototype) NDBuffer(dtype DType, shape ...int64) (*NDBuffer, error) {
	return Empty(p.Device(), dtype, shape...)
}

// String names the device.
func (p Prototype) String() string { return p.Device().String() }
