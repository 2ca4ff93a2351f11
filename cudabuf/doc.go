// Package cudabuf is the device of NVIDIA's GPUs: buffers in device memory and
// in pinned memory of the host, streams, pools, kernels, and memory shared with
// other processes.
//
// [Open] finds the driver at run time; the program needs neither cgo nor a CUDA
// toolkit, and starts where there is no GPU. A [Device] is an arrowbuf.Device,
// its [Buffer] an arrowbuf.Buffer. Whatever names no stream is complete when it
// returns; what is given to a [Stream] is ordered by the memory that it uses.
// Package cudatest is a GPU in software for tests, package nvrtc compiles
// kernels at run time.
//
// A driver needs the calls that open devices, allocate, copy, record events and
// launch. Any other that it lacks takes one feature away, with an error that
// names the call: docs/drivers.md lists them.
package cudabuf
