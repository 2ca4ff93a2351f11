// Package element defines the element types of Zarr arrays ([Type]), their names and
// fill values in metadata, and the memory layout of their values ([Values]).
//
// Fixed-width elements are an ndview.NDBuffer on any device. Strings and byte strings
// are a [VLen] on the host, which has the layout of an Arrow string column: offsets
// into one block of bytes. Types that NDBuffers lack, such as floats of 8 bits, are
// stored as bits; [Type] lists them with the methods that convert them.
package element
