package arrowzarr

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValueTableNumbersKeysLikeAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table, want := newValueTable(), map[string]int64{}
	for range 200_000 {
		// Keys repeat, differ in length, and some are longer than a block.
		key := binary.AppendUvarint(nil, rng.Uint64N(50_000))
		if rng.IntN(20_000) == 0 {
			key = bytes.Repeat(key, keyBlockBytes)
		}
		if key[0] == 7 {
			key = nil
		}
		number, known, place := table.find(key)
		expected, before := want[string(key)]
		require.Equal(t, before, known)
		if !known {
			expected = int64(len(want))
			want[string(key)] = expected
			number = table.add(key, place)
		}
		require.Equal(t, expected, number)
	}
	require.Equal(t, int64(len(want)), table.len())
	number := int64(0)
	for key := range table.keys() {
		require.Equal(t, number, want[string(key)])
		number++
	}
	require.Equal(t, table.len(), number)
}
