package cdevice

import "sync/atomic"

// owner is a struct of another library, moved here, which is released with the
// last reference to it.
type owner struct {
	DeviceArray
	refs atomic.Int64
}

// newOwner moves the struct, with one reference.
func newOwner(in *DeviceArray) *owner {
	o := &owner{DeviceArray: *move(in)}
	o.refs.Store(1)
	return o
}

func (o *owner) retain() { o.refs.Add(1) }

func (o *owner) release() {
	if o.refs.Add(-1) == 0 {
		o.Release()
	}
}
