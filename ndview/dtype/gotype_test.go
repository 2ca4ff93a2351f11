package dtype_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/dtype"
)

func TestGoTypesAreElementsOfTheirDTypesOnly(t *testing.T) {
	ns, ms := dtype.Timedelta64(dtype.Nanosecond, 1), dtype.Datetime64(dtype.Millisecond, 1)
	days, minutes := dtype.Datetime64(dtype.Day, 1), dtype.Timedelta64(dtype.Minute, 5)
	type celsius float32
	type count int64
	types := []dtype.DType{dtype.Bool, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16,
		dtype.Uint32, dtype.Uint64, dtype.Float16, dtype.Float32, dtype.Float64, dtype.BFloat16, dtype.Complex64,
		dtype.Complex128, ns, ms, days, minutes, dtype.Bytes(1), dtype.Bytes(2), dtype.Bytes(8), {}}
	for _, c := range []struct {
		value any
		of    []dtype.DType // the first is that of OfGoType
	}{
		{false, []dtype.DType{dtype.Bool}},
		{int8(0), []dtype.DType{dtype.Int8}},
		{int16(0), []dtype.DType{dtype.Int16}},
		{int32(0), []dtype.DType{dtype.Int32}},
		{int64(0), []dtype.DType{dtype.Int64, ns, ms, days, minutes}},
		{0, []dtype.DType{dtype.Int64, ns, ms, days, minutes}},
		{count(0), []dtype.DType{dtype.Int64, ns, ms, days, minutes}},
		{uint8(0), []dtype.DType{dtype.Uint8}},
		{uint16(0), []dtype.DType{dtype.Uint16}},
		{uint32(0), []dtype.DType{dtype.Uint32}},
		{uint64(0), []dtype.DType{dtype.Uint64}},
		{float32(0), []dtype.DType{dtype.Float32}},
		{celsius(0), []dtype.DType{dtype.Float32}},
		{float64(0), []dtype.DType{dtype.Float64}},
		{complex64(0), []dtype.DType{dtype.Complex64}},
		{complex128(0), []dtype.DType{dtype.Complex128}},
		{float16.Num{}, []dtype.DType{dtype.Float16}},
		{dtype.BFloat16Num(0), []dtype.DType{dtype.BFloat16}},
		{time.Duration(0), []dtype.DType{ns}},
		{arrow.Date64(0), []dtype.DType{ms}},
		{arrow.Date32(0), []dtype.DType{dtype.Int32}},
	} {
		g := reflect.TypeOf(c.value)
		own, err := dtype.OfGoType(g)
		require.NoError(t, err, g)
		assert.Equal(t, c.of[0], own, g)
		for _, d := range types {
			err := dtype.CheckGoType(d, g)
			if slices.Contains(c.of, d) {
				assert.NoError(t, err, "%s %s", g, d)
				continue
			}
			require.ErrorIs(t, err, dtype.ErrDType, "%s %s", g, d)
			assert.ErrorContains(t, err, g.String())
			assert.ErrorContains(t, err, d.String())
		}
	}
	for value, is := range map[any]dtype.DType{arrow.Timestamp(0): days, arrow.Duration(0): minutes} {
		_, err := dtype.OfGoType(reflect.TypeOf(value))
		assert.ErrorIs(t, err, dtype.ErrDType)
		for _, d := range types {
			assert.Equal(t, d.IsTime() && d.Kind() == is.Kind(), dtype.CheckGoType(d, reflect.TypeOf(value)) == nil, "%T %s", value, d)
		}
	}
	for _, value := range []any{"", []int32{}, struct{ X int32 }{}, uintptr(0), nil, map[string]int{}} {
		_, err := dtype.OfGoType(reflect.TypeOf(value))
		assert.ErrorIs(t, err, dtype.ErrDType, "%T", value)
		assert.ErrorIs(t, dtype.CheckGoType(dtype.Int32, reflect.TypeOf(value)), dtype.ErrDType, "%T", value)
	}
}

func TestBFloat16RoundsToNearestEven(t *testing.T) {
	for _, c := range []struct {
		value float32
		bits  dtype.BFloat16Num
	}{
		{1, 0x3f80}, {-2.5, 0xc020}, {0, 0}, {float32(math.Copysign(0, -1)), 0x8000},
		{math.Float32frombits(0x3f808000), 0x3f80}, {math.Float32frombits(0x3f818000), 0x3f82},
		{math.Float32frombits(0x3f808001), 0x3f81}, {math.MaxFloat32, 0x7f80}, {float32(math.Inf(-1)), 0xff80},
	} {
		assert.Equal(t, c.bits, dtype.NewBFloat16(c.value), c.value)
	}
	for bits := range 1 << 16 {
		v := dtype.BFloat16Num(bits).Float32()
		if v != v {
			assert.NotEqual(t, dtype.NewBFloat16(v).Float32(), dtype.NewBFloat16(v).Float32(), "%#x", bits)
			continue
		}
		if got := dtype.NewBFloat16(v); got != dtype.BFloat16Num(bits) {
			require.Failf(t, "round trip", "%#x became %#x", bits, got)
		}
	}
	assert.Equal(t, "-2.5", dtype.NewBFloat16(-2.5).String())
	s, err := dtype.ScalarOf(dtype.NewBFloat16(-2.5))
	require.NoError(t, err)
	assert.Equal(t, dtype.BFloat16, s.Natural())
	s, err = dtype.ScalarOf(float16.New(-2.5))
	require.NoError(t, err)
	assert.Equal(t, dtype.Float16, s.Natural())
	assert.Equal(t, -2.5, s.Value())
}
