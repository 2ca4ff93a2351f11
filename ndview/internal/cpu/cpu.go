// Package cpu has the loops that do ndview's work on the host: those of the CPU
// device, which are also what stands in for the kernels on the soft device. It
// knows addresses, strides and units, no arrays.
package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Parallel calls work with parts of [0, n) that cover it, each of at least grain
// items unless it is the only one, in as many goroutines as Go runs at once. It
// returns when all are done. A goroutine that is done with a part takes the next, so
// that one whose processor has other work, too, holds up the rest by a part at most.
func Parallel(n, grain int64, work func(lo, hi int64)) {
	procs := int64(runtime.GOMAXPROCS(0))
	parts := min(procs*partsEach, n/max(grain, 1))
	if procs == 1 || parts <= 1 {
		if n > 0 {
			work(0, n)
		}
		return
	}
	var taken atomic.Int64
	some := func() {
		for p := taken.Add(1) - 1; p < parts; p = taken.Add(1) - 1 {
			work(share(n, p, parts), share(n, p+1, parts))
		}
	}
	var wait sync.WaitGroup
	for range min(procs, parts) - 1 {
		wait.Go(some)
	}
	some()
	wait.Wait()
}

// partsEach is how many parts there are for each goroutine, if they are large
// enough: so many that little is left to wait for when one comes late.
const partsEach = 16

// grain is how many bytes of a result are worth a goroutine.
const grain = 64 << 10

// share is where part p of parts of n items begins.
func share(n, p, parts int64) int64 { return n/parts*p + min(p, n%parts) }

// Type is the type of an element as computations know it. Kernels have the same
// codes.
type Type uint32

// The types of elements.
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
	Types // how many there are
)

// Size is the number of bytes of an element.
func (t Type) Size() int64 { return sizes[t] }

var sizes = [Types]int64{1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16}

// IsInteger tells whether the type is an integer; a Bool is none.
func (t Type) IsInteger() bool { return Int8 <= t && t <= Uint64 }

// Half tells whether the type is a float of 16 bits.
func (t Type) Half() bool { return t == Float16 || t == BFloat16 }

// Bits is a type that stands for those whose elements are the same bits.
func (t Type) Bits() Type {
	switch t {
	case Bool, Int8:
		return Uint8
	case Int16, Int32, Int64:
		return t + 1
	}
	return t
}
