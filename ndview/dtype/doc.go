// Package dtype describes the elements of arrays: their type, its names in NumPy,
// Zarr, Arrow, DLPack and C, and single values.
//
// A [DType] is a small comparable value. [Promote], [CanCast] and [ResultType]
// follow NumPy 2; a [Scalar] is one value, and weak if it comes from a plain Go
// number, as NumPy's NEP 50 defines it. [Record] builds structured types.
//
// Package ndview re-exports all of this under the same names.
package dtype
