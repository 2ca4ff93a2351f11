// Package dissociated implements Arrow's Dissociated IPC Protocol: the metadata
// of an Arrow IPC stream and the bodies of its messages take separate ways, so
// that bodies can stay on a device.
//
// A [Server] sends streams of record batches to clients that request them with
// [Dial]. Bodies are sent packed, through pinned memory and a socket, or as
// locations in a [Window], which is memory that both sides can read. Locations
// need no copy; the client reports when it no longer needs a buffer. [Send] and
// [Receive] do the same over any transport that implements [Conn].
//
// The protocol is https://arrow.apache.org/docs/format/DissociatedIPC.html;
// docs/dissociated.md describes what that leaves open. Package ipc shares batches
// with a protocol of its own, which has leases, events and more mechanisms.
package dissociated
