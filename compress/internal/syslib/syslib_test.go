package syslib_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress/internal/syslib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallReachesAFunctionOfTheSystemsLibrary(t *testing.T) {
	var length uintptr
	if !syslib.Open("libc.so.6", "libSystem.B.dylib", map[string]*uintptr{"strlen": &length}) {
		t.Skip("this machine has no C library of that name")
	}
	t.Setenv(syslib.Disabled, "1")
	require.False(t, syslib.Open("libc.so.6", "libSystem.B.dylib", nil), "disabled")
	text := append([]byte("four"), 0)
	for range 100 {
		require.EqualValues(t, 4, syslib.Call(length, uintptr(unsafe.Pointer(&text[0]))))
		runtime.GC()
	}
}

func TestMissingLibrariesAndFunctionsAreReported(t *testing.T) {
	var address uintptr
	assert.False(t, syslib.Open("libquiver-missing.so.1", "libquiver-missing.dylib", nil))
	assert.False(t, syslib.Open("libc.so.6", "libSystem.B.dylib", map[string]*uintptr{"quiver_missing": &address}))
}
