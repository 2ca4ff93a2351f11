package batch

import (
	"math"
	"slices"
	"unsafe"
)

// What the kernels share that include kernels/compress/windows.cuh.
const (
	WindowBytes  = 15 << 10
	WriteThreads = 512
	WriteShared  = 4*WindowBytes + 32 // bytes of shared memory of a block of threads
	writeBlocks  = 1600               // of threads, several times what a GPU runs at once
)

// Sizes of structs in bytes.
const (
	SequenceBytes = int64(unsafe.Sizeof(Sequence{}))
	WindowSize    = int64(unsafe.Sizeof(Window{}))
	ProgressSize  = int64(unsafe.Sizeof(Progress{}))
)

type (
	// Sequence is the struct Sequence of windows.cuh.
	Sequence struct{ Out, Literals, Source, Offset uint32 }
	// Window is the struct Window of windows.cuh.
	Window struct{ First, Done uint32 }
	// Progress is the struct Progress of windows.cuh.
	Progress struct{ Next, Windows, Size, _ uint32 }
)

// Windows returns the most windows of an output of some bytes, at any address.
func Windows(bytes int64) int64 { return (bytes+15)/WindowBytes + 1 }

// Writers returns which item each block of threads writes, of items that have some windows.
// Many windows have many blocks. Those of an item lie apart, since they wait for each other.
func Writers(windows []int64) []int32 {
	var all int64
	active := make([]int32, 0, len(windows))
	for i, n := range windows {
		all += n
		if n > 0 && i <= math.MaxInt32 {
			active = append(active, int32(i))
		}
	}
	each := max((all+writeBlocks-1)/writeBlocks, 1)
	writers := make([]int32, 0, len(active)+writeBlocks)
	for taken := int64(0); len(active) > 0; taken += each {
		active = slices.DeleteFunc(active, func(i int32) bool { return windows[i] <= taken })
		writers = append(writers, active...)
	}
	return writers
}
