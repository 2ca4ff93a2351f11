// Package arrowbuf says what a device and a buffer are, and lets Arrow arrays
// and record batches live on one.
//
// A [Device] hands out [Buffer]s. The CPU is a device too ([CPU]), so that a
// program written against this package runs the same with and without a GPU;
// package cudabuf is the device of NVIDIA's GPUs. A Buffer backs arrow-go's
// memory.Buffer ([Buffer.Arrow]) and is found again from it, from slices too
// ([FromArrow], and [BufferOf] for host memory alike).
//
// [CopyTo] moves a record batch of any types to a device, and back to the CPU.
// What it returns there is a [RecordBatch] of [Array]s, which are
// arrow.RecordBatch and arrow.Array: they slice, count nulls and print by copying
// just the bytes that takes, so device memory is never touched from the host. [On]
// copies in the order of a stream, and returns early. [NewReader] copies each
// batch of a reader, [CopyTableTo] a table. Code that was written for the host and
// reads such memory in place faults; [Guard] makes that a panic that names the
// column.
package arrowbuf
