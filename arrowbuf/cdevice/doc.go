// Package cdevice exchanges Arrow arrays, record batches, schemas and streams with
// other libraries of the process, without a copy and without cgo. It implements the
// Arrow C Data Interface and the Arrow C Device Data Interface
// (https://arrow.apache.org/docs/format/CDeviceDataInterface.html).
//
// The structs have C's layout, at addresses that the other library passes: a struct
// ArrowDeviceArray at p is (*DeviceArray)(p). Libraries without devices use [Array]
// and [Stream], and the functions with CPU in their names.
//
// An Export function fills a struct, and keeps the memory alive until the consumer
// calls the struct's release, from any thread. The consumer must have finished its
// work on the memory by then. An Import function moves the struct away, also if it
// returns an error, so that the producer sees it released. It calls the producer's
// release after the last reference to anything imported is released.
//
// Arrays on the CPU are imported as arrow-go's own, those on a GPU as arrowbuf's. A
// GPU's stream waits for the producer's sync_event; the host does not.
//
// Imports check counts, lengths, missing pointers, and first and last offsets. They
// cannot know how much memory a pointer refers to. They do not read views, indices,
// type ids and other offsets: use ValidateFull on arrays of untrusted producers.
//
// The package works on Linux and macOS. Elsewhere all functions return
// errors.ErrUnsupported.
package cdevice
