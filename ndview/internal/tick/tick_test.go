package tick_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

func of(unit tick.Unit) tick.Tick { return tick.Tick{Unit: unit, Step: 1} }

func convert(t *testing.T, v int64, from, to tick.Tick) int64 {
	t.Helper()
	got, err := tick.Convert(v, from, to, true)
	if err != nil {
		t.Fatalf("%d from %v to %v: %v", v, from, to, err)
	}
	return got
}

func TestDatetimesFollowTheCalendar(t *testing.T) {
	last := time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)
	same := func(day time.Time, want, got int64) {
		if want != got {
			t.Fatalf("%s: want %d, got %d", day, want, got)
		}
	}
	for day := time.Date(-1000, 1, 1, 0, 0, 0, 0, time.UTC); day.Before(last); day = day.AddDate(0, 0, 1) {
		days := day.Unix() / 86400 // exact, as it is a whole number of days
		month := int64(day.Year()-1970)*12 + int64(day.Month()) - 1
		same(day, month, convert(t, days, of(tick.Day), of(tick.Month)))
		if day.Day() == 1 {
			same(day, days, convert(t, month, of(tick.Month), of(tick.Day)))
			same(day, days*86400, convert(t, month, of(tick.Month), of(tick.Second)))
		}
		if day.YearDay() == 1 {
			same(day, days, convert(t, int64(day.Year()-1970), of(tick.Year), of(tick.Day)))
		}
	}
}

func TestCalendarCoversAllCounts(t *testing.T) {
	for _, days := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 60, -1 << 60} {
		month := convert(t, days, of(tick.Day), of(tick.Month))
		first, err := tick.Convert(month, of(tick.Month), of(tick.Day), true)
		if err != nil { // an int64 cannot hold its first day
			assert.ErrorIs(t, err, tick.ErrOverflow)
			continue
		}
		assert.LessOrEqual(t, first, days)
		assert.Greater(t, first, days-31)
	}
	for _, months := range []int64{math.MaxInt64, math.MinInt64 + 1, math.MaxInt64 / 30} {
		_, err := tick.Convert(months, of(tick.Month), of(tick.Day), true)
		assert.ErrorIs(t, err, tick.ErrOverflow)
	}
}

// lengths of the units of fixed length, in attoseconds.
var lengths = func() map[tick.Unit]*big.Int {
	l := map[tick.Unit]*big.Int{tick.Attosecond: big.NewInt(1)}
	for u := tick.Femtosecond; u >= tick.Second; u-- {
		l[u] = new(big.Int).Mul(l[u+1], big.NewInt(1000))
	}
	for u, n := range map[tick.Unit]int64{tick.Minute: 60, tick.Hour: 3600, tick.Day: 86400, tick.Week: 7 * 86400} {
		l[u] = new(big.Int).Mul(l[tick.Second], big.NewInt(n))
	}
	return l
}()

func TestConversionRoundsDownExactly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	exact := 0
	for range 20000 {
		from := tick.Tick{Unit: tick.Week + tick.Unit(random.IntN(11)), Step: 1 + random.Int64N(1<<random.IntN(31))}
		to := tick.Tick{Unit: tick.Week + tick.Unit(random.IntN(11)), Step: 1 + random.Int64N(1<<random.IntN(31))}
		v := random.Int64() >> random.IntN(64)
		if random.IntN(2) == 0 {
			v = -v
		}
		want := new(big.Int).Mul(big.NewInt(v), big.NewInt(from.Step))
		want.Mul(want, lengths[from.Unit])
		want.Div(want, new(big.Int).Mul(big.NewInt(to.Step), lengths[to.Unit])) // big.Int.Div is Euclidean, so it rounds down
		for _, datetime := range []bool{true, false} {
			got, err := tick.Convert(v, from, to, datetime)
			if err == nil {
				exact++
				require.True(t, want.IsInt64() && want.Int64() == got, "%d of %v in %v: want %s, got %d", v, from, to, want, got)
			} else {
				require.ErrorIs(t, err, tick.ErrOverflow)
			}
		}
	}
	assert.Greater(t, exact, 15000)
}

func TestTimedeltaYearsHaveMeanLength(t *testing.T) {
	for _, c := range []struct {
		v        int64
		from, to tick.Unit
		want     int64
	}{
		{400, tick.Year, tick.Day, 146097}, {1, tick.Year, tick.Day, 365}, {-1, tick.Year, tick.Day, -366}, {7, tick.Year, tick.Month, 84},
		{1, tick.Month, tick.Day, 30}, {1, tick.Month, tick.Second, 2629746}, {4800, tick.Month, tick.Week, 20871},
		{146097, tick.Day, tick.Year, 400}, {146096, tick.Day, tick.Year, 399}, {-1, tick.Day, tick.Month, -1}, {25, tick.Month, tick.Year, 2},
	} {
		got, err := tick.Convert(c.v, of(c.from), of(c.to), false)
		require.NoError(t, err)
		assert.Equal(t, c.want, got, c)
	}
}

func TestNaTAndGenericCountsAreUnchanged(t *testing.T) {
	for _, datetime := range []bool{true, false} {
		got, err := tick.Convert(tick.NaT, of(tick.Year), of(tick.Attosecond), datetime)
		require.NoError(t, err)
		assert.EqualValues(t, tick.NaT, got)
		got, err = tick.Convert(7, of(tick.Generic), of(tick.Day), datetime)
		require.NoError(t, err)
		assert.EqualValues(t, 7, got)
	}
}

func TestCommonNeedsCompatibleUnits(t *testing.T) {
	_, err := tick.Common(of(tick.Year), of(tick.Day), true)
	assert.ErrorIs(t, err, tick.ErrIncompatible)
	_, err = tick.Common(of(tick.Second), of(tick.Attosecond), true)
	assert.ErrorIs(t, err, tick.ErrOverflow)
	common, err := tick.Common(tick.Tick{Unit: tick.Nanosecond, Step: math.MaxInt32}, tick.Tick{Unit: tick.Day, Step: math.MaxInt32}, true)
	require.NoError(t, err) // products that overflow 64 bits
	assert.Equal(t, tick.Tick{Unit: tick.Nanosecond, Step: math.MaxInt32}, common)
}
