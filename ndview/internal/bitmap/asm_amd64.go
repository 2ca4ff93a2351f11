package bitmap

import "golang.org/x/sys/cpu"

// vectors tells whether the processor has what vector_amd64.s wants.
var vectors = cpu.X86.HasAVX2

// unpackVector writes n groups, n > 0, and reads 8 bytes for each, 4 further on
// than those before.
//
//go:noescape
func unpackVector(dst, bits *byte, n int, shift uint, flip byte)

// packVector makes 4 bytes of each of n groups, n > 0.
//
//go:noescape
func packVector(dst, src *byte, n int, flip uint32)
