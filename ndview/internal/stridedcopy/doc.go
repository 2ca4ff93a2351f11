// Package stridedcopy plans how kernels move units of bytes from one layout to another: [New]
// takes a nest, which is loops with a step in the destination and one in the source, and
// answers what to launch. The structs of plans have C's layout; kernels have a copy of
// them.
//
// The kernels, and the nests that each is for:
//
//	kernel                     in kernels/   planned in     where
//	weave2 ... 8, unweave2 ... weave.cu      weave.go       bytes go between up to 8 planes and rows of one unit of each
//	words                      words.cu      tiles.go       fastest axes differ; units of 1 and 2 bytes lie in words of 8
//	runs, shortruns            runs.cu       runs.go        the same, where rows begin anywhere; much, and little of it; runs: of 4 bytes, too
//	lines                      runs.cu       matrices.go    the same, and rows are short and follow one another
//	oddlines                   odd.cu        matrices.go    the same, of rows that are not a multiple of four units
//	tiles                      tiles.cu      tiles.go       fastest axes differ; units of 4 bytes and more
//	sectors                    tiles.cu      tiles.go       the same, where rows begin amid sectors; of 4 bytes, where the source has gaps
//	matrices                   matrices.cu   matrices.go    the same, and rows are short and follow one another
//	slim                       slim.cu       slim.go        fastest axes differ, and a side has few items, or gaps
//	rows, units                rows.cu       rows.go        the fastest axis is the same, or the source repeats a value along it
//	spans, chains, picks       rows.cu       rows.go        the same, where words of several units are written
//	bricks                     bricks.cu     bricks.go      axes are short: boxes of many of them
//
// Weaves come first. Else there is one kernel for what the fastest axes are, and bricks
// take its place where rival.go says that they are faster.
package stridedcopy
