// Package flight brings the columns that a process shares to other machines, by
// Arrow Flight: the names of an ipc.Catalog, with their batches copied.
//
// [Serve] offers a catalog; any Flight client lists and reads it. [Dial] connects
// to any Flight server and puts what it reads onto a device. The descriptor of a
// name is a path of one element, and its ticket the name itself.
//
// gRPC comes into programs that import this package, and into no others.
//
// (https://arrow.apache.org/docs/format/Flight.html)
package flight
