// Package ndview provides N-dimensional arrays over buffers of a device.
//
// An [NDBuffer] is a buffer with a dtype, a shape and byte strides. Views (indices,
// transposes, reshapes, broadcasts) share the buffer; elements are copied only if
// strides cannot express the result. Semantics are NumPy 2's. [FromHost] and [ToHost]
// copy Go values; [FromArrow], [FromDLPack], [ToArrow] and [ToDLPack] exchange memory
// with Arrow columns and other libraries without a copy.
//
// Operations run on the device of their operands: on a GPU as kernels whose images
// are part of the package, on the CPU as the same work in Go. Subpackage dtype has
// the element types, columns works on Arrow columns, kernel runs CUDA C++ of the
// program's own.
package ndview
