// Package stridedcopy plans copies of units of bytes from one layout to another by CUDA
// kernels. [New] takes a nest, loops with one step in the destination and one in the
// source, and returns the launch of the fastest kernel. The structs of plans have C's
// layout, and must match those of kernels/copy/plan.cuh.
//
// The kernels of kernels/copy, with the file that plans each, and the nests they are for:
//
//	interleave.cu      interleave.go  interleave2..8, deinterleave2..7: planes of bytes to pixels, and back
//	word_tiles.cu      tiles.go       fastest axes differ; units of 1 and 2 bytes in aligned words of 8
//	run_tiles.cu       tiles.go       run_tiles, short_run_tiles: the same, rows of any alignment; also 4 bytes
//	                                  matrix_word_tiles: the same, short rows that follow one another
//	matrix_byte_tiles.cu  tiles.go    the same, rows that are not a multiple of four units
//	tiles.cu           tiles.go       tiles: fastest axes differ; units of 4 bytes and more
//	                                  sector_tiles: the same, rows not aligned to sectors; 4 bytes: gaps in the source
//	matrix_tiles.cu    tiles.go       the same, short rows that follow one another
//	narrow_tiles.cu    tiles.go       fastest axes differ, and a side has few items, or gaps
//	rows.cu            rows.go        rows, unit_rows: same fastest axis, or a value repeated along it
//	                                  vector_rows, joined_rows, word_rows: the same, several units per store
//	box_tiles.cu       boxtile.go     short axes: boxes of several axes
//
// Interleave kernels come first. Otherwise the fastest axes determine one kernel, and box
// tiles replace it if the rules of rival.go expect them to be faster.
package stridedcopy
