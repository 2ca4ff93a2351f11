package cudatest_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// deref is a mistake: it reads what an address points to.
func deref(address uintptr) { _ = **(**byte)(unsafe.Pointer(&address)) }

func TestCatchTouchSaysWhatWasTouchedAndWhere(t *testing.T) {
	d := cudatest.Start(t, cudatest.Config{Devices: 2})
	var addresses []uintptr
	for i := range 2 {
		dev, err := d.Device(i)
		require.NoError(t, err)
		b, err := dev.NewBuffer(1000)
		require.NoError(t, err)
		t.Cleanup(b.Release)
		addresses = append(addresses, b.Address())
	}
	err := cudatest.CatchTouch(func() { deref(addresses[1] + 12) })
	require.Error(t, err)
	assert.ErrorContains(t, err, fmt.Sprintf("%#x of cuda:1, byte 12 of ", addresses[1]+12))
	assert.ErrorContains(t, err, "cudatest_test.deref")
	assert.NoError(t, cudatest.CatchTouch(func() {}))
}

func TestCatchTouchLeavesOtherPanicsAlone(t *testing.T) {
	assert.PanicsWithValue(t, "mine", func() { _ = cudatest.CatchTouch(func() { panic("mine") }) })
	assert.Panics(t, func() { _ = cudatest.CatchTouch(func() { deref(8) }) })
}
