package arrowbuf

import "github.com/apache/arrow-go/v18/arrow/memory"

// WrapExternal returns a CPU buffer over memory that another library keeps: not
// checked, and not copied. When the last reference goes, release is called,
// once; until then the owner must keep the memory.
func WrapExternal(data []byte, release func()) Buffer {
	return newCPUBuffer(memory.NewBufferWithAllocator(data, foreign(release)), data)
}

// foreign is the allocator of one buffer, which arrow-go asks for nothing but to
// free it.
type foreign func()

func (f foreign) Allocate(int) []byte           { panic("arrowbuf: foreign memory cannot grow in place") }
func (f foreign) Reallocate(int, []byte) []byte { panic("arrowbuf: foreign memory cannot be resized") }
func (f foreign) Free([]byte)                   { f() }
