//go:build !amd64 || noasm

package bitmap

var hasAVX2 bool

func unpackVector(dst, bits *byte, n int, shift uint, flip byte) {}
func packVector(dst, src *byte, n int, flip uint32)              {}
