package parquetcolumn

import (
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet/file"
)

// Levels are bytes of which 8 are compared at once. That takes their highest bits.
const (
	maxLevel = 127
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// atLeast returns 1 if a >= b, otherwise 0.
func atLeast(a, b byte) byte {
	if a >= b {
		return 1
	}
	return 0
}

// eachAtLeast sets the highest bit of each of 8 levels that is at least b, and no other
// bit. b is at most maxLevel + 1.
func eachAtLeast(levels uint64, b byte) uint64 {
	return ((levels | highBits) - uint64(b)*lowBits) & highBits
}

// countBelow returns how many levels are less than b.
func countBelow(levels []byte, b byte) int {
	n := len(levels)
	for ; len(levels) >= 8; levels = levels[8:] {
		n -= bits.OnesCount64(eachAtLeast(binary.LittleEndian.Uint64(levels), b))
	}
	for _, l := range levels {
		n -= int(atLeast(l, b))
	}
	return n
}

// countRows returns how many rows begin at repetition levels, at most limit, and how many
// levels there are before the row that would be one more.
func countRows(reps []byte, limit int64) (rows int64, n int) {
	for ; rows+8 <= limit && len(reps)-n >= 8; n += 8 {
		rows += 8 - int64(bits.OnesCount64(eachAtLeast(binary.LittleEndian.Uint64(reps[n:]), 1)))
	}
	for ; n < len(reps); n++ {
		if reps[n] == 0 {
			if rows == limit {
				break
			}
			rows++
		}
	}
	return rows, n
}

// findSlots writes 1 for each slot of a field whose definition level is at least present,
// and 0 for each other slot. It returns the number of slots and that of ones. Levels of
// lists around the field without elements, and of lists inside of it, have no slot. reps is
// empty outside of lists. valid has a byte more than defs.
func findSlots(valid, defs, reps []byte, info file.LevelInfo, present byte) (slots, ones int) {
	least, deepest := byte(info.RepeatedAncestorDefLevel), byte(info.RepLevel)
	at := 0
	for ; len(defs)-at >= 8; at += 8 {
		d, r := binary.LittleEndian.Uint64(defs[at:]), uint64(0)
		if len(reps) > 0 {
			r = binary.LittleEndian.Uint64(reps[at:])
		}
		has := eachAtLeast(d, present)
		of := eachAtLeast(d, least) &^ eachAtLeast(r, deepest+1)
		ones += bits.OnesCount64(has & of)
		if of == highBits {
			binary.LittleEndian.PutUint64(valid[slots:], has>>7)
			slots += 8
			continue
		}
		for range 8 { // without branches, which would be unpredictable
			valid[slots] = byte(has>>7) & 1
			slots += int(of>>7) & 1
			has, of = has>>8, of>>8
		}
	}
	for i, d := range defs[at:] {
		valid[slots] = atLeast(d, present)
		of := atLeast(d, least)
		if len(reps) > 0 {
			of &= atLeast(deepest, reps[at+i])
		}
		ones += int(valid[slots] & of)
		slots += int(of)
	}
	return slots, ones
}

// structSlots returns the number of slots of a struct, and for each 1 or 0, or nil if none
// is null. A struct without levels has those of its first field.
func (n *node) structSlots(fieldSlots int) (slots int, valid []byte) {
	if n.leaf.maxDef == 0 {
		return fieldSlots, nil
	}
	o := &n.leaf.out
	valid = resize(n.leaf.valid, len(o.defs)+1)
	n.leaf.valid = valid
	slots, _ = findSlots(valid, o.defs, o.reps, n.LevelInfo, byte(n.LevelInfo.DefLevel))
	return slots, valid[:slots]
}

// fillLists writes the offset of each list and that of the end, and 1 for each list that
// is not null, otherwise 0. It returns the number of lists and of their elements. Both
// outputs have room for a list more.
func fillLists[T uint32 | uint64](n *node, offsets []T, valid []byte) (lists int, elements int64) {
	defs, reps := n.leaf.out.defs, n.leaf.out.reps
	reps = reps[:len(defs)]
	info := n.LevelInfo
	least, present, level := byte(info.RepeatedAncestorDefLevel), byte(info.DefLevel), byte(info.RepLevel)
	total := T(0)
	at := 0
	for ; len(defs)-at >= 8; at += 8 {
		d, r := binary.LittleEndian.Uint64(defs[at:]), binary.LittleEndian.Uint64(reps[at:])
		// Others are of a list around it without elements, or of one inside of an element.
		of := eachAtLeast(d, least) &^ eachAtLeast(r, level+1)
		inside := of & eachAtLeast(d, present)
		for starts := of &^ eachAtLeast(r, level); starts != 0; starts &= starts - 1 {
			bit := bits.TrailingZeros64(starts)
			offsets[lists] = total + T(bits.OnesCount64(inside&(1<<bit-1)))
			valid[lists] = atLeast(defs[at+bit/8]+1, present)
			lists++
		}
		total += T(bits.OnesCount64(inside))
	}
	for i, d := range defs[at:] {
		rep := reps[at+i]
		of := atLeast(d, least) & atLeast(level, rep)
		offsets[lists], valid[lists] = total, atLeast(d+1, present)
		lists += int(of & ^atLeast(rep, level))
		total += T(of & atLeast(d, present))
	}
	offsets[lists] = total
	return lists, int64(total)
}
