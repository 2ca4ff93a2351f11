package arrowdata

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BatchBytes is the memory of a batch's buffers, each as size says.
func BatchBytes(batch arrow.RecordBatch, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, c := range batch.Columns() {
		total += ArrayBytes(c.Data(), size)
	}
	return total
}

// ArrayBytes is the memory of the buffers of an array and those inside of it, each as size
// says.
func ArrayBytes(data arrow.ArrayData, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, b := range data.Buffers() {
		if b != nil {
			total += size(b)
		}
	}
	for _, child := range data.Children() {
		total += ArrayBytes(child, size)
	}
	return total
}

// BufferLen is the size of what is in a buffer.
func BufferLen(b *memory.Buffer) int64 { return int64(b.Len()) }

// BufferCap is the allocated size of a buffer, which is larger than its length because
// arrow-go builds columns by appending.
func BufferCap(b *memory.Buffer) int64 { return int64(b.Cap()) }
