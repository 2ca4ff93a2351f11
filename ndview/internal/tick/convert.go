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
	switch {
	case v == NaT || from.Unit == Generic || to.Unit == Generic || from == to:
		return v, nil
	case datetime && nonlinear(from.Unit, to.Unit):
		return byCalendar(v, from, to)
	}
	num, denom, err := ratio(from.Unit, to.Unit)
	if err != nil {
		return 0, err
	}
	return scale(v, num, uint64(from.Step), denom, uint64(to.Step))
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

// scale is floor(v * (a*b) / (c*d)).
func scale(v int64, a, b, c, d uint64) (int64, error) {
	g := gcd(a, d)
	a, d = a/g, d/g
	g = gcd(b, c)
	b, c = b/g, c/g
	numHigh, num := bits.Mul64(a, b)
	denomHigh, denom := bits.Mul64(c, d)
	if numHigh != 0 || denomHigh != 0 {
		return 0, ErrOverflow
	}
	magnitude := uint64(v)
	if v < 0 {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(magnitude, num)
	if v < 0 { // Away from zero.
		var carry uint64
		low, carry = bits.Add64(low, denom-1, 0)
		high += carry
	}
	if high >= denom {
		return 0, ErrOverflow
	}
	quotient, _ := bits.Div64(high, low, denom)
	if quotient > math.MaxInt64 {
		return 0, ErrOverflow
	}
	if v < 0 {
		return -int64(quotient), nil
	}
	return int64(quotient), nil
}

func byCalendar(v int64, from, to Tick) (int64, error) {
	if from.Unit > Month {
		days, err := Convert(v, from, Tick{Day, 1}, true)
		if err != nil {
			return 0, err
		}
		return Convert(monthOf(days), Tick{Month, 1}, to, true)
	}
	months, err := Convert(v, from, Tick{Month, 1}, true)
	if err != nil {
		return 0, err
	}
	if months > math.MaxInt64/31 || months < math.MinInt64/31 {
		return 0, ErrOverflow
	}
	return Convert(firstDay(months), Tick{Day, 1}, to, true)
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
