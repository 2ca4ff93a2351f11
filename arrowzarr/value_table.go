package arrowzarr

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"sync"
)

// valueTable numbers distinct keys in the order in which they are added. Beside the keys
// it takes 12 to 23 bytes per key, and the garbage collector has few pointers to follow.
// Keys for which the memory has no room are in a temporary file.
//
// A goroutine that uses the table must hold mu.
type valueTable struct {
	mu     sync.Mutex
	memory *categoryMemory
	seed   maphash.Seed
	// slots are a hash table with linear probing: 32 bits of a key's hash, and its number
	// plus 1; 0 is free. Their length is a power of 2. The hash also says where probing
	// begins, so the table grows without reading the keys.
	slots   []uint64
	count   int64
	marks   []int64 // the position of every keysPerMark-th key in keys
	keys    keyLog  // each after its length
	found   keyReader
	fetched uint64 // of no use but to keep the reads of fetch
}

// maxTableKeys is the most keys of a table: a slot has 32 bits for a number.
const maxTableKeys = math.MaxUint32 - 1

const keysPerMark = 16

// newValueTable returns an empty table. Nil memory has no limit.
func newValueTable(m *categoryMemory) *valueTable {
	t := &valueTable{memory: m, seed: maphash.MakeSeed(), slots: make([]uint64, 16), keys: keyLog{memory: m}}
	t.found = keyReader{log: &t.keys, ahead: 64 * keysPerMark}
	return t
}

// len returns the number of keys.
func (t *valueTable) len() int64 { return t.count }

// tablePlace is where a key that a table does not have would be.
type tablePlace struct{ hash, slot uint64 }

// find returns the number of a key, or -1 and the place to add it at.
func (t *valueTable) find(key []byte) (number int64, place tablePlace, err error) {
	return t.findHashed(key, t.hash(key))
}

// hash returns the hash of a key.
func (t *valueTable) hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) >> 32 }

// fetch reads the slots of hashes. Each is a cache miss in a large table, and the processor
// waits for several at once here, but not in find.
func (t *valueTable) fetch(hashes []uint64) {
	mask := uint64(len(t.slots) - 1)
	for _, hash := range hashes {
		t.fetched |= t.slots[hash&mask]
	}
}

// findHashed is find of a key whose hash is known.
func (t *valueTable) findHashed(key []byte, hash uint64) (number int64, place tablePlace, err error) {
	mask := uint64(len(t.slots) - 1)
	slot := hash & mask
	for ; t.slots[slot] != 0; slot = (slot + 1) & mask {
		if found := t.slots[slot]; found>>32 == hash {
			number = int64(found&math.MaxUint32) - 1
			same, err := t.key(number)
			if err != nil {
				return 0, tablePlace{}, err
			}
			if bytes.Equal(same, key) {
				return number, tablePlace{}, nil
			}
		}
	}
	return -1, tablePlace{hash, slot}, nil
}

// add adds a key that find did not know, at its place, and returns its number. The table
// must have less than maxTableKeys keys.
func (t *valueTable) add(key []byte, place tablePlace) (int64, error) {
	number := t.count
	if number%keysPerMark == 0 {
		if err := t.reserve(16); err != nil { // append keeps about as much again
			return 0, err
		}
		t.marks = append(t.marks, t.keys.length)
	}
	var length [binary.MaxVarintLen64]byte
	if err := t.keys.append(binary.AppendUvarint(length[:0], uint64(len(key)))); err != nil {
		return 0, err
	}
	if err := t.keys.append(key); err != nil {
		return 0, err
	}
	t.slots[place.slot] = place.hash<<32 | uint64(number+1)
	t.count++
	if 4*t.count > 3*int64(len(t.slots)) {
		return number, t.rehash()
	}
	return number, nil
}

// number returns the number of a key, which it adds unless the table has it.
func (t *valueTable) number(key []byte) (int64, error) {
	number, place, err := t.find(key)
	if err != nil || number >= 0 {
		return number, err
	}
	return t.add(key, place)
}

// reserve reserves memory for slots and marks.
func (t *valueTable) reserve(n int64) error {
	if t.memory.tryReserve(n) {
		return nil
	}
	if err := t.keys.spill(); err != nil {
		return err
	}
	if !t.memory.tryReserve(n) {
		return t.memory.full()
	}
	return nil
}

// key returns the bytes of a key until the next call.
func (t *valueTable) key(number int64) ([]byte, error) {
	if err := t.seek(&t.found, number); err != nil {
		return nil, err
	}
	return t.found.next()
}

// seek makes a reader continue with a key.
func (t *valueTable) seek(r *keyReader, number int64) error {
	r.seek(t.marks[number/keysPerMark])
	for range number % keysPerMark {
		if _, err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

// reader returns a reader of all keys.
func (t *valueTable) reader() *keyReader { return &keyReader{log: &t.keys, ahead: keyBlockBytes} }

// appendKeys appends keys of [from, to), each after its length, until there are about most
// bytes. It returns the first key that is left.
func (t *valueTable) appendKeys(content []byte, from, to int64, most int) ([]byte, int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.reader()
	if err := t.seek(r, from); err != nil {
		return nil, 0, err
	}
	for ; from < to && len(content) < most; from++ {
		key, err := r.next()
		if err != nil {
			return nil, 0, err
		}
		content = append(binary.AppendUvarint(content, uint64(len(key))), key...)
	}
	return content, from, nil
}

// expect makes room for n more keys, if the table is empty and the memory has room.
// Growing step by step takes as long as adding the keys.
func (t *valueTable) expect(n int64) {
	slots := int64(len(t.slots))
	for 4*n > 3*slots {
		slots *= 2
	}
	if t.count == 0 && slots > int64(len(t.slots)) && t.memory.tryReserve(8*slots) {
		t.setSlots(make([]uint64, slots))
	}
}

// rehash doubles the number of slots.
func (t *valueTable) rehash() error {
	if err := t.reserve(16 * int64(len(t.slots))); err != nil {
		return err
	}
	slots := make([]uint64, 2*len(t.slots))
	mask := uint64(len(slots) - 1)
	for _, entry := range t.slots {
		if entry == 0 {
			continue
		}
		slot := entry >> 32 & mask
		for slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		slots[slot] = entry
	}
	t.setSlots(slots)
	return nil
}

// setSlots replaces the slots by others whose memory is reserved.
func (t *valueTable) setSlots(slots []uint64) {
	if len(t.slots) > 16 { // the first ones are not reserved
		t.memory.release(8 * int64(len(t.slots)))
	}
	t.slots = slots
}

// close releases the memory and the file of the table, which must not be used afterwards.
func (t *valueTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.slots) > 16 {
		t.memory.release(8 * int64(len(t.slots)))
	}
	t.memory.release(16 * int64(len(t.marks)))
	t.slots, t.marks = nil, nil
	t.keys.close()
}
