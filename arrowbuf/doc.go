// Package arrowbuf defines devices and buffers, and keeps Arrow arrays and record
// batches on a device.
//
// A [Device] allocates [Buffer]s. The host's memory is a device too ([CPU]), so the
// same program runs with and without a GPU. Package cudabuf implements Device for
// NVIDIA GPUs. [Buffer.Arrow] returns a Buffer as arrow-go's memory.Buffer;
// [FromArrow] and [BufferOf] return the Buffer of a memory.Buffer.
//
// [CopyTo] copies a record batch of any types to a device. The result is a
// [RecordBatch] of [Array]s, which implement arrow.RecordBatch and arrow.Array
// without reading device memory from the host. [WithStream] makes the copy
// asynchronous. [NewReader] copies the batches of a reader, and [CopyTableTo] copies
// a table. [ToHost] copies a batch back.
//
// Code of arrow-go that reads values in place needs ToHost first. [CheckHost] returns
// an error for a batch that is not on the host, and [CatchHostAccess] turns most
// accesses to device memory into errors that name the column.
package arrowbuf
