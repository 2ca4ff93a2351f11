// Package ndview looks at bytes on a device as N-dimensional arrays.
//
// An [NDBuffer] is a buffer with a dtype, a shape and byte strides. Views
// (indices, transposes, reshapes, broadcasts) share the buffer; nothing is
// copied until something asks for what strides cannot say. What NumPy has too
// follows its rules. [FromHost] copies Go values to a device, [ToHost] brings
// them back; [FromArrow] and [FromDLPack] look at columns and at other libraries'
// tensors, [ToArrow] and [ToDLPack] show an array as such. A [Buffer] is bytes
// without a shape, as stores and codecs pass them.
//
// What computes on elements runs where they are: on a GPU as kernels whose
// images come with the package, on the CPU as the same work in Go, which is
// also the kernels' oracle in the tests. [NewElementwise] and
// [NewReductionKernel] run what a program writes itself in CUDA C++.
package ndview
