// Package cdevice exchanges Arrow arrays, record batches, schemas and streams
// with other libraries of the process, by the Arrow C Data Interface and the
// Arrow C Device Data Interface, without a copy and without cgo.
//
// The structs are C's, at addresses that the other library passes: a
// struct ArrowDeviceArray at p is (*DeviceArray)(p). The Export functions fill a
// struct, which keeps what it shows alive until the consumer calls its release,
// from any thread. The Import functions take a struct over, which the producer
// sees released: they move it away, also where they answer an error, and call
// its release when the last reference to anything imported goes.
//
// Libraries that know no devices have structs of their own, [Array] and [Stream]:
// the functions with CPU in their names take and fill those.
//
// Arrays of memory of the CPU come as arrow-go's own, those of a GPU as
// arrowbuf's. Work that a producer has not finished is waited for by its
// sync_event: on a GPU by the device's stream, not by the host. A consumer must
// be done with the memory when it calls release.
//
// What comes from another library is checked as far as it says what is true of
// it: counts, lengths, missing pointers, and the ends of offsets. How much
// memory is behind a pointer cannot be known, and views, indices, type ids and
// what lies between the ends of offsets are not looked at: where the producer is
// not to be trusted, see array.ValidateFull.
//
// It works on Linux and macOS, elsewhere the error is errors.ErrUnsupported.
package cdevice
