package arrowzarr

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math"
)

// valueTable numbers distinct keys in the order in which they are added. It takes about
// 40 bytes per key beside the key's own, a fraction of what a map of strings takes, and
// the garbage collector has few pointers to follow.
type valueTable struct {
	seed maphash.Seed
	// slots are a hash table with linear probing: the upper half of a key's hash, and its
	// number plus 1; 0 is free. Their number is a power of 2.
	slots []uint64
	// at is where each key is: the block, and the position in it.
	at []uint64
	// blocks are the keys, each after its length. A block never moves.
	blocks [][]byte
}

// keyBlockBytes is the size of a block of keys. A longer key has a block of its own.
const keyBlockBytes = 256 << 10

// maxTableKeys is the most keys of a table: a slot has 32 bits for a number.
const maxTableKeys = math.MaxUint32 - 1

func newValueTable() *valueTable {
	return &valueTable{seed: maphash.MakeSeed(), slots: make([]uint64, 16)}
}

// len returns the number of keys.
func (t *valueTable) len() int64 { return int64(len(t.at)) }

// tablePlace is where a key that a table does not have would be.
type tablePlace struct{ hash, slot uint64 }

// find returns the number of a key, or the place to add it at.
func (t *valueTable) find(key []byte) (number int64, known bool, place tablePlace) {
	hash := maphash.Bytes(t.seed, key)
	mask := uint64(len(t.slots) - 1)
	slot := hash & mask
	for ; t.slots[slot] != 0; slot = (slot + 1) & mask {
		if found := t.slots[slot]; found>>32 == hash>>32 {
			if number = int64(found&math.MaxUint32) - 1; bytes.Equal(t.key(number), key) {
				return number, true, tablePlace{}
			}
		}
	}
	return 0, false, tablePlace{hash, slot}
}

// add adds a key that find did not know, at its place, and returns its number. The table
// must have less than maxTableKeys keys.
func (t *valueTable) add(key []byte, place tablePlace) int64 {
	number := int64(len(t.at))
	t.slots[place.slot] = place.hash>>32<<32 | uint64(number+1)
	t.at = append(t.at, t.keep(key))
	if 4*len(t.at) > 3*len(t.slots) {
		t.rehash()
	}
	return number
}

// keep copies a key to a block, and returns where it is.
func (t *valueTable) keep(key []byte) uint64 {
	need := len(key) + binary.MaxVarintLen64
	last := len(t.blocks) - 1
	if last < 0 || cap(t.blocks[last])-len(t.blocks[last]) < need {
		t.blocks = append(t.blocks, make([]byte, 0, max(need, keyBlockBytes)))
		last++
	}
	at := uint64(last)<<32 | uint64(len(t.blocks[last]))
	t.blocks[last] = append(binary.AppendUvarint(t.blocks[last], uint64(len(key))), key...)
	return at
}

// key returns the bytes of a key, which must not be changed.
func (t *valueTable) key(number int64) []byte {
	at := t.at[number]
	block := t.blocks[at>>32][at&math.MaxUint32:]
	length, n := binary.Uvarint(block)
	return block[n : n+int(length)]
}

// rehash doubles the number of slots.
func (t *valueTable) rehash() {
	slots := make([]uint64, 2*len(t.slots))
	mask := uint64(len(slots) - 1)
	for number := range t.at {
		hash := maphash.Bytes(t.seed, t.key(int64(number)))
		slot := hash & mask
		for slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		slots[slot] = hash>>32<<32 | uint64(number+1)
	}
	t.slots = slots
}

// keys returns all keys in order.
func (t *valueTable) keys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for number := range t.at {
			if !yield(t.key(int64(number))) {
				return
			}
		}
	}
}
