// Package dissociated speaks Arrow's Dissociated IPC Protocol: the metadata of an
// Arrow IPC stream goes one way, the bodies of its messages another, so that these
// stay on a device.
//
// A [Server] sends streams of record batches to clients that ask, [Dial] asks.
// Bodies go packed, through pinned memory and a socket, or as locations in a
// [Window], which is memory that both sides reach: nothing is moved then, and the
// client says when it is done with a buffer. [Send] and [Receive] do the same over
// any transport that is a [Conn].
//
// (https://arrow.apache.org/docs/format/DissociatedIPC.html; what that leaves open
// is in docs/dissociated.md.) Package ipc shares batches by a protocol of its own
// that has leases, events and more ways to open memory.
package dissociated
