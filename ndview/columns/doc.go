// Package columns computes with Arrow columns, and selects, joins and recodes them, on
// the device that holds them. It is not a query engine: it has no joins or groups.
//
// An [Expr] is arithmetic, comparisons and logic on columns with nulls, with the results
// of Arrow's compute functions: [Add], [Less], [AndKleene], [Where], [FillNull] and
// others. [With] adds its result to a record batch, [FilterBy] selects rows by it, and
// [Sum], [Mean], [Min], [Max] and [Count] reduce it.
//
// [Concatenate] joins arrays, [Take] selects elements by index and [Filter] by mask.
// [Decode] expands dictionaries and runs, [Flatten] unnests lists, and [CastIndices]
// and [CastOffsets] change integer widths. Inputs are Arrow arrays of any type and
// nesting, including slices. Results are on the same device: arrow-go's own arrays on
// the CPU, *arrowbuf.Array elsewhere. Column values stay on the device; only the results
// of aggregates and the sizes of results are copied to the host. Merging different
// dictionaries is the one exception; docs/columns.md has the list.
//
// Offsets, indices, type ids and views are validated before they address memory. Any
// other inconsistency of an input is copied to the result.
package columns
