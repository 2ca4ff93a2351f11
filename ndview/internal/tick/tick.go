// Package tick is the arithmetic of NumPy's time units: which unit two times
// share, whether one divides another, and counts converted between them.
package tick

import (
	"errors"
	"math/bits"
)

// Unit is a unit of time, from coarse to fine.
type Unit uint8

// The units of NumPy. Generic is no unit: a count that takes any.
const (
	Year Unit = iota
	Month
	Week
	Day
	Hour
	Minute
	Second
	Millisecond
	Microsecond
	Nanosecond
	Picosecond
	Femtosecond
	Attosecond
	Generic
)

// next is how many of the next finer unit make one. A year and a month have no
// such number of weeks; who comes here has treated them before.
var next = [...]uint64{Year: 12, Month: 1, Week: 7, Day: 24, Hour: 60, Minute: 60, Second: 1000,
	Millisecond: 1000, Microsecond: 1000, Nanosecond: 1000, Picosecond: 1000, Femtosecond: 1000}

// Tick is what one count of a datetime or timedelta stands for: Step units.
type Tick struct {
	Unit Unit
	Step int64
}

// Errors of this package.
var (
	// ErrIncompatible: years and months are of no fixed length.
	ErrIncompatible = errors.New("years and months have no fixed number of days")
	// ErrOverflow: the units are too far apart for 64 bits.
	ErrOverflow = errors.New("overflow between time units")
)

// factor is how many of a fine unit make a coarse one. NumPy gives up at 2^56.
func factor(coarse, fine Unit) (uint64, bool) {
	f := uint64(1)
	for u := coarse; u < fine; u++ {
		if f *= next[u]; f >= 1<<56 {
			return 0, false
		}
	}
	return f, true
}

// nonlinear tells whether exactly one of two units is a year or a month.
func nonlinear(a, b Unit) bool { return (a <= Month) != (b <= Month) }

// Common is the coarsest tick that counts both, NumPy's greatest common
// divisor. Strictly, as for two timedeltas, a year or month has none with a
// shorter unit; else it is taken for whole weeks, as NumPy does, and the calendar
// is left to who converts.
func Common(a, b Tick, strict bool) (Tick, error) {
	switch {
	case a.Unit == Generic:
		return b, nil
	case b.Unit == Generic:
		return a, nil
	case a.Unit > b.Unit:
		a, b = b, a
	}
	coarse := a.Unit
	if nonlinear(a.Unit, b.Unit) {
		if strict {
			return Tick{}, ErrIncompatible
		}
		coarse = Month // which counts as a week, and so does a year
	}
	scale, ok := factor(coarse, b.Unit)
	if !ok {
		return Tick{}, ErrOverflow
	}
	high, low := bits.Mul64(uint64(a.Step), scale)
	return Tick{b.Unit, int64(gcd(uint64(b.Step), bits.Rem64(high, low, uint64(b.Step))))}, nil
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Divides tells whether each count of from is a whole number of counts of to.
// Between a year or month and a shorter unit the answer is !strict.
func Divides(from, to Tick, strict bool) bool {
	switch {
	case to.Unit == Generic:
		return true
	case from.Unit == Generic:
		return false
	case nonlinear(from.Unit, to.Unit):
		return !strict
	}
	a, b := uint64(from.Step), uint64(to.Step)
	if f, ok := factor(min(from.Unit, to.Unit), max(from.Unit, to.Unit)); !ok {
		return false
	} else if from.Unit < to.Unit {
		a *= f
	} else {
		b *= f
	}
	const crude = 1 << 56 // NumPy's check against products that wrapped
	return a < crude && b < crude && a%b == 0
}
