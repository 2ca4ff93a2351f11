package arrowzarr

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// batchBytes is the memory of a batch's buffers, each as size says.
func batchBytes(batch arrow.RecordBatch, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, c := range batch.Columns() {
		total += arrayBytes(c.Data(), size)
	}
	return total
}

func arrayBytes(data arrow.ArrayData, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, b := range data.Buffers() {
		if b != nil {
			total += size(b)
		}
	}
	for _, child := range data.Children() {
		total += arrayBytes(child, size)
	}
	return total
}

// bufferLen is the size of what is in a buffer.
func bufferLen(b *memory.Buffer) int64 { return int64(b.Len()) }

// bufferCap is the allocated size of a buffer, which is larger than its length because
// arrow-go builds columns by appending.
func bufferCap(b *memory.Buffer) int64 { return int64(b.Cap()) }
