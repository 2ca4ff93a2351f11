package dtype_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPromotePairsMatchesNumPy(t *testing.T) {
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
					continue // NumPy packs equal records; Promote keeps them
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

// If NumPy finds a common type of three in some orders only, as of bfloat16, int16 and
// float32, Promote finds none in any order.
func TestPromoteTriplesMatchesNumPy(t *testing.T) {
	golden := loadGoldenTypes(t).Triples
	types := numpyTypes(t, golden.Types)
	n := len(types)
	result := func(i, j, k int) byte { return golden.Rows[i][j*n+k] }
	for i := range n {
		for j := range n {
			for k := range n {
				want := numpyType(t, "")
				orders := []byte{result(i, j, k), result(i, k, j), result(j, i, k), result(j, k, i), result(k, i, j), result(k, j, i)}
				if !slices.Contains(orders, '.') {
					want = types[orders[0]-'A']
				}
				got, _ := dtype.Promote(types[i], types[j], types[k])
				assert.Equal(t, want, got, "%s, %s, %s", types[i], types[j], types[k])
			}
		}
	}
}

func TestPromoteRefusesNoTypes(t *testing.T) {
	_, err := dtype.Promote()
	assert.ErrorIs(t, err, dtype.ErrDType)
	_, err = dtype.Promote(dtype.DType{})
	assert.ErrorIs(t, err, dtype.ErrDType)
	_, err = dtype.Promote(dtype.DType{}, dtype.Int8)
	assert.ErrorIs(t, err, dtype.ErrDType)
}

func TestCanCastMatchesNumPy(t *testing.T) {
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

// The expected types are those of pygpu's get_common_dtype(a, b, allow_double=False),
// by the rules of NumPy 2.
func TestSingleAvoidsDoubles(t *testing.T) {
	for _, c := range []struct {
		a, b any
		want dtype.DType
	}{
		{dtype.Float32, dtype.Float64, dtype.Float32},
		{dtype.Int64, dtype.Float32, dtype.Float32},
		{dtype.Int32, 2.5, dtype.Float32},
		{dtype.Complex64, dtype.Float64, dtype.Complex64},
		{dtype.Float16, dtype.Int8, dtype.Float16},
		{dtype.Int64, dtype.Uint64, dtype.Float32},
		{dtype.Int64, dtype.Int8, dtype.Int64},
	} {
		common, err := dtype.ResultType(c.a, c.b)
		require.NoError(t, err)
		assert.Equal(t, c.want, common.Single(), "%v %v", c.a, c.b)
	}
	assert.Equal(t, dtype.BFloat16, dtype.BFloat16.Single())
	assert.Equal(t, dtype.DType{}, dtype.DType{}.Single())
}
