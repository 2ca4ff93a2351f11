// Package gorgonia implements driver.API with gorgonia.org/cu, for programs
// that already use Gorgonia's contexts. It requires the build tag gorgonia,
// cgo, and cuda.h of CUDA 12 or 13:
//
//	quiver=$(go list -m -f '{{.Dir}}' github.com/quiver-gpu/quiver)
//	export CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$quiver/cudabuf/internal/gorgonia/include -I/usr/local/cuda/include"
//	go build -tags gorgonia ./...
//
// The linker needs libcuda. The first include folder must precede that of
// cuda.h: it holds declarations that gorgonia.org/cu needs in the form of CUDA
// 12.
//
// Calls that gorgonia.org/cu v0.9.6 has go through it. Package libcuda, also
// through cgo, makes the calls that it lacks: IPC, pinned and stream-ordered
// allocation, memory pools, virtual memory, host functions, capture and launch
// of graphs. It also makes some that it has:
//
//	cuDriverGetVersion     the code of a failure is lost
//	cuDeviceGetUuid        with cuda.h of CUDA 12 it uses the first version, which
//	                       does not distinguish parts of a GPU (MIG)
//	cuMemAdvise, cuMemPrefetchAsync
//	                       cuda.h of CUDA 13 has them with other parameters
//	cuPointerGetAttribute  the driver writes the value to address 0
//	cuMemFreeHost          it needs an unsafe.Pointer, which an integer address
//	                       cannot become
//	cuModuleLoadData       it copies the image twice, and hides the log buffer of
//	                       the compiler from the garbage collector
//	cuLaunchKernel         it allocates C memory twice per launch, and reads eight
//	                       bytes of each argument
//
// gorgonia.org/cu passes flags of contexts, streams and events as one byte.
// Higher bits, which the driver would reject, are dropped.
//
// Importing gorgonia.org/cu calls cuInit at start, and ends the program if
// there is no GPU. A program with this build tag runs only with a GPU.
package gorgonia
