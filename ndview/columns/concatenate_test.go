package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// requireJoined checks that an array is others, one behind the other.
func requireJoined(t testing.TB, parts []arrow.Array, got arrow.Array) {
	t.Helper()
	require.True(t, arrow.TypeEqual(parts[0].DataType(), got.DataType()), got.DataType())
	at := 0
	for _, part := range parts {
		require.LessOrEqual(t, at+part.Len(), got.Len())
		requireElementsAt(t, part, upTo(part.Len()), got, at)
		at += part.Len()
	}
	require.Equal(t, at, got.Len())
}

func TestConcatenateOfAllTypes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 8 {
				m := newMaker(t, seed, seed%2 == 0)
				var parts, moved []arrow.Array
				for range 1 + m.rng.IntN(4) {
					m.nulls = seed%2 == 0 && m.rng.IntN(3) > 0
					n := []int{0, 1, 31, 64, 100}[m.rng.IntN(5)]
					part := m.array(dtype, n, m.rng.IntN(2) == 0)
					parts, moved = append(parts, part), append(moved, on(t, dev, part))
					if m.rng.IntN(2) == 0 { // and a slice of the same array
						from := m.rng.IntN(n + 1)
						parts = append(parts, array.NewSlice(part, int64(from), int64(n)))
						moved = append(moved, arrowbuf.NewSlice(moved[len(moved)-1], int64(from), int64(n)))
						t.Cleanup(parts[len(parts)-1].Release)
						t.Cleanup(moved[len(moved)-1].Release)
					}
				}
				got, err := columns.Concatenate(moved...)
				requireJoined(t, parts, toHost(t, dev, got, err))
			}
		}
	})
}
