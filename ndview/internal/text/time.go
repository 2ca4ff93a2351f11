package text

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// NaT is the count that stands for no time.
const NaT = math.MinInt64

// Datetimes are the words of datetime64 elements, counts of steps of units since 1970.
func Datetimes(counts []int64, step int64, unit string) []string {
	return times(counts, func(c int64) string { return "'" + Datetime(c, step, unit) + "'" })
}

// Timedeltas are the words of timedelta64 elements, counts of ticks.
func Timedeltas(counts []int64) []string {
	return times(counts, func(c int64) string { return strconv.FormatInt(c, 10) })
}

// times are as wide as the earliest, the latest and 'NaT' are, of those that
// there are.
func times(counts []int64, word func(int64) string) []string {
	first, last := int64(math.MaxInt64), int64(NaT)
	missing := false
	for _, c := range counts {
		if c == NaT {
			missing = true
		} else {
			first, last = min(first, c), max(last, c)
		}
	}
	width := 0
	if last != NaT {
		width = max(len(word(first)), len(word(last)))
	}
	if missing {
		width = max(width, len("'NaT'"))
	}
	words := make([]string, len(counts))
	for i, c := range counts {
		if c == NaT {
			words[i] = pad("'NaT'", width)
		} else {
			words[i] = pad(word(c), width)
		}
	}
	return words
}

// ticksOf says how many of a unit a second has, and how many digits behind the
// point say one, for the units of less than a second.
var ticksOf = map[string]struct {
	second int64
	digits int
}{
	"ms": {1e3, 3}, "us": {1e6, 6}, "ns": {1e9, 9}, "ps": {1e12, 12}, "fs": {1e15, 15}, "as": {1e18, 18},
}

// secondsOf says how long the units of a second to a week are.
var secondsOf = map[string]int64{"s": 1, "m": 60, "h": 3600}

const day = 24 * 3600

// Datetime is ISO 8601 of a count of steps of a unit since 1970, as precise as the unit.
// Without a unit it is the count, and where days or units are more than 64 bits hold it
// is in angle brackets: NumPy has no text for these.
func Datetime(count, step int64, unit string) string {
	if count == NaT {
		return "NaT"
	}
	each, name := step, unitNames[unit]
	if unit == "W" {
		each, unit = 7*step, "D"
	}
	most := uint64(math.MaxInt64)
	if unit == "Y" {
		most -= 1970
	}
	if high, low := bits.Mul64(uint64(max(count, -count)), uint64(each)); high != 0 || low > most {
		return fmt.Sprintf("<%d steps of %d %s>", count, step, name)
	}
	count *= each
	switch unit {
	case "Y":
		return fmt.Sprintf("%04d", 1970+count)
	case "M":
		year, month := floorDiv(count, 12)
		return fmt.Sprintf("%04d-%02d", 1970+year, month+1)
	case "D":
		return date(count)
	case "generic":
		return fmt.Sprint(count)
	}
	if ticks, ok := ticksOf[unit]; ok {
		seconds, rest := floorDiv(count, ticks.second)
		return fmt.Sprintf("%s.%0*d", clock(seconds, "s"), ticks.digits, rest)
	}
	perDay := day / secondsOf[unit]
	days, rest := floorDiv(count, perDay)
	return date(days) + "T" + hours(rest*secondsOf[unit], unit)
}

func clock(seconds int64, unit string) string {
	days, rest := floorDiv(seconds, day)
	return date(days) + "T" + hours(rest, unit)
}

func hours(seconds int64, unit string) string {
	switch unit {
	case "h":
		return fmt.Sprintf("%02d", seconds/3600)
	case "m":
		return fmt.Sprintf("%02d:%02d", seconds/3600, seconds/60%60)
	default:
		return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	}
}

// date is the day of the Gregorian calendar, in years of any number: the
// calendar repeats after 400 years, which have 146,097 days. They are counted
// from March, so that the day of a leap year comes last.
func date(days int64) string {
	const era, toMarch = 146097, 719468 // days from 0000-03-01 to 1970-01-01
	eras, inEra := floorDiv(days, era)
	more, inEra := floorDiv(inEra+toMarch, era)
	eras += more
	year := (inEra - inEra/1460 + inEra/36524 - inEra/146096) / 365
	inYear := inEra - (365*year + year/4 - year/100)
	month := (5*inYear + 2) / 153
	inMonth := inYear - (153*month+2)/5
	year += 400 * eras
	if month += 3; month > 12 {
		month, year = month-12, year+1
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, month, inMonth+1)
}

func floorDiv(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		quotient, rest = quotient-1, rest+b
	}
	return quotient, rest
}

// unitNames are the words that a single timedelta is printed with.
var unitNames = map[string]string{
	"Y": "years", "M": "months", "W": "weeks", "D": "days", "h": "hours", "m": "minutes", "s": "seconds",
	"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
	"ps": "picoseconds", "fs": "femtoseconds", "as": "attoseconds",
	"generic": "generic time units",
}

// Timedelta is str of a single timedelta.
func Timedelta(ticks, step int64, unit string) string {
	if ticks == NaT {
		return "NaT"
	}
	return fmt.Sprintf("%d %s", ticks*step, unitNames[unit])
}
