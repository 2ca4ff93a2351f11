package lz4

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// fastSequences reports whether decodeSequences decodes any.
var fastSequences = cpu.X86.HasAVX

// repeatMasks[n] are the places from which 16 bytes come that repeat the last n.
var repeatMasks = func() (masks [17][16]byte) {
	for n := 1; n < len(masks); n++ {
		for i := range masks[n] {
			masks[n][i] = byte(i % n)
		}
	}
	return masks
}()

// repeatSteps[n] is the least multiple of n that is at least 16.
var repeatSteps = func() (steps [17]byte) {
	for n := 1; n < len(steps); n++ {
		steps[n] = byte((16 + n - 1) / n * n)
	}
	return steps
}()

// The most bytes that a sequence of decodeSequences reads and writes, with those that are
// copied too many. Its lengths are 4 bits and a byte less than 255.
const (
	mostLiterals   = 15 + 254
	mostMatch      = minMatch + 15 + 254
	sequenceInput  = 1 + 1 + mostLiterals + 32 + 2 + 1
	sequenceOutput = mostLiterals + mostMatch + 32
)

//go:noescape
func decodeSequencesAVX(dst *byte, out, lastOut int, src *byte, in, lastIn int, masks *[17][16]byte, steps *[17]byte) (newOut, newIn int)

// decodeSequences decodes sequences from the position in of src to the position out of dst,
// and returns the positions after them. It stops where a sequence is not valid, has a
// longer length, or is near the end of src or dst.
func decodeSequences(dst []byte, out int, src []byte, in int) (newOut, newIn int) {
	lastOut, lastIn := len(dst)-sequenceOutput, len(src)-sequenceInput
	if !fastSequences || in > lastIn || out > lastOut {
		return out, in
	}
	return decodeSequencesAVX(unsafe.SliceData(dst), out, lastOut, unsafe.SliceData(src), in, lastIn, &repeatMasks, &repeatSteps)
}
