// Package gorgonia is the CUDA driver by way of gorgonia.org/cu, for programs
// that already live in Gorgonia's contexts. It is built with the tag gorgonia
// and needs cgo, cuda.h and, to link, libcuda: CONTRIBUTING.md says how.
//
// Calls that gorgonia.org/cu v0.9.6 has go through it. What it lacks (pinned
// memory, IPC, allocation on streams, memory pools, virtual memory, host
// functions, capture) is called beside it by package libcuda, through cgo as
// well. So are three calls that it has:
//
//	cuDeviceGetUuid   it knows the first form, by which parts of a GPU (MIG)
//	                  cannot be told apart
//	cuModuleLoadData  it takes an image as a string that ends in a zero, and
//	                  returns no log of the compiler
//	cuLaunchKernel    it allocates and frees C memory twice a launch
//
// Importing gorgonia.org/cu calls cuInit at start, and ends the program where
// there is no GPU: what is built with this tag runs with a GPU only.
package gorgonia
