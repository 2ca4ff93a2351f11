// Package cudatest is a CUDA machine in software, for tests of code that uses
// package cudabuf, as net/http/httptest is for code that uses net/http.
//
// [ForEachDevice] is where most tests begin: it runs a test on a soft device,
// and on the GPU of the machine where the environment says
// QUIVER_TEST_DEVICE=cuda. [Start] takes a [Config]: how many devices, with how
// much memory, who reaches whom, how slow copies are, and which driver calls
// fail ([FailNth], [FailAt]).
//
// Soft devices enforce what CUDA enforces. Device memory has real addresses at
// which the host faults ([CatchHostAccess] tells who did it); work runs later, on
// its stream, and in the order of streams, events and graphs alone; a call
// without a current context on its thread is CUDA_ERROR_INVALID_CONTEXT; memory
// ends; handles open in other processes only; a wild pointer in a kernel loses
// the device. Kernels run as their Go twins. A test that leaks fails, and says
// who allocated what is left. Soft devices need Linux.
package cudatest
