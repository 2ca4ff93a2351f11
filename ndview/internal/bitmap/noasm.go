//go:build !amd64

package bitmap

const vectors = false

func unpackVector(dst, bits *byte, n int, shift uint, flip byte) {}
func packVector(dst, src *byte, n int, flip uint32)              {}
