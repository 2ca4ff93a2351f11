// Package flight shares the columns of a process with other machines by Arrow
// Flight: it serves the names of an ipc.Catalog and copies their batches.
//
// [Serve] serves a catalog; any Flight client can list and read it. [Dial]
// connects to any Flight server and reads its batches onto a device. The
// descriptor of a name is a path of one element, and the name is also the ticket.
//
// Only programs that import this package depend on gRPC.
//
// The protocol is https://arrow.apache.org/docs/format/Flight.html.
package flight
