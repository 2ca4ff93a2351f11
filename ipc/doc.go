// Package ipc shares Arrow columns between processes of one machine, without a
// copy if the memory allows it.
//
// A process publishes tables, streams of record batches, buffers and arrays in a
// [Catalog], and serves the catalog on a Unix socket with [Serve]. Another
// process calls [Dial] and reads the same names. Its batches show the publisher's
// memory, on the GPU or the host. The last Release of a batch ends its lease; the
// death of a process ends all of its leases. Package ndarray publishes NDBuffers.
//
// Both sides speak the protocol of docs/sharing.md. Package handle lists the
// mechanisms that open memory in another process. A client can open an allocation
// only if it was made for sharing (cudabuf.Device.NewFDBuffer, NewIPCBuffer) and
// part of it is published. The client then opens the whole allocation, even if
// only a slice is published. Memory of pools and of the host is copied once into
// an allocation of its own, unless the publisher passes [ExposeAllocation].
package ipc
