// Package ndarray shares N-dimensional arrays between processes of one machine, as
// pygpu's get_ipc_handle does and with what that leaves out: dtype, shape, strides
// and the place of a view in its allocation.
//
// [Publish] puts an NDBuffer in a catalog of package ipc, and [Open] returns a view of
// the publisher's memory in another process. A [Layout] describes the elements for
// programs that send memory by other means, such as cudabuf.Buffer.ExportIPC.
//
// What is shared is the extent of the array: the bytes from its first element in
// memory to the end of its last. Bytes between the elements of a strided view belong
// to it; NDBuffer.Copy leaves them out. Memory that was made for sharing is not
// copied, and a client that opens it maps its whole allocation. Of other memory the
// server copies the extent, once for all clients.
package ndarray
