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
// also the kernels' oracle in the tests. Package kernel runs
// kernels that a program writes itself in CUDA C++.
//
// Where things are: ndbuffer.go, make.go, attributes.go and flags.go are the array,
// buffer.go and prototype.go zarr's; dtype*.go, promote.go, cancast.go and scalar*.go
// its types; index.go, key.go, shape.go, reshape.go, atleast.go, order.go and view.go
// views; copy*.go, cast*.go, write.go, retick.go, assign.go, set.go, fill.go, bits.go,
// triangle.go and swap.go move values, take*.go, put*.go, places.go, choose.go,
// getset.go, select.go, nonzero.go, truths.go, join.go and split.go by index, mask and
// part; ufunc*.go and where.go compute element by element, reduce*.go along axes,
// allequal*.go and comparison.go compare; own*.go run kernels of a program's own;
// arrow*.go, toarrow.go, tensor.go, dlpack.go, share.go, host.go and string*.go lead in
// and out; launch.go, *launch.go and *twins.go are the way to a GPU, real or soft.
package ndview
