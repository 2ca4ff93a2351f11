// Package gorgonia is the CUDA driver by way of gorgonia.org/cu, for programs
// that already live in Gorgonia's contexts. It is built with the tag gorgonia
// and needs cgo, cuda.h of CUDA 12 or 13 and, to link, libcuda:
//
//	quiver=$(go list -m -f '{{.Dir}}' github.com/quiver-gpu/quiver)
//	export CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$quiver/cudabuf/internal/gorgonia/include -I/usr/local/cuda/include"
//	go build -tags gorgonia ./...
//
// The first folder, in front of that of cuda.h, holds the few declarations that
// gorgonia.org/cu needs as they were in CUDA 12.
//
// Calls that gorgonia.org/cu v0.9.6 has go through it. What it lacks (IPC,
// allocation of pinned memory and on streams, memory pools, virtual memory, host
// functions, capture and launch of graphs) is called beside it by package
// libcuda, through cgo as well. So are calls that it has, but not as they are
// needed:
//
//	cuDriverGetVersion     it drops the code of a failure
//	cuDeviceGetUuid        by the first form, which cannot tell parts of a GPU
//	                       (MIG) apart, in a build with cuda.h of CUDA 12
//	cuPointerGetAttribute  it has the driver write the answer to address 0
//	cuMemFreeHost          it takes an unsafe.Pointer, which an address that is
//	                       kept as a number cannot become
//	cuModuleLoadData       it copies the image twice, and hides the buffer of the
//	                       compiler's log from the garbage collector
//	cuLaunchKernel         it allocates C memory twice a launch, and reads eight
//	                       bytes of every argument
//
// Flags of contexts, streams and events are a byte to it: higher bits, of which
// the driver knows none, are dropped where it would refuse them.
//
// Importing gorgonia.org/cu calls cuInit at start, and ends the program where
// there is no GPU: what is built with this tag runs with a GPU only.
package gorgonia
