package syslib_test

import (
	"io"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress/internal/syslib"
	"github.com/stretchr/testify/assert"
)

// openC returns the addresses of functions of the C library.
func openC(t *testing.T, names ...string) []uintptr {
	t.Helper()
	functions := make([]uintptr, len(names))
	byName := map[string]*uintptr{}
	for i, name := range names {
		byName[name] = &functions[i]
	}
	if !syslib.Open("libc.so.6", "libSystem.B.dylib", byName) {
		t.Skip("this machine has no C library of that name")
	}
	return functions
}

func callFor0(function uintptr, args ...uintptr) uintptr { return syslib.CallFor(0, function, args...) }

// printNumbers calls snprintf with a format of numbers.
func printNumbers(call func(uintptr, ...uintptr) uintptr, snprintf uintptr, format string, numbers ...uintptr) string {
	out := make([]byte, 100)
	terminated := append([]byte(format), 0)
	var pins runtime.Pinner // of what does not escape, as the addresses are converted before the call
	defer pins.Unpin()
	pins.Pin(&out[0])
	pins.Pin(&terminated[0])
	args := append([]uintptr{uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)), uintptr(unsafe.Pointer(&terminated[0]))}, numbers...)
	n := int32(call(snprintf, args...))
	return string(out[:n])
}

func TestBriefCallsHaveArgumentsAndResults(t *testing.T) {
	snprintf := openC(t, "snprintf")[0]
	if runtime.GOOS == "darwin" {
		t.Skip("macOS has another way to pass arguments of snprintf")
	}
	for _, call := range []func(uintptr, ...uintptr) uintptr{syslib.Call, callFor0} {
		assert.Equal(t, "no number", printNumbers(call, snprintf, "no number"))
		assert.Equal(t, "1 2 3", printNumbers(call, snprintf, "%d %d %d", 1, 2, 3))
		assert.Equal(t, "1 2 3 4 5", printNumbers(call, snprintf, "%d %d %d %d %d", 1, 2, 3, 4, 5), "more than registers have")
	}
}

// Signals, moving stacks and garbage collections meet brief calls.
func TestBriefCallsAmongOthers(t *testing.T) {
	functions := openC(t, "snprintf", "memmem")
	if runtime.GOOS == "darwin" {
		t.Skip("macOS has another way to pass arguments of snprintf")
	}
	if pprof.StartCPUProfile(io.Discard) == nil { // otherwise the test is profiled already
		defer pprof.StopCPUProfile()
	}
	done := make(chan struct{})
	var others, callers sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	})
	for i := range uintptr(8) {
		callers.Go(func() {
			text := make([]byte, 1<<20)
			needle := []byte(strconv.Itoa(int(1_000_000 + i)))
			copy(text[len(text)-len(needle):], needle)
			for k := range uintptr(100) {
				assert.Equal(t, strconv.Itoa(int(i))+" "+strconv.Itoa(int(k)), deep(100, func() string {
					return printNumbers(callFor0, functions[0], "%d %d", i, k)
				}))
				found := syslib.CallFor(0, functions[1], uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), uintptr(unsafe.Pointer(&needle[0])), uintptr(len(needle)))
				assert.Equal(t, len(text)-len(needle), int(found-uintptr(unsafe.Pointer(&text[0]))))
			}
		})
	}
	callers.Wait()
	close(done)
	others.Wait()
}

// deep calls f with a larger stack.
func deep(n int, f func() string) string {
	var frame [200]byte
	if n == 0 {
		return f()
	}
	frame[n] = byte(n)
	return deep(n-int(frame[n])/n, f)
}

func TestBriefCallsKeepTheProcessor(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("no call is brief here")
	}
	memset := openC(t, "memset")[0]
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const tries = 5
	kept := 0
	for range tries {
		memory := make([]byte, 256<<20) // pages that are touched now first, which takes long
		seen := make(chan byte, 1)
		go func() { seen <- memory[len(memory)-1<<20] }() // as soon as there is a processor
		syslib.CallFor(0, memset, uintptr(unsafe.Pointer(&memory[0])), 1, uintptr(len(memory)))
		if <-seen == 1 {
			kept++
		}
	}
	// Once the other goroutine may run before the call.
	assert.GreaterOrEqual(t, kept, tries-1, "another goroutine ran before the function had ended")
}
