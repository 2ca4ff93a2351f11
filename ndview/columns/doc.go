// Package columns puts Arrow columns together anew on the device that they live
// on: what conversion and rechunking need, and no query engine.
//
// [Concatenate] joins arrays, [Take] picks elements by indices, [Filter] by a
// mask; [Decode] replaces dictionary indices and runs by values, [Flatten] lists
// by what is in them; [CastIndices] and [CastOffsets] change widths. Arrow arrays
// of any type come in, in any nesting, slices too, and arrow arrays on the same
// device go out: arrow-go's own on the CPU, *arrowbuf.Array elsewhere. Values
// never visit the host; a few bytes that say how large a result is do.
//
// Offsets, indices, type ids and views are checked as far as memory is reached by
// them; what else is wrong with an array stays wrong in the result.
package columns
