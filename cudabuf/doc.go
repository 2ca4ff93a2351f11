// Package cudabuf is the device of NVIDIA's GPUs: buffers in device memory,
// pinned host memory, and kernels.
//
// [Open] finds the driver at run time; the program needs neither cgo nor a CUDA
// toolkit, and starts where there is no GPU. A [Device] is an arrowbuf.Device,
// its [Buffer] an arrowbuf.Buffer. Whatever names no stream is complete when it
// returns. Package cudatest is a GPU in software for tests.
//
// The driver calls that must be there: cuInit, cuDriverGetVersion,
// cuDeviceGet{,Count,Name,Attribute}, cuDeviceTotalMem,
// cuDevicePrimaryCtx{Retain,Release}, cuCtxSetCurrent, cuCtxSynchronize,
// cuMem{GetInfo,Alloc,Free,HostAlloc,FreeHost}, cuMemcpy{HtoD,DtoH,DtoD}Async,
// cuMemsetD8Async, cuStream{Create,Destroy,Synchronize},
// cuModule{LoadData,Unload,GetFunction}, cuLaunchKernel.
//
// Those that may be absent, and what is lost then:
//
//	cuDeviceGetUuid    Device.UUID is zero
//	cuMemcpyPeerAsync  copies between GPUs go through the host
package cudabuf
