package parquetencode

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// MaxDictionary is the most bytes of a dictionary page. Of a column with more, each page
// has the values.
const MaxDictionary = 1 << 20

// dictionary is values, and which of them each value of a column is.
type dictionary struct {
	*values
	indices []uint32
	// used are the different indices, if there are more values than those and the
	// values that are used do not fit a dictionary page.
	used []uint32
}

// indexWidth returns the bits of an index of a value.
func (v *values) indexWidth() int { return bits.Len(uint(max(v.n-1, 1))) }

// newDictionary returns the different values, in the order of the first of each. It
// returns nil if a dictionary takes more memory than the values. Its indices are in the
// scratch.
func newDictionary(v *values, s *scratch) *dictionary {
	s.indices = slices.Grow(s.indices[:0], v.n)
	var d *dictionary
	switch v.width {
	case 1:
		return nil // Booleans, or bytes that take no more than an index
	case 4:
		d = numberDictionary(v, view[uint32](v.bytes)[:v.n], s)
	case 8:
		d = numberDictionary(v, view[uint64](v.bytes)[:v.n], s)
	default:
		d = bytesDictionary(v, s.indices[:v.n])
	}
	if d == nil || d.size()+len(d.indices)*d.indexWidth()/8 >= v.size() {
		return nil
	}
	return d
}

// size returns the bytes of all values in a page.
func (v *values) size() int {
	if v.width > 0 {
		return v.n * v.width
	}
	return 4*v.n + int(v.offsets[v.n]-v.offsets[0])
}

// slots is a hash table with linear probing: numbers of values plus 1, and 0 where it is
// free. Its length is a power of 2.
type slots []uint32

// full reports whether a table of n values needs more slots.
func (s slots) full(n int) bool { return 2*n >= len(s) }

// A sample of random values with fewer repetitions than fewRepeats is of a column for which
// a dictionary does not pay. One of as many values as fit a page has 32 or more.
const sampleSize, fewRepeats = 4096, 12

// repeats returns how many of a sample of numbers repeat another.
func repeats[T uint32 | uint64](numbers []T) (n int) {
	const tableBits = 13
	var table [1 << tableBits]T
	var taken [1 << tableBits]bool
	step := uint64(len(numbers) / sampleSize)
	random := uint64(1)
	for i := range uint64(sampleSize) {
		random = random*6364136223846793005 + 1442695040888963407
		x := numbers[i*step+(random>>32)%step]
		at := uint64(x) * hashFactor >> (64 - tableBits)
		for taken[at] && table[at] != x {
			at = (at + 1) % uint64(len(table))
		}
		if taken[at] {
			n++
		}
		table[at], taken[at] = x, true
	}
	return n
}

// hashFactor spreads numbers over the high bits.
const hashFactor = 0x9e3779b97f4a7c15

// numberDictionary compares numbers bitwise.
func numberDictionary[T uint32 | uint64](v *values, numbers []T, s *scratch) *dictionary {
	if len(numbers) >= 4*sampleSize && repeats(numbers) < fewRepeats {
		return nil
	}
	width := int(unsafe.Sizeof(T(0)))
	most := min(len(numbers), MaxDictionary/width)
	different := make([]T, 0, 256)
	size := 1 << bits.Len(uint(2*most))
	s.slots = slices.Grow(s.slots[:0], size)[:size]
	table, shift := s.slots, 64-bits.Len(uint(size-1))
	clear(table)
	indices := s.indices[:len(numbers)]
	for i, x := range numbers {
		at := uint64(x) * hashFactor >> shift
		for table[at] != 0 && different[table[at]-1] != x {
			at = (at + 1) & uint64(len(table)-1)
		}
		if table[at] == 0 {
			if len(different) == most {
				return nil
			}
			different = append(different, x)
			table[at] = uint32(len(different))
		}
		indices[i] = table[at] - 1
	}
	return &dictionary{values: &values{n: len(different), width: v.width, bytes: bytesOf(different)}, indices: indices}
}

// bytesDictionary compares the bytes of values.
func bytesDictionary(v *values, indices []uint32) *dictionary {
	seed := maphash.MakeSeed()
	d := &dictionary{values: &values{width: v.width}, indices: indices}
	if v.width == 0 {
		d.offsets = []int64{0}
	}
	var hashes []uint64
	table := make(slots, 1<<10)
	resize := func(n int) {
		table = make(slots, n)
		for i, hash := range hashes {
			at := hash & uint64(n-1)
			for table[at] != 0 {
				at = (at + 1) & uint64(n-1)
			}
			table[at] = uint32(i + 1)
		}
	}
	for i := range v.n {
		x := v.value(i)
		hash := maphash.Bytes(seed, x)
		at := hash & uint64(len(table)-1)
		for table[at] != 0 && (hashes[table[at]-1] != hash || string(d.value(int(table[at]-1))) != string(x)) {
			at = (at + 1) & uint64(len(table)-1)
		}
		if table[at] == 0 {
			d.add(x)
			if d.size() > MaxDictionary {
				return nil
			}
			hashes = append(hashes, hash)
			table[at] = uint32(d.n)
			if table.full(d.n) {
				resize(4 * len(table))
				d.indices[i] = uint32(d.n - 1)
				continue
			}
		}
		d.indices[i] = table[at] - 1
	}
	return d
}

// add adds a value.
func (v *values) add(x []byte) {
	v.n++
	v.bytes = append(v.bytes, x...)
	if v.width == 0 {
		v.offsets = append(v.offsets, int64(len(v.bytes)))
	}
}

// dictionaryOf returns the values of a dictionary array that are used, in the order of the
// first of each. If they do not fit a dictionary page, it returns all values, and which
// are used, since copies could take any memory.
func dictionaryOf(a *array.Dictionary, column *schema.Column) (*dictionary, error) {
	all := a.Dictionary()
	stored, err := valuesOf(all, column)
	if err != nil {
		return nil, err
	}
	if stored.n != all.Len() {
		return nil, fmt.Errorf("a dictionary with nulls among its values: %w", arrowdata.ErrMalformed)
	}
	d := &dictionary{values: &values{width: stored.width}, indices: make([]uint32, 0, a.Len()-a.NullN())}
	order := []uint32{}                 // the used values
	numbers := make([]uint32, stored.n) // of used values, plus 1
	size := 0
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		index := a.GetValueIndex(i)
		if index < 0 || index >= stored.n {
			return nil, fmt.Errorf("index %d of a dictionary of %d values: %w", index, stored.n, arrowdata.ErrMalformed)
		}
		if numbers[index] == 0 {
			order = append(order, uint32(index))
			numbers[index] = uint32(len(order))
			size += stored.sizeOf(index)
		}
		d.indices = append(d.indices, numbers[index]-1)
	}
	if size <= MaxDictionary {
		d.values = stored.take(order)
		return d, nil
	}
	d.values, d.used = stored, order
	for i, n := range d.indices {
		d.indices[i] = order[n]
	}
	return d, nil
}

// sizeOf returns the bytes of value i in a page.
func (v *values) sizeOf(i int) int {
	if v.width > 0 {
		return v.width
	}
	return 4 + len(v.value(i))
}

// take returns a copy of the values at positions, or all values if the positions are nil.
func (v *values) take(positions []uint32) *values {
	if positions == nil {
		return v
	}
	taken := &values{width: v.width}
	if v.width == 0 {
		taken.offsets = make([]int64, 1, len(positions)+1)
	}
	for _, i := range positions {
		taken.add(v.value(int(i)))
	}
	return taken
}
