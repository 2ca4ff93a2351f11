// Package arrowipc reads and writes Arrow's IPC format where the columns are on a
// device: the stream format, the file format, and messages whose metadata goes one
// way and whose body another.
//
// [Encoder] and [EncodeRecordBatch] make the metadata of a batch and say where the
// bytes of its body are, without moving them; [Decoder] makes a batch of metadata
// and a body. What is written is, byte for byte, what arrow-go's writers make of
// the same batch on the host, but that dictionaries of floats are compared exactly;
// what is read are batches of arrowbuf whose buffers are parts of one allocation.
//
// (https://arrow.apache.org/docs/format/Columnar.html, "Serialization and
// Interprocess Communication")
package arrowipc
