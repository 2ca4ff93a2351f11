// Package kernel runs kernels that a program writes in CUDA C++ on the elements of
// [ndview.NDBuffer] arrays.
//
// An [Elementwise] kernel is a list of statements that run once per element; a
// [Reduction] kernel is an expression that combines two values. [Arg] declares the
// variables of both. NVRTC compiles a kernel when it first meets operands of a new
// form, and images are cached on disk. Kernels need a CUDA device: the constructors
// return an error wrapping arrowbuf.ErrDevice for any other.
package kernel
