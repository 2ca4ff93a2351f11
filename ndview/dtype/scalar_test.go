package dtype_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type celsius float32

func TestScalarOfGoValues(t *testing.T) {
	for _, c := range []struct {
		value any
		dt    dtype.DType
		weak  bool
		back  any
	}{
		{true, dtype.Bool, true, true}, {-3, dtype.Int64, true, int64(-3)}, {uint(3), dtype.Int64, true, int64(3)},
		{uint(math.MaxUint64), dtype.Uint64, true, uint64(math.MaxUint64)}, {2.5, dtype.Float64, true, 2.5}, {2i, dtype.Complex128, true, 2i},
		{int8(-3), dtype.Int8, false, int64(-3)}, {int16(-3), dtype.Int16, false, int64(-3)}, {int32(-3), dtype.Int32, false, int64(-3)},
		{int64(-3), dtype.Int64, false, int64(-3)}, {uint8(250), dtype.Uint8, false, uint64(250)}, {uint16(250), dtype.Uint16, false, uint64(250)},
		{uint32(250), dtype.Uint32, false, uint64(250)}, {uint64(250), dtype.Uint64, false, uint64(250)},
		{float32(1.5), dtype.Float32, false, 1.5}, {complex64(1 + 2i), dtype.Complex64, false, 1 + 2i}, {celsius(36.5), dtype.Float32, false, 36.5},
		{time.March, dtype.Int64, false, int64(3)},
		{1500 * time.Millisecond, dtype.Timedelta64("ns", 1), false, int64(1500000000)},
		{time.Unix(3, 7), dtype.Datetime64("ns", 1), false, int64(3000000007)},
	} {
		s, err := dtype.ScalarOf(c.value)
		require.NoError(t, err)
		assert.Equal(t, c.dt, s.Natural(), "%T", c.value)
		assert.Equal(t, c.weak, s.IsWeak(), "%T", c.value)
		assert.Equal(t, c.back, s.Value(), "%T", c.value)
		again, err := dtype.ScalarOf(s)
		require.NoError(t, err)
		assert.True(t, s == again)
	}
}

func TestScalarOfRefusesOtherValues(t *testing.T) {
	for _, v := range []any{nil, "7", []int{7}, struct{}{}, new(int), dtype.Scalar{}} {
		_, err := dtype.ScalarOf(v)
		assert.ErrorIs(t, err, dtype.ErrDType, "%T", v)
	}
	_, err := dtype.ScalarOf(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC))
	assert.ErrorIs(t, err, dtype.ErrRange)
	assert.Equal(t, "invalid", dtype.Scalar{}.String())
	_, err = dtype.Scalar{}.Bytes(dtype.Int8)
	assert.ErrorIs(t, err, dtype.ErrDType)
	_, err = dtype.Scalar{}.DType(dtype.Int8)
	assert.ErrorIs(t, err, dtype.ErrDType)
}

func TestNewScalarAcceptsValuesAndBytes(t *testing.T) {
	s, err := dtype.NewScalar(dtype.Float16, 1.5)
	require.NoError(t, err)
	assert.False(t, s.IsWeak())
	assert.Equal(t, dtype.Float16, s.Natural())
	assert.Equal(t, 1.5, s.Value())

	record := numpyType(t, `[["a","|u1"],["b","|V2"]]`)
	s, err = dtype.NewScalar(record, []byte{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 2, 3}, s.Value())
	assert.Equal(t, []byte{1, 2, 3}, must(s.Bytes(record)))
	for _, to := range []dtype.DType{dtype.Int8, dtype.Bytes(3), numpyType(t, `[["a","|u1"],["c","|V2"]]`), {}} {
		_, err = s.Bytes(to)
		assert.ErrorIs(t, err, dtype.ErrDType, to)
	}

	s, err = dtype.NewScalar(dtype.Bytes(3), []byte("abc"))
	require.NoError(t, err)
	assert.Equal(t, []byte("ab"), must(s.Bytes(dtype.Bytes(2))))
	assert.Equal(t, []byte("abc\x00\x00"), must(s.Bytes(dtype.Bytes(5))))

	s, err = dtype.NewScalar(dtype.Bytes(4), []byte("abcd"))
	require.NoError(t, err)
	_, err = s.Bytes(dtype.Float32)
	assert.ErrorIs(t, err, dtype.ErrDType)

	for _, c := range []struct {
		dt    dtype.DType
		value any
		err   error
	}{
		{dtype.Int8, 300, dtype.ErrRange}, {dtype.Int8, []byte{1, 2}, dtype.ErrDType}, {dtype.DType{}, []byte{}, dtype.ErrDType},
		{dtype.DType{}, 1, dtype.ErrDType}, {record, 1, dtype.ErrDType}, {dtype.Bytes(2), 1, dtype.ErrDType}, {dtype.Int8, "x", dtype.ErrDType},
		{dtype.Datetime64("as", 1), time.Unix(100, 0), dtype.ErrRange},
	} {
		_, err := dtype.NewScalar(c.dt, c.value)
		assert.ErrorIs(t, err, c.err, "%s %v", c.dt, c.value)
	}
}

// Casts need that strong values wrap: int8(300) is 44.
func TestStrongIntegersWrapAndWeakIntegersFail(t *testing.T) {
	strong := must(dtype.ScalarOf(int64(300)))
	assert.Equal(t, []byte{44}, must(strong.Bytes(dtype.Int8)))
	weak := must(dtype.ScalarOf(300))
	_, err := weak.Bytes(dtype.Int8)
	assert.ErrorIs(t, err, dtype.ErrRange)
	assert.ErrorContains(t, err, "300")
	assert.ErrorContains(t, err, "int8")
}

func TestFloat64IsRoundedToBFloat16Once(t *testing.T) {
	s := must(dtype.NewScalar(dtype.Float64, 1+0x1p-8+0x1p-40))
	assert.Equal(t, raw(uint16(0x3f81)), must(s.Bytes(dtype.BFloat16)))
}

func TestResultTypesOfManyOperands(t *testing.T) {
	a, err := ndview.Empty(arrowbuf.CPU(), ndview.Int8, 2)
	require.NoError(t, err)
	defer a.Release()
	for _, c := range []struct {
		operands []any
		want     dtype.DType
	}{
		{[]any{a, 1}, dtype.Int8}, {[]any{1, a, 2.5}, dtype.Float64}, {[]any{a, dtype.Float16, 2.5}, dtype.Float16},
		{[]any{a, int16(1)}, dtype.Int16}, {[]any{1, 2}, dtype.Int64}, {[]any{true, 2, 1.5}, dtype.Float64}, {[]any{true}, dtype.Bool},
		{[]any{dtype.Float32, 2i}, dtype.Complex64}, {[]any{dtype.Int8, dtype.Uint8, dtype.Float16}, dtype.Float16},
		{[]any{dtype.Timedelta64("s", 1), 3}, dtype.Timedelta64("s", 1)}, {[]any{dtype.Timedelta64("s", 1), time.Second}, dtype.Timedelta64("ns", 1)},
		{[]any{uint(math.MaxUint64), true}, dtype.Uint64},
	} {
		got, err := dtype.ResultType(c.operands...)
		require.NoError(t, err, c.operands)
		assert.Equal(t, c.want, got, c.operands)
	}
	for _, operands := range [][]any{{}, {"x"}, {dtype.Bytes(3), 1}, {dtype.Datetime64("s", 1), 1}, {dtype.Float16, dtype.BFloat16}} {
		_, err := dtype.ResultType(operands...)
		assert.ErrorIs(t, err, dtype.ErrDType, operands)
	}
}

// BenchmarkTypesOfAnOperation measures the cost of types in an operation on few
// elements.
func BenchmarkTypesOfAnOperation(b *testing.B) {
	b.Run("promote", func(b *testing.B) {
		for b.Loop() {
			_, _ = dtype.Promote(dtype.Float32, dtype.Int16)
		}
	})
	b.Run("scalar", func(b *testing.B) {
		for b.Loop() {
			s, _ := dtype.ScalarOf(2.5)
			t, _ := s.DType(dtype.Float32)
			_, _ = s.Bytes(t)
		}
	})
}

// goValue returns a Python number in Go.
func goValue(t *testing.T, kind, s string) any {
	t.Helper()
	var v any
	var err error
	switch kind {
	case "bool":
		v, err = strconv.ParseBool(s)
	case "int":
		if v, err = strconv.Atoi(s); err != nil {
			var u uint64
			u, err = strconv.ParseUint(s, 10, 64)
			v = uint(u)
		}
	case "float":
		v, err = strconv.ParseFloat(s, 64)
	case "complex":
		v, err = strconv.ParseComplex(strings.ReplaceAll(s, "j", "i"), 128)
	}
	require.NoError(t, err)
	return v
}

// assertValue compares an element, or its error, with NumPy's.
func assertValue(t *testing.T, want string, dt dtype.DType, got []byte, err error, about string) {
	t.Helper()
	switch want {
	case "range":
		assert.ErrorIs(t, err, dtype.ErrRange, about)
	case "dtype":
		assert.ErrorIs(t, err, dtype.ErrDType, about)
	default:
		if assert.NoError(t, err, about) {
			assert.Equal(t, canonical(t, dt, want), canonical(t, dt, hex.EncodeToString(got)), about)
		}
	}
}

// canonical returns the hexadecimal bytes of an element, or the same text for all
// NaNs.
func canonical(t *testing.T, dt dtype.DType, text string) string {
	t.Helper()
	s, err := dtype.NewScalar(dt, must(hex.DecodeString(text)))
	require.NoError(t, err)
	switch f := s.Value().(type) {
	case float64:
		if math.IsNaN(f) {
			return "nan"
		}
	case complex128:
		if math.IsNaN(real(f)) {
			return fmt.Sprint(f)
		}
	}
	return text
}

func TestWeakScalarsMatchNumPy(t *testing.T) {
	golden := loadGoldenTypes(t).Weak
	types := numpyTypes(t, golden.Types)
	for _, v := range golden.Values {
		s, err := dtype.ScalarOf(goValue(t, v.Value[0], v.Value[1]))
		require.NoError(t, err)
		require.True(t, s.IsWeak())
		for i, dt := range types {
			about := fmt.Sprintf("%v as %s", v.Value, dt)
			want := v.Result[i]
			if dt == dtype.BFloat16 && v.Value[0] == "float" {
				want = "bfloat16" // NumPy has float64, because bfloat16 is no float to it
			}
			result, err := s.DType(dt)
			assert.Equal(t, numpyType(t, want), result, about)
			if want == "" {
				assert.ErrorIs(t, err, dtype.ErrDType, about)
			}
			if dt == dtype.BFloat16 && s.Natural() == dtype.Uint64 {
				continue // ml_dtypes refuses integers of 2^63 and more
			}
			got, err := s.Bytes(dt)
			assertValue(t, v.Stored[i], dt, got, err, about)
		}
	}
}

func TestStrongScalarCastsMatchNumPy(t *testing.T) {
	golden := loadGoldenTypes(t).Strong
	types := numpyTypes(t, golden.Types)
	for _, v := range golden.Values {
		from := numpyType(t, v.Type)
		s, err := dtype.NewScalar(from, must(hex.DecodeString(v.Bytes)))
		require.NoError(t, err)
		require.False(t, s.IsWeak())
		for i, to := range types {
			got, err := s.Bytes(to)
			if v.Cast[i] != "?" {
				assertValue(t, v.Cast[i], to, got, err, fmt.Sprintf("%s %s as %s", from, s, to))
			}
		}
	}
}
