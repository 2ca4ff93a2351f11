package cpu

import (
	"sync"
	"unsafe"
)

// streamed is from how many bytes on, read and written, a result is written past
// the caches: it would not stay there, and each line of it would be read from memory
// first.
var streamed = int64(36 << 20)

// Streams tells whether the result of an operation that reads and writes so many
// bytes is to be streamed.
func Streams(bytes int64) bool { return streams && bytes >= streamed }

// Stream copies n bytes past the caches. Others see them after StreamEnd only.
func Stream(dst, src unsafe.Pointer, n int64) {
	head := min(-int64(uintptr(dst))&(block-1), n)
	if head > 0 {
		copyBytes(dst, src, head)
	}
	if lines := (n - head) / block; lines > 0 {
		streamLines(unsafe.Add(dst, head), unsafe.Add(src, head), lines)
		head += lines * block
	}
	if head < n {
		copyBytes(unsafe.Add(dst, head), unsafe.Add(src, head), n-head)
	}
}

func copyBytes(dst, src unsafe.Pointer, n int64) {
	copy(unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n))
}

// StreamBlock is how many bytes of a result are made in the cache at a time: so few
// that the processor begins with the next while those before go to memory.
const StreamBlock = 2 << 10

var streamBlocks = sync.Pool{New: func() any { return new([StreamBlock / 8]uint64) }}
