//go:build !noasm

package bitmap

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the assembly is used.
var hasAVX2 = cpu.X86.HasAVX2

// unpackVector unpacks n groups, n > 0. It reads 8 bytes per group, and advances by 4.
//
//go:noescape
func unpackVector(dst, bits *byte, n int, shift uint, flip byte)

// packVector packs n groups, n > 0, to 4 bytes each.
//
//go:noescape
func packVector(dst, src *byte, n int, flip uint32)
