package arrowzarr

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValueTableNumbersKeysLikeAMap(t *testing.T) {
	tests := map[string]*categoryMemory{"in memory": nil, "in a file": newCategoryMemory(6 << 20)}
	for name, memory := range tests {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			table, want := newValueTable(memory), map[string]int64{}
			keys := 200_000
			if testing.Short() {
				keys = 60_000
			}
			for range keys {
				// Keys repeat, differ in length, and some are longer than a block.
				key := binary.AppendUvarint(nil, rng.Uint64N(50_000))
				if rng.IntN(20_000) == 0 {
					key = bytes.Repeat(key, keyBlockBytes)
				}
				if key[0] == 7 {
					key = nil
				}
				number, place, err := table.find(key)
				require.NoError(t, err)
				expected, before := want[string(key)]
				require.Equal(t, before, number >= 0)
				if !before {
					expected = int64(len(want))
					want[string(key)] = expected
					number, err = table.add(key, place)
					require.NoError(t, err)
				}
				require.Equal(t, expected, number)
			}
			require.Equal(t, memory != nil, table.keys.file != nil)
			require.Equal(t, int64(len(want)), table.len())
			all := table.reader()
			for number := range table.len() {
				key, err := all.next()
				require.NoError(t, err)
				require.Equal(t, number, want[string(key)])
			}
			copied, joined := newValueTable(nil), []byte(nil)
			for from := int64(0); from < table.len(); {
				var err error
				joined, from, err = table.appendKeys(joined[:0], from, table.len(), 1000)
				require.NoError(t, err)
				require.NoError(t, loadKeys(copied, joined, maxTableKeys))
			}
			require.Equal(t, table.len(), copied.len())
			table.close()
			if memory != nil {
				require.True(t, memory.tryReserve(memory.size), "all memory is released")
			}
		})
	}
}

func TestValueTableReportsThatItsMemoryIsFull(t *testing.T) {
	table := newValueTable(newCategoryMemory(1 << 20))
	defer table.close()
	var err error
	for i := uint64(0); err == nil && i < 1_000_000; i++ {
		_, err = table.number(binary.LittleEndian.AppendUint64(nil, i))
	}
	require.ErrorContains(t, err, "raise --max-memory")
	require.Greater(t, table.len(), int64(20_000))
}
