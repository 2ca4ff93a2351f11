package tick

import (
	"math"
	"math/bits"
)

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
