// Package shuffle transposes the bytes or the bits of arrays, which makes numbers
// easier to compress: bytes of one significance become neighbors.
//
// [Apply] does so for batches of buffers on a device. The other functions work on slices.
//
// The layouts are those of the Blosc format and of the HDF5 shuffle filter.
package shuffle
