// Package columns selects, joins and recodes Arrow columns on the device that holds
// them. It provides what conversion and rechunking need; it is not a query engine.
//
// [Concatenate] joins arrays, [Take] selects elements by index and [Filter] by mask.
// [Decode] expands dictionaries and runs, [Flatten] unnests lists, and [CastIndices]
// and [CastOffsets] change integer widths. Inputs are Arrow arrays of any type and
// nesting, including slices. Results are on the same device: arrow-go's own arrays on
// the CPU, *arrowbuf.Array elsewhere. Column values stay on the device; only the sizes
// of results are copied to the host. Merging different dictionaries is the one
// exception.
//
// Offsets, indices, type ids and views are validated before they address memory. Any
// other inconsistency of an input is copied to the result.
package columns
