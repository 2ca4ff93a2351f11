// Package tick is the arithmetic of NumPy's time units: which unit two times
// share, whether one divides another, and counts converted between them.
package tick

import (
	"errors"
	"math"
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

// NaT is "not a time", of any tick.
const NaT = math.MinInt64

// 400 years of the Gregorian calendar are this many days.
const cycle = 146097

// Convert counts the time of v ticks in other ticks, rounded towards the past.
// A datetime follows the calendar; in a timedelta a year is 365.2425 days and a
// month a twelfth of that. NaT stays NaT. A time that the other tick cannot
// count is ErrOverflow.
func Convert(v int64, from, to Tick, datetime bool) (int64, error) {
	c, err := NewConversion(from, to, datetime)
	if err != nil {
		if v == NaT {
			return NaT, nil
		}
		return 0, err
	}
	count, ok := c.Of(v)
	if !ok {
		return 0, ErrOverflow
	}
	return count, nil
}

// Conversion is what Convert does for two ticks. Kernels take it by value, so it
// has C's layout.
type Conversion struct {
	First, Last Scale // Last is for what the calendar makes of what First makes
	Calendar    Calendar
}

// Scale is a factor: floor(v * Num / Denom).
type Scale struct{ Num, Denom uint64 }

// Calendar is a step from days to months or back.
type Calendar uint64

// The steps.
const (
	NoCalendar Calendar = iota
	DaysToMonths
	MonthsToDays
)

// NewConversion is the conversion between two ticks. If a factor is beyond 64
// bits the error is ErrOverflow.
func NewConversion(from, to Tick, datetime bool) (c Conversion, err error) {
	c = Conversion{First: Scale{1, 1}, Last: Scale{1, 1}}
	switch {
	case from.Unit == Generic || to.Unit == Generic || from == to:
		return c, nil
	case !datetime || !nonlinear(from.Unit, to.Unit):
		c.First, err = scaleOf(from, to)
		return c, err
	}
	between, back := Tick{Day, 1}, Tick{Month, 1}
	c.Calendar = DaysToMonths
	if from.Unit <= Month {
		between, back, c.Calendar = back, between, MonthsToDays
	}
	if c.First, err = scaleOf(from, between); err == nil {
		c.Last, err = scaleOf(back, to)
	}
	return c, err
}

// Of is v converted, false where the other tick cannot count it.
func (c *Conversion) Of(v int64) (count int64, ok bool) {
	if v == NaT {
		return NaT, true
	}
	if v, ok = c.First.of(v); !ok || c.Calendar == NoCalendar {
		return v, ok
	}
	if c.Calendar == DaysToMonths {
		v = monthOf(v)
	} else if v > math.MaxInt64/31 || v < math.MinInt64/31 {
		return 0, false
	} else {
		v = firstDay(v)
	}
	return c.Last.of(v)
}

// Exact tells whether there is no count that cannot be converted.
func (c *Conversion) Exact() bool {
	return c.First.Num <= c.First.Denom && c.Last.Num <= c.Last.Denom && c.Calendar != MonthsToDays
}

func scaleOf(from, to Tick) (Scale, error) {
	num, denom, err := ratio(from.Unit, to.Unit)
	if err != nil {
		return Scale{}, err
	}
	a, b, c, d := num, uint64(from.Step), denom, uint64(to.Step)
	g := gcd(a, d)
	a, d = a/g, d/g
	g = gcd(b, c)
	b, c = b/g, c/g
	numHigh, num := bits.Mul64(a, b)
	denomHigh, denom := bits.Mul64(c, d)
	if numHigh != 0 || denomHigh != 0 {
		return Scale{}, ErrOverflow
	}
	g = gcd(num, denom)
	return Scale{num / g, denom / g}, nil
}

// ratio is the length of one unit in another.
func ratio(from, to Unit) (num, denom uint64, err error) {
	switch {
	case from > to:
		denom, num, err = ratio(to, from)
		return num, denom, err
	case nonlinear(from, to): // through days; a week is 7 of them
		num, denom = cycle, 400
		if from == Month {
			denom *= 12
		}
		if to == Week {
			return num, denom * 7, nil
		}
		from = Day
	default:
		num, denom = 1, 1
	}
	f, ok := factor(from, to)
	high, low := bits.Mul64(num, f)
	if !ok || high != 0 {
		return 0, 0, ErrOverflow
	}
	return low, denom, nil
}

// of is v scaled, false where that is beyond an int64.
func (s Scale) of(v int64) (int64, bool) {
	magnitude := uint64(v)
	if v < 0 {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(magnitude, s.Num)
	if v < 0 { // Away from zero.
		var carry uint64
		low, carry = bits.Add64(low, s.Denom-1, 0)
		high += carry
	}
	if high >= s.Denom {
		return 0, false
	}
	quotient, _ := bits.Div64(high, low, s.Denom)
	if quotient > math.MaxInt64 {
		return 0, false
	}
	if v < 0 {
		return -int64(quotient), true
	}
	return int64(quotient), true
}

// The calendar below begins its years in March, so that the leap day is the last
// day of one. Months then have 31, 30, 31, 30, 31 days, over and over, of which
// (153*m+2)/5 is the sum.

// epoch is the number of days from March of the year 0 to 1970-01-01.
const epoch = 719468

// firstDay is the first day of a month; both count from 1970-01.
func firstDay(month int64) int64 {
	m := month - 2 // from March 1970
	year, m := 1970+floor(m, 12), m-12*floor(m, 12)
	era, y := floor(year, 400), year-400*floor(year, 400)
	return era*cycle + y*365 + y/4 - y/100 + (153*m+2)/5 - epoch
}

// monthOf is the month that a day lies in.
func monthOf(day int64) int64 {
	// The era first: day + epoch may be more than 64 bits hold.
	era, d := floor(day, cycle), day-cycle*floor(day, cycle)+epoch
	era, d = era+d/cycle, d%cycle
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	return (era*400+y-1970)*12 + m + 2
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
