package ndview_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

type celsius float32

func TestGoValuesAreScalarsOfTheirTypes(t *testing.T) {
	for _, c := range []struct {
		value any
		dtype ndview.DType
		weak  bool
		back  any
	}{
		{true, ndview.Bool, true, true}, {-3, ndview.Int64, true, int64(-3)}, {uint(3), ndview.Int64, true, int64(3)},
		{uint(math.MaxUint64), ndview.Uint64, true, uint64(math.MaxUint64)}, {2.5, ndview.Float64, true, 2.5}, {2i, ndview.Complex128, true, 2i},
		{int8(-3), ndview.Int8, false, int64(-3)}, {int16(-3), ndview.Int16, false, int64(-3)}, {int32(-3), ndview.Int32, false, int64(-3)},
		{int64(-3), ndview.Int64, false, int64(-3)}, {uint8(250), ndview.Uint8, false, uint64(250)}, {uint16(250), ndview.Uint16, false, uint64(250)},
		{uint32(250), ndview.Uint32, false, uint64(250)}, {uint64(250), ndview.Uint64, false, uint64(250)},
		{float32(1.5), ndview.Float32, false, 1.5}, {complex64(1 + 2i), ndview.Complex64, false, 1 + 2i}, {celsius(36.5), ndview.Float32, false, 36.5},
		{time.March, ndview.Int64, false, int64(3)},
		{1500 * time.Millisecond, ndview.Timedelta64("ns", 1), false, int64(1500000000)},
		{time.Unix(3, 7), ndview.Datetime64("ns", 1), false, int64(3000000007)},
	} {
		s, err := ndview.ScalarOf(c.value)
		require.NoError(t, err)
		assert.Equal(t, c.dtype, s.Natural(), "%T", c.value)
		assert.Equal(t, c.weak, s.IsWeak(), "%T", c.value)
		assert.Equal(t, c.back, s.Value(), "%T", c.value)
		again, err := ndview.ScalarOf(s)
		require.NoError(t, err)
		assert.True(t, s == again)
	}
}

func TestOtherGoValuesAreNoScalars(t *testing.T) {
	for _, v := range []any{nil, "7", []int{7}, struct{}{}, new(int), ndview.Scalar{}} {
		_, err := ndview.ScalarOf(v)
		assert.ErrorIs(t, err, ndview.ErrDType, "%T", v)
	}
	_, err := ndview.ScalarOf(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC))
	assert.ErrorIs(t, err, ndview.ErrRange)
	assert.Equal(t, "invalid", ndview.Scalar{}.String())
	_, err = ndview.Scalar{}.Bytes(ndview.Int8)
	assert.ErrorIs(t, err, ndview.ErrDType)
	_, err = ndview.Scalar{}.DType(ndview.Int8)
	assert.ErrorIs(t, err, ndview.ErrDType)
}

func TestAScalarOfATypeHoldsAValueOrBytes(t *testing.T) {
	s, err := ndview.NewScalar(ndview.Float16, 1.5)
	require.NoError(t, err)
	assert.False(t, s.IsWeak())
	assert.Equal(t, ndview.Float16, s.Natural())
	assert.Equal(t, 1.5, s.Value())

	record := numpyType(t, `[["a","|u1"],["b","|V2"]]`)
	s, err = ndview.NewScalar(record, []byte{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 2, 3}, s.Value())
	assert.Equal(t, []byte{1, 2, 3}, must(s.Bytes(record)))
	for _, to := range []ndview.DType{ndview.Int8, ndview.Bytes(3), numpyType(t, `[["a","|u1"],["c","|V2"]]`), {}} {
		_, err = s.Bytes(to)
		assert.ErrorIs(t, err, ndview.ErrDType, to)
	}

	s, err = ndview.NewScalar(ndview.Bytes(3), []byte("abc"))
	require.NoError(t, err)
	assert.Equal(t, []byte("ab"), must(s.Bytes(ndview.Bytes(2))))
	assert.Equal(t, []byte("abc\x00\x00"), must(s.Bytes(ndview.Bytes(5))))

	s, err = ndview.NewScalar(ndview.Bytes(4), []byte("abcd"))
	require.NoError(t, err)
	_, err = s.Bytes(ndview.Float32)
	assert.ErrorIs(t, err, ndview.ErrDType)

	for _, c := range []struct {
		dtype ndview.DType
		value any
		err   error
	}{
		{ndview.Int8, 300, ndview.ErrRange}, {ndview.Int8, []byte{1, 2}, ndview.ErrDType}, {ndview.DType{}, []byte{}, ndview.ErrDType},
		{ndview.DType{}, 1, ndview.ErrDType}, {record, 1, ndview.ErrDType}, {ndview.Bytes(2), 1, ndview.ErrDType}, {ndview.Int8, "x", ndview.ErrDType},
		{ndview.Datetime64("as", 1), time.Unix(100, 0), ndview.ErrRange},
	} {
		_, err := ndview.NewScalar(c.dtype, c.value)
		assert.ErrorIs(t, err, c.err, "%s %v", c.dtype, c.value)
	}
}

// Strong int8(300 mod 256) is for casts; a strong value never fails to fit.
func TestStrongIntegersWrapWhereWeakOnesFail(t *testing.T) {
	strong := must(ndview.ScalarOf(int64(300)))
	assert.Equal(t, []byte{44}, must(strong.Bytes(ndview.Int8)))
	weak := must(ndview.ScalarOf(300))
	_, err := weak.Bytes(ndview.Int8)
	assert.ErrorIs(t, err, ndview.ErrRange)
	assert.ErrorContains(t, err, "300")
	assert.ErrorContains(t, err, "int8")
}

func TestFloat64IsRoundedToBFloat16Once(t *testing.T) {
	s := must(ndview.NewScalar(ndview.Float64, 1+0x1p-8+0x1p-40))
	assert.Equal(t, raw(uint16(0x3f81)), must(s.Bytes(ndview.BFloat16)))
}

func TestResultTypesOfManyOperands(t *testing.T) {
	a, err := ndview.Empty(arrowbuf.CPU(), ndview.Int8, 2)
	own(t, a, err)
	for _, c := range []struct {
		operands []any
		want     ndview.DType
	}{
		{[]any{a, 1}, ndview.Int8}, {[]any{1, a, 2.5}, ndview.Float64}, {[]any{a, ndview.Float16, 2.5}, ndview.Float16},
		{[]any{a, int16(1)}, ndview.Int16}, {[]any{1, 2}, ndview.Int64}, {[]any{true, 2, 1.5}, ndview.Float64}, {[]any{true}, ndview.Bool},
		{[]any{ndview.Float32, 2i}, ndview.Complex64}, {[]any{ndview.Int8, ndview.Uint8, ndview.Float16}, ndview.Float16},
		{[]any{ndview.Timedelta64("s", 1), 3}, ndview.Timedelta64("s", 1)}, {[]any{ndview.Timedelta64("s", 1), time.Second}, ndview.Timedelta64("ns", 1)},
		{[]any{uint(math.MaxUint64), true}, ndview.Uint64},
	} {
		got, err := ndview.ResultType(c.operands...)
		require.NoError(t, err, c.operands)
		assert.Equal(t, c.want, got, c.operands)
	}
	for _, operands := range [][]any{{}, {"x"}, {ndview.Bytes(3), 1}, {ndview.Datetime64("s", 1), 1}, {ndview.Float16, ndview.BFloat16}} {
		_, err := ndview.ResultType(operands...)
		assert.ErrorIs(t, err, ndview.ErrDType, operands)
	}
}

// What an operation on few elements pays for its types.
func BenchmarkTypesOfAnOperation(b *testing.B) {
	b.Run("promote", func(b *testing.B) {
		for b.Loop() {
			_, _ = ndview.Promote(ndview.Float32, ndview.Int16)
		}
	})
	b.Run("scalar", func(b *testing.B) {
		for b.Loop() {
			s, _ := ndview.ScalarOf(2.5)
			t, _ := s.DType(ndview.Float32)
			_, _ = s.Bytes(t)
		}
	})
}
