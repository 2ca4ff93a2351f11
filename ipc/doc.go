// Package ipc shares Arrow columns between processes of one machine, without a
// copy where the memory allows.
//
// A process publishes tables, streams of record batches and buffers in a
// [Catalog], and offers it over a Unix socket by [Serve]. Another one calls
// [Dial] and gets the same names: batches whose buffers are the publisher's
// memory, on its GPU or its host. It reads them and releases them as ever; the
// last Release ends its lease, and the death of a process ends all of its leases.
//
// The protocol is docs/sharing.md. Which way memory crosses, package handle
// lists them, is chosen by what both sides can do. Nothing of a server's memory
// is opened to a client but allocations that were made to be shared
// (cudabuf.Device.NewFDBuffer, NewIPCBuffer) and of which something is published:
// such a one is opened whole, also where a slice of it is published. Memory of
// pools and of the host is copied, once, into an allocation of its own, unless
// [Pooled] says otherwise.
package ipc
