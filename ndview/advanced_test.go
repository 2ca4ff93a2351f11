package ndview_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// goldenKeys are the keys of a case. Indices of one axis are passed from the host
// where plain says so.
func goldenKeys(t *testing.T, dev arrowbuf.Device, text json.RawMessage, plain bool) (keys []ndview.Key) {
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
			if plain && len(shape) == 1 {
				keys = append(keys, ndview.Ints(values...))
			} else {
				keys = append(keys, ndview.IntArray(integers(t, dev, indexTypes[field[string](t, k[3])], values, shape)))
			}
		case "mask":
			mask := integers(t, dev, ndview.Uint8, field[[]int64](t, k[2]), field[[]int64](t, k[1]))
			truths, err := mask.View(ndview.Bool)
			keys = append(keys, ndview.Mask(own(t, truths, err)))
		default:
			require.Fail(t, "unknown key", kind)
		}
	}
	return keys
}

func TestGetByArraysIsNumPys(t *testing.T) {
	cases := golden2(t, "advanced")[0]
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
			own(t, got, nil)
			require.Equal(t, field[[]int64](t, c[2]), append([]int64{}, got.Shape()...), "case %d: %s", i, c)
			requireBytes(t, patterns(dtype, field[[]int64](t, c[3])), elements(t, got), "case", i, c)
			require.True(t, got.IsContiguous())
		}
	})
}

// isIndexError tells whether an error is what NumPy's IndexError is here.
func isIndexError(err error) bool {
	return errors.Is(err, arrowbuf.ErrOutOfRange) || errors.Is(err, ndview.ErrShape)
}

func TestSetInManyLaunchesIsNumPys(t *testing.T) {
	ndview.CutWalks(t, 3)
	TestSetByArraysIsNumPys(t)
}

func TestSetByArraysIsNumPys(t *testing.T) {
	cases := golden2(t, "advanced")[1]
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			skip := int64(i % 5 / 4)
			parts := field[[3]json.RawMessage](t, c[0])
			a := goldenView(t, dev, dtype, skip, field[int64](t, parts[0]), field[[]int64](t, parts[1]), field[[]int64](t, parts[2]))
			want := download(t, a.Buffer())
			values := at(t, upload(t, dev, append(poisoned(i%7), patterns(dtype, field[[]int64](t, c[3]))...)), dtype, int64(i%7), field[[]int64](t, c[2])...)
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
			requireBytes(t, want, download(t, a.Buffer()), "case", i, c)
		}
	})
}

func TestKeysOfNoArrayAreErrDType(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(6), 2, 3)
		for _, key := range []ndview.Key{ndview.IntArray(nil), ndview.Mask(nil)} {
			_, err := a.Get(ndview.At(0), key)
			assert.ErrorIs(t, err, ndview.ErrDType)
			assert.ErrorIs(t, a.Set(1, key), ndview.ErrDType)
		}
		for _, key := range []ndview.Key{ndview.Ints(0), ndview.At(0), ndview.Mask(fromHost(t, dev, ndview.Bool, []bool{true, false}, 2))} {
			assert.ErrorIs(t, a.Set(nil, key), ndview.ErrDType)
			assert.ErrorIs(t, a.Set((*ndview.NDBuffer)(nil), key), ndview.ErrDType)
		}
		assert.Equal(t, raw(count(6)...), elements(t, a))
		none, err := a.Get(ndview.Ints())
		own(t, none, err)
		assert.Equal(t, []int64{0, 3}, none.Shape())
	})
}
