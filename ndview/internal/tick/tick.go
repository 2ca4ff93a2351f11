// Package tick is the arithmetic of NumPy's datetime units: the common unit of two
// times, whether one unit divides another, and conversions of counts.
package tick

import (
	"errors"
	"math"
	"math/bits"
)

// Unit is a unit of time, from coarse to fine.
type Unit uint8

// NumPy's units. Generic is the absence of a unit: such a count takes on any unit.
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

// unitsInCoarser is the number of the next finer unit in each unit. Years and months
// have no fixed number of weeks, so callers must handle them first.
var unitsInCoarser = [...]uint64{Year: 12, Month: 1, Week: 7, Day: 24, Hour: 60, Minute: 60, Second: 1000,
	Millisecond: 1000, Microsecond: 1000, Nanosecond: 1000, Picosecond: 1000, Femtosecond: 1000}

// Tick is the unit of a datetime or timedelta with its multiple, as in datetime64[25s]:
// a count of 1 is Step units.
type Tick struct {
	Unit Unit
	Step int64
}

// Errors of this package.
var (
	// ErrIncompatible is returned because years and months have no fixed length.
	ErrIncompatible = errors.New("years and months have no fixed number of days")
	// ErrOverflow is returned if the units are too far apart for 64 bits.
	ErrOverflow = errors.New("overflow between time units")
)

// factor returns the number of fine units in a coarse one. NumPy's limit is 2^56.
func factor(coarse, fine Unit) (uint64, bool) {
	f := uint64(1)
	for u := coarse; u < fine; u++ {
		if f *= unitsInCoarser[u]; f >= 1<<56 {
			return 0, false
		}
	}
	return f, true
}

// mixesCalendar reports whether exactly one of two units is a year or a month.
func mixesCalendar(a, b Unit) bool { return (a <= Month) != (b <= Month) }

// Common returns the coarsest tick that divides both, as NumPy's promotion. If strict,
// as for two timedeltas, a year or month and a shorter unit return ErrIncompatible.
// Otherwise a year or month counts as whole weeks, as in NumPy, and the caller must use
// the calendar.
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
	if mixesCalendar(a.Unit, b.Unit) {
		if strict {
			return Tick{}, ErrIncompatible
		}
		coarse = Month // a month counts as a week, and so does a year
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

// Divides reports whether each count of from is an integral count of to. Between a year
// or month and a shorter unit it returns !strict.
func Divides(from, to Tick, strict bool) bool {
	switch {
	case to.Unit == Generic:
		return true
	case from.Unit == Generic:
		return false
	case mixesCalendar(from.Unit, to.Unit):
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
	const crude = 1 << 56 // NumPy's check against overflow
	return a < crude && b < crude && a%b == 0
}

// NaT is "not a time", in any unit.
const NaT = math.MinInt64

// The number of days in 400 years of the Gregorian calendar.
const eraDays = 146097

// Convert converts a count v of from to a count of to, rounded down. Datetimes follow
// the calendar; in a timedelta a year is 365.2425 days, and a month a twelfth of that.
// NaT remains NaT. It returns ErrOverflow if an int64 cannot hold the result.
func Convert(v int64, from, to Tick, datetime bool) (int64, error) {
	c, err := NewConversion(from, to, datetime)
	if err != nil {
		if v == NaT {
			return NaT, nil
		}
		return 0, err
	}
	count, ok := c.Apply(v)
	if !ok {
		return 0, ErrOverflow
	}
	return count, nil
}

// Conversion converts counts between two ticks. Kernels take it by value, so it has C's
// layout.
type Conversion struct {
	First, Last Scale // First is applied before the calendar, Last after it
	Calendar    Calendar
}

// Scale is a factor: floor(v * Num / Denom).
type Scale struct{ Num, Denom uint64 }

// Calendar is a conversion from days to months or from months to days.
type Calendar uint64

// The calendar conversions.
const (
	NoCalendar Calendar = iota
	DaysToMonths
	MonthsToDays
)

// NewConversion returns the conversion between two ticks. It returns ErrOverflow if a
// factor exceeds 64 bits.
func NewConversion(from, to Tick, datetime bool) (c Conversion, err error) {
	c = Conversion{First: Scale{1, 1}, Last: Scale{1, 1}}
	switch {
	case from.Unit == Generic || to.Unit == Generic || from == to:
		return c, nil
	case !datetime || !mixesCalendar(from.Unit, to.Unit):
		c.First, err = newScale(from, to)
		return c, err
	}
	between, back := Tick{Day, 1}, Tick{Month, 1}
	c.Calendar = DaysToMonths
	if from.Unit <= Month {
		between, back, c.Calendar = back, between, MonthsToDays
	}
	if c.First, err = newScale(from, between); err == nil {
		c.Last, err = newScale(back, to)
	}
	return c, err
}

// Apply converts v. It returns false if an int64 cannot hold the result.
func (c *Conversion) Apply(v int64) (count int64, ok bool) {
	if v == NaT {
		return NaT, true
	}
	if v, ok = c.First.apply(v); !ok || c.Calendar == NoCalendar {
		return v, ok
	}
	if c.Calendar == DaysToMonths {
		v = monthOf(v)
	} else if v > math.MaxInt64/31 || v < math.MinInt64/31 {
		return 0, false
	} else {
		v = firstDay(v)
	}
	return c.Last.apply(v)
}

// CoversAll reports whether every count can be converted.
func (c *Conversion) CoversAll() bool {
	return c.First.Num <= c.First.Denom && c.Last.Num <= c.Last.Denom && c.Calendar != MonthsToDays
}

func newScale(from, to Tick) (Scale, error) {
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

// ratio returns the length of one unit in another.
func ratio(from, to Unit) (num, denom uint64, err error) {
	switch {
	case from > to:
		denom, num, err = ratio(to, from)
		return num, denom, err
	case mixesCalendar(from, to): // in days; a week is 7 days
		num, denom = eraDays, 400
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

// apply scales v. It returns false if an int64 cannot hold the result.
func (s Scale) apply(v int64) (int64, bool) {
	magnitude := uint64(v)
	if v < 0 {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(magnitude, s.Num)
	if v < 0 { // rounding down is away from zero
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

// In the calendar below, years begin in March, so that the leap day is the last day of
// a year. Months then have 31, 30, 31, 30, 31 days, repeated; the sum of the first m is
// (153*m+2)/5.

// epoch is the number of days from March of the year 0 to 1970-01-01.
const epoch = 719468

// firstDay returns the first day of a month. Both count from 1970-01.
func firstDay(month int64) int64 {
	m := month - 2 // from March 1970
	year, m := 1970+floorDiv(m, 12), m-12*floorDiv(m, 12)
	era, y := floorDiv(year, 400), year-400*floorDiv(year, 400)
	return era*eraDays + y*365 + y/4 - y/100 + (153*m+2)/5 - epoch
}

// monthOf returns the month of a day.
func monthOf(day int64) int64 {
	// The era is subtracted first, as day + epoch may overflow.
	era, d := floorDiv(day, eraDays), day-eraDays*floorDiv(day, eraDays)+epoch
	era, d = era+d/eraDays, d%eraDays
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	return (era*400+y-1970)*12 + m + 2
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
