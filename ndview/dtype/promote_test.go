package dtype_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goldenTypes is testdata/golden/dtype.json, which dtype.py explains.
type goldenTypes struct {
	Promote, Records struct {
		Types []string
		Rows  [][]string
	}
	Triples, Cast struct {
		Types, Rows []string
	}
	Strings [][3]string
	Layouts []struct {
		Fields          string
		Packed, Aligned goldenLayout
	}
	Weak struct {
		Types  []string
		Values []struct{ Value, Result, Stored []string }
	}
	Strong struct {
		Types  []string
		Values []struct {
			Type, Bytes string
			Cast        []string
		}
	}
}

func loadGoldenTypes(t *testing.T) goldenTypes {
	t.Helper()
	text, err := os.ReadFile("testdata/golden/dtype.json")
	require.NoError(t, err)
	var golden goldenTypes
	require.NoError(t, json.Unmarshal(text, &golden))
	return golden
}

// numpyType is dtype.ParseDType for tests; nothing is the zero DType.
func numpyType(t testing.TB, s string) dtype.DType {
	t.Helper()
	if s == "" {
		return dtype.DType{}
	}
	dt, _, err := dtype.ParseDType(s)
	require.NoError(t, err)
	return dt
}

func numpyTypes(t testing.TB, names []string) []dtype.DType {
	types := make([]dtype.DType, len(names))
	for i, name := range names {
		types[i] = numpyType(t, name)
	}
	return types
}

func TestPairsPromoteAsInNumPy(t *testing.T) {
	golden := loadGoldenTypes(t)
	tables := append(golden.Promote.Rows, golden.Records.Rows...)
	require.Len(t, tables, len(golden.Promote.Types)+len(golden.Records.Types))
	for _, table := range []struct {
		types []string
		rows  [][]string
	}{{golden.Promote.Types, golden.Promote.Rows}, {golden.Records.Types, golden.Records.Rows}} {
		types := numpyTypes(t, table.types)
		for i, row := range table.rows {
			for j, name := range row {
				if i == j && types[i].Kind() == dtype.KindRecord {
					continue // NumPy packs even a record with itself; Promote keeps it
				}
				got, err := dtype.Promote(types[i], types[j])
				assert.Equal(t, numpyType(t, name), got, "%s with %s", types[i], types[j])
				if name == "" {
					assert.ErrorIs(t, err, dtype.ErrDType)
				}
			}
		}
	}
}

// Where NumPy finds a type of three in some orders only, as of bfloat16, int16
// and float32, Promote finds none in any.
func TestTriplesPromoteAsInNumPyInAnyOrder(t *testing.T) {
	golden := loadGoldenTypes(t).Triples
	types := numpyTypes(t, golden.Types)
	n := len(types)
	answer := func(i, j, k int) byte { return golden.Rows[i][j*n+k] }
	for i := range n {
		for j := range n {
			for k := range n {
				want := numpyType(t, "")
				orders := []byte{answer(i, j, k), answer(i, k, j), answer(j, i, k), answer(j, k, i), answer(k, i, j), answer(k, j, i)}
				if !slices.Contains(orders, '.') {
					want = types[orders[0]-'A']
				}
				got, _ := dtype.Promote(types[i], types[j], types[k])
				assert.Equal(t, want, got, "%s, %s, %s", types[i], types[j], types[k])
			}
		}
	}
}

func TestNothingPromotesToNothing(t *testing.T) {
	_, err := dtype.Promote()
	assert.ErrorIs(t, err, dtype.ErrDType)
	_, err = dtype.Promote(dtype.DType{})
	assert.ErrorIs(t, err, dtype.ErrDType)
	_, err = dtype.Promote(dtype.DType{}, dtype.Int8)
	assert.ErrorIs(t, err, dtype.ErrDType)
}

func TestCastsAreAllowedAsInNumPy(t *testing.T) {
	golden := loadGoldenTypes(t).Cast
	types := numpyTypes(t, golden.Types)
	rules := []dtype.Casting{dtype.CastNo, dtype.CastEquiv, dtype.CastSafe, dtype.CastSameKind, dtype.CastUnsafe}
	for i, row := range golden.Rows {
		for j, letter := range row {
			strictest := strings.IndexRune("nesku", letter)
			for r, rule := range rules {
				want := strictest >= 0 && r >= strictest
				assert.Equal(t, want, dtype.CanCast(types[i], types[j], rule), "%s to %s, %s", types[i], types[j], rule)
			}
		}
	}
	assert.False(t, dtype.CanCast(dtype.DType{}, dtype.Int8, dtype.CastUnsafe))
	assert.False(t, dtype.CanCast(dtype.Int8, dtype.DType{}, dtype.CastUnsafe))
}

// goValue is a Python number in Go.
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

// assertValue compares an element, or its error, with what NumPy has.
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

// canonical is the hex of an element, NaNs all the same.
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

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestPlainNumbersAreWeakAsInNumPy(t *testing.T) {
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
				want = "bfloat16" // where NumPy, to which this is no float, has float64
			}
			result, err := s.DType(dt)
			assert.Equal(t, numpyType(t, want), result, about)
			if want == "" {
				assert.ErrorIs(t, err, dtype.ErrDType, about)
			}
			if dt == dtype.BFloat16 && s.Natural() == dtype.Uint64 {
				continue // ml_dtypes takes no integers of 2^63 and more
			}
			got, err := s.Bytes(dt)
			assertValue(t, v.Stored[i], dt, got, err, about)
		}
	}
}

func TestStrongScalarsAreCastAsByNumPy(t *testing.T) {
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
