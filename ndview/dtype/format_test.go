package dtype_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/dtype"
)

func TestFormatShowsElementsOfEveryKind(t *testing.T) {
	record, err := dtype.Packed(dtype.Field{Name: "id", DType: dtype.Int16}, dtype.Field{Name: "xy", DType: dtype.Float32, Shape: []int64{2, 1}})
	require.NoError(t, err)
	for _, c := range []struct {
		dt   dtype.DType
		raw  []byte
		want string
	}{
		{dtype.Bool, raw(true), "true"},
		{dtype.Int8, raw(int8(-128)), "-128"},
		{dtype.Uint64, raw(uint64(math.MaxUint64)), "18446744073709551615"},
		{dtype.Float16, raw(uint16(0x3e00)), "1.5"},
		{dtype.Float16, raw(uint16(0x7bff)), "65504"},
		{dtype.BFloat16, raw(uint16(0x4049)), "3.141"},
		{dtype.Float32, raw(float32(0.1)), "0.1"},
		{dtype.Float64, raw(1e300), "1e+300"},
		{dtype.Complex64, raw(complex64(1 - 2i)), "(1-2i)"},
		{dtype.Complex128, raw(complex(0.1, math.Inf(1))), "(0.1+Infi)"},
		{dtype.Bytes(3), []byte{1, 2, 255}, "0x0102ff"},
		{record, append(raw(int16(7)), raw(float32(0.5), float32(2))...), "{id: 7, xy: [[0.5] [2]]}"},
	} {
		assert.Equal(t, c.want, c.dt.Format(c.raw), c.dt)
	}
}

func TestFormatShowsTimesInISO8601(t *testing.T) {
	for _, c := range []struct {
		name  string
		count int64
		want  string
	}{
		{"M8[D]", 0, "1970-01-01"}, {"M8[D]", -1, "1969-12-31"}, {"M8[2W]", 3, "1970-02-12"},
		{"M8[Y]", 54, "2024"}, {"M8[Y]", -1971, "-0001"}, {"M8[M]", 13, "1971-02"}, {"M8[M]", -1, "1969-12"},
		{"M8[h]", 25, "1970-01-02T01"}, {"M8[m]", 61, "1970-01-01T01:01"},
		{"M8[s]", 1700000000, "2023-11-14T22:13:20"}, {"M8[ms]", -1, "1969-12-31T23:59:59.999"},
		{"M8[us]", 1, "1970-01-01T00:00:00.000001"}, {"M8[ns]", math.MaxInt64, "2262-04-11T23:47:16.854775807"},
		{"M8[25us]", 2, "1970-01-01T00:00:00.000050"}, {"M8[as]", -1, "1969-12-31T23:59:59.999999999999999999"},
		{"M8[25us]", 7662053170212165990, "7662053170212165990 25us"}, {"M8[W]", -1 << 62, "-4611686018427387904 W"},
		{"M8[Y]", math.MaxInt64, "9223372036854775807 Y"}, {"M8[s]", math.MaxInt64, "9223372036854775807 s"},
		{"M8[Y]", 8030, "10000"}, {"M8", 5, "5"}, {"m8[3D]", 7, "7 3D"}, {"m8[us]", -5, "-5 us"},
		{"M8[ns]", math.MinInt64, "NaT"}, {"m8[s]", math.MinInt64, "NaT"},
	} {
		assert.Equal(t, c.want, numpyType(t, c.name).Format(raw(c.count)), c.name)
	}
}
