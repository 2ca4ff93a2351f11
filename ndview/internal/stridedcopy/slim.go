package stridedcopy

import "math/bits"

// longestSide is the logarithm of the longest side of a slim tile.
const longestSide = 9

// slim chooses a tile's sides by those of the nest: slimmer along a side that has few items, and longer
// along the other.
func (t *Tiles) slim(width int64) {
	t.LogA, t.LogB = 6, 6
	switch width {
	case 8:
		t.LogB = 5
	case 16:
		t.LogA, t.LogB = 5, 5
	}
	most := t.LogA + t.LogB
	logA, logB := log(t.ItemsA), log(t.ItemsB)
	t.LogA, t.LogB = min(t.LogA, logA), min(t.LogB, logB)
	t.LogA = min(max(t.LogA, most-t.LogB), logA, longestSide)
	t.LogB = min(max(t.LogB, most-t.LogA), logB, longestSide)
	t.cut(tileSize{1 << t.LogA, 1 << t.LogB})
}

// log is the logarithm to the base of 2 of the next power of two.
func log(n int32) int32 { return int32(bits.Len32(uint32(n - 1))) }
