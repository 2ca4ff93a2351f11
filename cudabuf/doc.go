// Package cudabuf implements arrowbuf.Device for NVIDIA GPUs. It has buffers in
// device memory and in pinned host memory, streams, pools, kernels, and memory
// shared with other processes.
//
// [Open] loads the driver at run time. The program needs neither cgo nor a CUDA
// toolkit, and also runs on machines without a GPU. An operation without a stream
// is complete when it returns. An operation on a [Stream] is ordered automatically
// by the memory that it uses. Package cudatest simulates a GPU for tests; package
// nvrtc compiles kernels at run time.
//
// A driver must have the calls that open devices, allocate, copy, record events
// and launch. If it lacks another call, one feature returns an error that names the
// call; docs/drivers.md lists them.
package cudabuf
