package ndview_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goldenKeys returns the keys of a case. Indices of one axis are passed as a list if
// asList is true.
func goldenKeys(t *testing.T, dev arrowbuf.Device, text json.RawMessage, asList bool) (keys []ndview.Key) {
	t.Helper()
	bound := func(raw json.RawMessage) int64 {
		if b := field[*int64](t, raw); b != nil {
			return *b
		}
		return ndview.Open
	}
	for _, k := range field[[][]json.RawMessage](t, text) {
		switch kind := field[string](t, k[0]); kind {
		case "at":
			keys = append(keys, ndview.At(field[int64](t, k[1])))
		case "span":
			keys = append(keys, ndview.SpanStep(bound(k[1]), bound(k[2]), bound(k[3])))
		case "all":
			keys = append(keys, ndview.All)
		case "ellipsis":
			keys = append(keys, ndview.Ellipsis)
		case "new":
			keys = append(keys, ndview.NewAxis)
		case "ints":
			shape, values := field[[]int64](t, k[1]), field[[]int64](t, k[2])
			if asList && len(shape) == 1 {
				keys = append(keys, ndview.Ints(values...))
			} else {
				keys = append(keys, ndview.IntArray(integers(t, dev, indexTypes[field[string](t, k[3])], values, shape)))
			}
		case "mask":
			mask := integers(t, dev, ndview.Uint8, field[[]int64](t, k[2]), field[[]int64](t, k[1]))
			bools, err := mask.View(ndview.Bool)
			keys = append(keys, ndview.Mask(ndtest.Own(t, bools, err)))
		default:
			require.Fail(t, "unknown key", kind)
		}
	}
	return keys
}

func TestGetByArraysMatchesNumPy(t *testing.T) {
	cases := golden2(t, "advanced")[0]
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			parts := field[[3]json.RawMessage](t, c[0])
			a := goldenView(t, dev, dtype, int64(i%5/4), field[int64](t, parts[0]), field[[]int64](t, parts[1]), field[[]int64](t, parts[2]))
			got, err := a.Get(goldenKeys(t, dev, c[1], i%3 == 0)...)
			if len(c) == 2 {
				require.Error(t, err, "case %d: %s", i, c)
				require.True(t, isIndexError(err), "case %d: %s: %v", i, c, err)
				continue
			}
			require.NoError(t, err, "case %d: %s", i, c)
			ndtest.Own(t, got, nil)
			require.Equal(t, field[[]int64](t, c[2]), append([]int64{}, got.Shape()...), "case %d: %s", i, c)
			ndtest.RequireBytes(t, patterns(dtype, field[[]int64](t, c[3])), ndtest.Elements(t, got), "case", i, c)
			require.True(t, got.IsContiguous())
		}
	})
}

// isIndexError reports whether an error corresponds to NumPy's IndexError.
func isIndexError(err error) bool {
	return errors.Is(err, arrowbuf.ErrOutOfRange) || errors.Is(err, ndview.ErrShape)
}

func TestSetInSeveralLaunchesMatchesNumPy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ndview.CutWalks(t, 3)
	TestSetByArraysMatchesNumPy(t)
}

func TestSetByArraysMatchesNumPy(t *testing.T) {
	cases := golden2(t, "advanced")[1]
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			skip := int64(i % 5 / 4)
			parts := field[[3]json.RawMessage](t, c[0])
			a := goldenView(t, dev, dtype, skip, field[int64](t, parts[0]), field[[]int64](t, parts[1]), field[[]int64](t, parts[2]))
			want := ndtest.Download(t, a.Buffer())
			values := ndtest.At(t, ndtest.Upload(t, dev, append(poisoned(i%7), patterns(dtype, field[[]int64](t, c[3]))...)), dtype, int64(i%7), field[[]int64](t, c[2])...)
			err := a.Set(values, goldenKeys(t, dev, c[1], i%3 == 0)...)
			if len(c) == 4 {
				require.Error(t, err, "case %d: %s", i, c)
				require.True(t, isIndexError(err), "case %d: %s: %v", i, c, err)
			} else {
				require.NoError(t, err, "case %d: %s", i, c)
				for _, change := range field[[][2]int64](t, c[4]) {
					copy(want[skip+change[0]*dtype.Size():], patterns(dtype, change[1:]))
				}
			}
			ndtest.RequireBytes(t, want, ndtest.Download(t, a.Buffer()), "case", i, c)
		}
	})
}

func TestNilArrayKeysAreErrDType(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		for _, key := range []ndview.Key{ndview.IntArray(nil), ndview.Mask(nil)} {
			_, err := a.Get(ndview.At(0), key)
			assert.ErrorIs(t, err, ndview.ErrDType)
			assert.ErrorIs(t, a.Set(1, key), ndview.ErrDType)
		}
		for _, key := range []ndview.Key{ndview.Ints(0), ndview.At(0), ndview.Mask(ndtest.FromHost(t, dev, ndview.Bool, []bool{true, false}, 2))} {
			assert.ErrorIs(t, a.Set(nil, key), ndview.ErrDType)
			assert.ErrorIs(t, a.Set((*ndview.NDBuffer)(nil), key), ndview.ErrDType)
		}
		assert.Equal(t, ndtest.Raw(count(6)...), ndtest.Elements(t, a))
		none, err := a.Get(ndview.Ints())
		ndtest.Own(t, none, err)
		assert.Equal(t, []int64{0, 3}, none.Shape())
	})
}

// maskOf uploads a mask whose true elements are various bytes other than 0.
func maskOf(t *testing.T, dev arrowbuf.Device, values []int64, skip int, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	bytes := make([]byte, skip+len(values))
	for i, v := range values {
		bytes[skip+i] = byte(v) << (i % 8)
	}
	return ndtest.At(t, ndtest.Upload(t, dev, bytes), ndview.Bool, int64(skip), shape...)
}

func TestNonZeroAndArgWhereMatchNumPy(t *testing.T) {
	cases := golden2(t, "nonzero")[0]
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			shape := field[[]int64](t, c[0])
			if field[string](t, c[1]) == "F" {
				slices.Reverse(shape)
			}
			mask := maskOf(t, dev, field[[]int64](t, c[2]), i%3, shape...)
			if field[string](t, c[1]) == "F" {
				transposed, err := mask.Transpose()
				mask = ndtest.Own(t, transposed, err)
			}
			want := field[[]int64](t, c[3])
			all, err := ndview.ArgWhere(mask)
			ndtest.Own(t, all, err)
			require.Equal(t, []int64{int64(len(want)) / int64(mask.NDim()), int64(mask.NDim())}, all.Shape())
			ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, all), "case", i, c)
			axes, err := ndview.NonZero(mask)
			require.NoError(t, err)
			require.Len(t, axes, mask.NDim())
			for k, a := range axes {
				ndtest.Own(t, a, nil)
				var along []int64
				for j := k; j < len(want); j += mask.NDim() {
					along = append(along, want[j])
				}
				ndtest.RequireBytes(t, ndtest.Raw(along...), ndtest.Elements(t, a), "case", i, "axis", k, c)
			}
		}
	})
}

// Masks have many tiles and several alignments; few, half or all of their elements are
// true.
func TestGetAndSetByLongMasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(8, 8))
		for skip, n := range []int64{4095, 4096, 4097, 70_001, 5_000_003} {
			for _, share := range []float64{0.003, 0.5, 1} {
				isTrue, source := make([]int64, n), make([]uint32, n)
				var selected []uint32
				for i := range isTrue {
					source[i] = r.Uint32()
					if r.Float64() < share {
						isTrue[i] = 1
						selected = append(selected, source[i])
					}
				}
				mask := maskOf(t, dev, isTrue, skip, n)
				a := ndtest.FromHost(t, dev, ndview.Uint32, source, n)
				got, err := a.Get(ndview.Mask(mask))
				ndtest.Own(t, got, err)
				ndtest.RequireBytes(t, ndtest.Raw(selected...), ndtest.Elements(t, got))

				values := make([]uint32, len(selected))
				for k := range values {
					values[k] = r.Uint32()
				}
				want, k := slices.Clone(source), 0
				for i, m := range isTrue {
					if m != 0 {
						want[i] = values[k]
						k++
					}
				}
				require.NoError(t, a.Set(ndtest.FromHost(t, dev, ndview.Uint32, values, int64(len(values))), ndview.Mask(mask)))
				ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, a))
				for i, m := range isTrue {
					if m != 0 {
						want[i] = 7
					}
				}
				require.NoError(t, a.Set(ndtest.FromHost(t, dev, ndview.Uint32, []uint32{7}), ndview.Mask(mask)))
				ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, a))
			}
		}
	})
}

func TestMasksOfWrongTypeShapeOrDeviceAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		_, err := a.Get(ndview.Mask(a))
		assert.ErrorIs(t, err, ndview.ErrDType)
		mask := maskOf(t, dev, []int64{1, 0, 1}, 0, 3)
		_, err = a.Get(ndview.Mask(mask))
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = a.Index(ndview.All, ndview.Mask(mask))
		assert.ErrorIs(t, err, ndview.ErrShape)
		elsewhere := maskOf(t, ndtest.OtherThan(t, dev), []int64{1, 0, 1}, 0, 3)
		_, err = a.Get(ndview.All, ndview.Mask(elsewhere))
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		_, err = ndview.Compress(elsewhere, a, 1)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		_, err = ndview.NonZero(ndtest.FromHost(t, dev, ndview.Bool, []bool{true}))
		assert.ErrorIs(t, err, ndview.ErrShape)
		row := ndtest.FromHost(t, dev, ndview.Int32, count(3), 3)
		three := ndtest.FromHost(t, dev, ndview.Int32, count(3), 3)
		assert.ErrorIs(t, row.Set(three, ndview.Mask(mask)), ndview.ErrShape)
		assert.Equal(t, ndtest.Raw[int32](0, 1, 2), ndtest.Elements(t, row))
	})
}

func TestSetReadsMasksAndValuesBeforeWriting(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Bool, []bool{true, false, true, true, false, true}, 6)
		low, err := a.Slice(0, 0, 5)
		ndtest.Own(t, low, err)
		high, err := a.Slice(0, 1, 6)
		ndtest.Own(t, high, err)
		not := ndtest.FromHost(t, dev, ndview.Bool, []bool{false})
		require.NoError(t, high.Set(not, ndview.Mask(low)))
		assert.Equal(t, ndtest.Raw(true, false, true, false, false, true), ndtest.Elements(t, a))
		require.NoError(t, a.Set(not, ndview.Mask(a)))
		assert.Equal(t, make([]byte, 6), ndtest.Elements(t, a))
	})
}

func TestElementsOtherThanZeroAreTrue(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float64, []float64{0, math.Copysign(0, -1), 2, math.NaN(), 5e-324, math.Inf(1)}, 2, 3)
		got, err := ndview.ArgWhere(a)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Raw[int64](0, 2, 1, 0, 1, 1, 1, 2), ndtest.Elements(t, got))
		row := ndtest.FromHost(t, dev, ndview.Int32, []int32{0, 256}, 2)
		kept, err := ndview.Compress(row, a, 0)
		ndtest.Own(t, kept, err)
		assert.Equal(t, ndtest.Elements(t, a)[24:], ndtest.Elements(t, kept))
	})
}
