package ndview_test

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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
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

type goldenLayout struct {
	Size    int64
	Offsets []int64
}

func loadGoldenTypes(t *testing.T) goldenTypes {
	t.Helper()
	text, err := os.ReadFile("testdata/golden/dtype.json")
	require.NoError(t, err)
	var golden goldenTypes
	require.NoError(t, json.Unmarshal(text, &golden))
	return golden
}

// numpyType is ndview.ParseDType for tests; nothing is the zero DType.
func numpyType(t testing.TB, s string) ndview.DType {
	t.Helper()
	if s == "" {
		return ndview.DType{}
	}
	dtype, _, err := ndview.ParseDType(s)
	require.NoError(t, err)
	return dtype
}

func numpyTypes(t testing.TB, names []string) []ndview.DType {
	types := make([]ndview.DType, len(names))
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
				if i == j && types[i].Kind() == ndview.KindRecord {
					continue // NumPy packs even a record with itself; Promote keeps it
				}
				got, err := ndview.Promote(types[i], types[j])
				assert.Equal(t, numpyType(t, name), got, "%s with %s", types[i], types[j])
				if name == "" {
					assert.ErrorIs(t, err, ndview.ErrDType)
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
				got, _ := ndview.Promote(types[i], types[j], types[k])
				assert.Equal(t, want, got, "%s, %s, %s", types[i], types[j], types[k])
			}
		}
	}
}

func TestNothingPromotesToNothing(t *testing.T) {
	_, err := ndview.Promote()
	assert.ErrorIs(t, err, ndview.ErrDType)
	_, err = ndview.Promote(ndview.DType{})
	assert.ErrorIs(t, err, ndview.ErrDType)
	_, err = ndview.Promote(ndview.DType{}, ndview.Int8)
	assert.ErrorIs(t, err, ndview.ErrDType)
}

func TestCastsAreAllowedAsInNumPy(t *testing.T) {
	golden := loadGoldenTypes(t).Cast
	types := numpyTypes(t, golden.Types)
	rules := []ndview.Casting{ndview.CastNo, ndview.CastEquiv, ndview.CastSafe, ndview.CastSameKind, ndview.CastUnsafe}
	for i, row := range golden.Rows {
		for j, letter := range row {
			strictest := strings.IndexRune("nesku", letter)
			for r, rule := range rules {
				want := strictest >= 0 && r >= strictest
				assert.Equal(t, want, ndview.CanCast(types[i], types[j], rule), "%s to %s, %s", types[i], types[j], rule)
			}
		}
	}
	assert.False(t, ndview.CanCast(ndview.DType{}, ndview.Int8, ndview.CastUnsafe))
	assert.False(t, ndview.CanCast(ndview.Int8, ndview.DType{}, ndview.CastUnsafe))
}

func TestStringsAreReadAndWrittenAsByNumPy(t *testing.T) {
	for _, c := range loadGoldenTypes(t).Strings {
		s, str, name := c[0], c[1], c[2]
		dtype, order, err := ndview.ParseDType(s)
		if str == "" {
			assert.ErrorIs(t, err, ndview.ErrDType, "%q", s)
			continue
		}
		if !assert.NoError(t, err) {
			continue
		}
		assert.Equal(t, ndview.ByteOrder(str[0]), order, s)
		assert.Equal(t, str, dtype.NumPyIn(order), s)
		if dtype.Kind() != ndview.KindBytes { // "void40"
			assert.Equal(t, name, dtype.String(), s)
		}
	}
}

func TestRecordsAreLaidOutAsByNumPy(t *testing.T) {
	for _, c := range loadGoldenTypes(t).Layouts {
		dtype := numpyType(t, c.Fields)
		packed, err := ndview.Packed(dtype.Fields()...)
		require.NoError(t, err)
		assert.Equal(t, dtype, packed)
		assertLayout(t, c.Packed, packed)

		fields := dtype.Fields()
		for i, f := range fields { // NumPy's align reaches records within
			if inner := f.DType.Fields(); inner != nil {
				fields[i].DType, err = ndview.Aligned(inner...)
				require.NoError(t, err)
			}
		}
		aligned, err := ndview.Aligned(fields...)
		require.NoError(t, err)
		assertLayout(t, c.Aligned, aligned)
		assert.Equal(t, aligned, numpyType(t, aligned.NumPy()))
	}
}

func assertLayout(t *testing.T, want goldenLayout, got ndview.DType) {
	t.Helper()
	assert.Equal(t, want.Size, got.Size(), got)
	for i, f := range got.Fields() {
		assert.Equal(t, want.Offsets[i], f.Offset, "%s of %s", f.Name, got)
	}
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
func assertValue(t *testing.T, want string, dtype ndview.DType, got []byte, err error, about string) {
	t.Helper()
	switch want {
	case "range":
		assert.ErrorIs(t, err, ndview.ErrRange, about)
	case "dtype":
		assert.ErrorIs(t, err, ndview.ErrDType, about)
	default:
		if assert.NoError(t, err, about) {
			assert.Equal(t, canonical(t, dtype, want), canonical(t, dtype, hex.EncodeToString(got)), about)
		}
	}
}

// canonical is the hex of an element, NaNs all the same.
func canonical(t *testing.T, dtype ndview.DType, text string) string {
	t.Helper()
	s, err := ndview.NewScalar(dtype, must(hex.DecodeString(text)))
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
		s, err := ndview.ScalarOf(goValue(t, v.Value[0], v.Value[1]))
		require.NoError(t, err)
		require.True(t, s.IsWeak())
		for i, dtype := range types {
			about := fmt.Sprintf("%v as %s", v.Value, dtype)
			want := v.Result[i]
			if dtype == ndview.BFloat16 && v.Value[0] == "float" {
				want = "bfloat16" // where NumPy, to which this is no float, has float64
			}
			result, err := s.DType(dtype)
			assert.Equal(t, numpyType(t, want), result, about)
			if want == "" {
				assert.ErrorIs(t, err, ndview.ErrDType, about)
			}
			if dtype == ndview.BFloat16 && s.Natural() == ndview.Uint64 {
				continue // ml_dtypes takes no integers of 2^63 and more
			}
			got, err := s.Bytes(dtype)
			assertValue(t, v.Stored[i], dtype, got, err, about)
		}
	}
}

func TestStrongScalarsAreCastAsByNumPy(t *testing.T) {
	golden := loadGoldenTypes(t).Strong
	types := numpyTypes(t, golden.Types)
	for _, v := range golden.Values {
		from := numpyType(t, v.Type)
		s, err := ndview.NewScalar(from, must(hex.DecodeString(v.Bytes)))
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
