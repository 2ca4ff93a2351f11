// Package cpu has the host implementations of ndview's copies, casts, and indexing.
// They run on the CPU device, and stand in for the kernels on the simulated device. The
// package knows addresses, strides and units, but no arrays.
package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Parallel calls f with ranges that cover [0, n), in up to GOMAXPROCS goroutines,
// and returns when all calls have returned. Each range has at least grain items, unless
// it is the only one. A goroutine takes the next range when it is done with one, so a
// slow goroutine delays the others by at most one range.
func Parallel(n, grain int64, f func(lo, hi int64)) {
	procs := int64(runtime.GOMAXPROCS(0))
	parts := min(procs*partsPerProc, n/max(grain, 1))
	if procs == 1 || parts <= 1 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	var taken atomic.Int64
	runParts := func() {
		for p := taken.Add(1) - 1; p < parts; p = taken.Add(1) - 1 {
			f(partStart(n, p, parts), partStart(n, p+1, parts))
		}
	}
	var wait sync.WaitGroup
	for range min(procs, parts) - 1 {
		wait.Go(runParts)
	}
	runParts()
	wait.Wait()
}

// partsPerProc is the number of ranges per goroutine if they are large enough. With
// many ranges, little work is left if one is late.
const partsPerProc = 16

// grain is the number of bytes of a result that are worth a goroutine.
const grain = 64 << 10

// partStart returns where part p of n items in parts parts begins.
func partStart(n, p, parts int64) int64 { return n/parts*p + min(p, n%parts) }

// Type is an element type. The values must match enum Type of
// kernels/common/element.cuh.
type Type uint32

// The element types.
const (
	Bool Type = iota
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Complex64
	Complex128
	Types // number of types
)

// Size returns the number of bytes of an element.
func (t Type) Size() int64 { return sizes[t] }

var sizes = [Types]int64{1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16}

// IsInteger reports whether the type is an integer. Bool is not.
func (t Type) IsInteger() bool { return Int8 <= t && t <= Uint64 }

// Half reports whether the type is a 16-bit float.
func (t Type) Half() bool { return t == Float16 || t == BFloat16 }

// Bits returns the type that represents all types with the same bits: the unsigned
// integer of an integer or bool.
func (t Type) Bits() Type {
	switch t {
	case Bool, Int8:
		return Uint8
	case Int16, Int32, Int64:
		return t + 1
	}
	return t
}
