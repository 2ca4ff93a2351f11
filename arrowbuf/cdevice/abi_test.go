//go:build linux || darwin

package cdevice

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The structs of the interface without devices have C's sizes.
func TestCPUStructSizesMatchC(t *testing.T) {
	assert.EqualValues(t, 80, unsafe.Sizeof(Array{}))
	var s Stream
	assert.EqualValues(t, 40, unsafe.Sizeof(s))
	assert.Equal(t, []uintptr{0, 8, 16, 24, 32}, []uintptr{
		unsafe.Offsetof(s.getSchema), unsafe.Offsetof(s.getNext), unsafe.Offsetof(s.getLastError), unsafe.Offsetof(s.release), unsafe.Offsetof(s.private),
	})
}

func TestStructLayoutMatchesC(t *testing.T) {
	var s Schema
	assert.EqualValues(t, 72, unsafe.Sizeof(s))
	var a DeviceArray
	assert.EqualValues(t, 80, unsafe.Sizeof(a.array))
	assert.EqualValues(t, 128, unsafe.Sizeof(a))
	var d DeviceStream
	assert.EqualValues(t, 48, unsafe.Sizeof(d))
	for _, tt := range []struct{ want, got uintptr }{
		{0, unsafe.Offsetof(s.format)}, {8, unsafe.Offsetof(s.name)}, {16, unsafe.Offsetof(s.metadata)}, {24, unsafe.Offsetof(s.flags)},
		{32, unsafe.Offsetof(s.nChildren)}, {40, unsafe.Offsetof(s.children)}, {48, unsafe.Offsetof(s.dictionary)},
		{56, unsafe.Offsetof(s.release)}, {64, unsafe.Offsetof(s.private)},
		{0, unsafe.Offsetof(a.array.length)}, {8, unsafe.Offsetof(a.array.nulls)}, {16, unsafe.Offsetof(a.array.offset)},
		{24, unsafe.Offsetof(a.array.nBuffers)}, {32, unsafe.Offsetof(a.array.nChildren)}, {40, unsafe.Offsetof(a.array.buffers)},
		{48, unsafe.Offsetof(a.array.children)}, {56, unsafe.Offsetof(a.array.dictionary)}, {64, unsafe.Offsetof(a.array.release)},
		{72, unsafe.Offsetof(a.array.private)},
		{80, unsafe.Offsetof(a.deviceID)}, {88, unsafe.Offsetof(a.deviceType)}, {96, unsafe.Offsetof(a.event)}, {104, unsafe.Offsetof(a.reserved)},
		{0, unsafe.Offsetof(d.deviceType)}, {8, unsafe.Offsetof(d.getSchema)}, {16, unsafe.Offsetof(d.getNext)},
		{24, unsafe.Offsetof(d.getLastError)}, {32, unsafe.Offsetof(d.release)}, {40, unsafe.Offsetof(d.private)},
	} {
		assert.Equal(t, tt.want, tt.got)
	}
}
