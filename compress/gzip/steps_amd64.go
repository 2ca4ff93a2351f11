package gzip

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// fastSteps reports whether decodeSteps is faster than a decoder without steps in C.
var fastSteps = cpu.X86.HasBMI1 && cpu.X86.HasBMI2

//go:noescape
func decodeStepsBMI2(steps *step, lit *entry, dst *byte, out, lastOut, start int, src *byte, in, lastIn int, buf uint64, n uint) (newOut, newIn int, newBuf uint64, newN uint)

// decodeSteps is decodeStepsGo. The caller has checked that in and out allow a step. It
// needs no other checks: lastIn and lastOut leave room, and distances are compared with the
// start of the stream.
func (f *inflater) decodeSteps(in int, buf uint64, n uint, out int) (newIn int, newBuf uint64, newN uint, newOut int) {
	if !fastSteps {
		return f.decodeStepsGo(in, buf, n, out)
	}
	newOut, newIn, newBuf, newN = decodeStepsBMI2(&f.steps[0], &f.lit[0],
		unsafe.SliceData(f.dst), out, len(f.dst)-fastOutput, f.start,
		unsafe.SliceData(f.src), in, len(f.src)-fastInput, buf, n)
	return newIn, newBuf, newN, newOut
}
