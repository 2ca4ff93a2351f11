// Package arrowipc reads and writes Arrow's IPC format for columns on a device. It
// supports the stream format, the file format, and single messages whose metadata
// and body travel separately.
//
// [NewReader], [NewFileReader] and [MapFile] read record batches to a device.
// [NewWriter] and [NewFileWriter] write batches of any device. [Encoder] and
// [Decoder] convert between batches and messages without moving the bytes of the
// body.
//
// The written bytes equal those of arrow-go's writers for the same batch on the
// host, except that dictionaries of floats are compared bitwise. The batches that
// are read have their buffers in one allocation. See
// https://arrow.apache.org/docs/format/Columnar.html, "Serialization and
// Interprocess Communication (IPC)".
package arrowipc
