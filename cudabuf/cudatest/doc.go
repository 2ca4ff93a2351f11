// Package cudatest provides simulated CUDA devices for tests of code that uses
// package cudabuf, as net/http/httptest does for net/http.
//
// [ForEachDevice] runs a test on a simulated device, and with
// QUIVER_TEST_DEVICE=cuda also on the GPU of the machine. [ForEachArrowDevice] adds
// the CPU. [Start] takes a [Config]: the number of devices, their memory, peer
// access, copy latency, and driver calls that fail ([FailNth], [FailAt]).
//
// Simulated devices enforce the rules of CUDA. Device memory has real addresses
// at which the host faults, and [CatchHostAccess] reports the access.
// Operations run asynchronously, ordered only by streams, events and graphs. A
// call without a current context on its thread returns
// CUDA_ERROR_INVALID_CONTEXT. Memory is limited, handles open only in other
// processes, and an invalid pointer in a kernel loses the device. Kernels run
// as their host implementations. A test that leaks fails with the stack of the
// allocation. Simulated devices need Linux.
package cudatest
