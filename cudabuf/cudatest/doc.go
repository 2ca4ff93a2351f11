// Package cudatest is a CUDA machine in software, for tests of code that uses
// package cudabuf, as net/http/httptest is for code that uses net/http.
//
// Its devices enforce what CUDA enforces. Device memory has real addresses at
// which the host faults; copies and kernels run later, on their stream; a call
// without a current context on its thread is CUDA_ERROR_INVALID_CONTEXT; memory
// ends; a wild pointer in a kernel loses the device. Kernels run as their Go
// twins.
//
// [ForEachDevice] runs a test on a soft device, and on the GPU of the machine
// where the environment says QUIVER_TEST_DEVICE=cuda. It needs Linux.
package cudatest
