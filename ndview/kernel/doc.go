// Package kernel runs kernels that a program writes in CUDA C++ on the elements of
// [ndview.NDBuffer] arrays.
//
// An [Elementwise] kernel is a list of statements that run once per element; a
// [Reduction] kernel is an expression that combines two values. [Arg] declares the
// variables of both. On a GPU, NVRTC compiles a kernel when it first meets operands of a
// new form, and images are cached on disk. Other devices run a Go function that the
// program writes beside the C++, the kernel's host implementation.
package kernel
