package reduce

import (
	"math"
	"sync"
	"unsafe"
)

// place is a greatest element and the number of its step.
type place[W any] struct {
	best   W
	number int64
}

// nowhere is the number of no step.
const nowhere = math.MaxInt64

func (p *place[W]) renumber(by, plus int64) {
	if p.number != nowhere {
		p.number = p.number*by + plus
	}
}

func storePlaces[W any](acc []place[W], out results, _ *Finish) {
	write(out, acc, func(p place[W]) int64 { return p.number })
}

// better makes p a place that is better.
func better[S signed](p *place[S], best S, number int64) {
	if best > p.best || best == p.best && number < p.number {
		p.best, p.number = best, number
	}
}

// searched is how many bytes are looked through again for their greatest.
const searched = 64 << 10

// argMaxima finds where the first of the greatest elements is. Its keys are alike
// where elements are.
func argMaxima[U unsigned, S signed](k keying[U, S]) *Reducer {
	blocks := newScratch()
	tables := &sync.Pool{New: func() any { return new(columns) }}
	return operation[U, place[S]]{
		none: place[S]{best: lowest[S](), number: nowhere},
		along: func(acc *place[S], x []U, number int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			for first := 0; first < len(x); {
				// Where the greatest is does not matter before it is a new one, which
				// soon becomes rare.
				part := x[first:min(first+searched/k.size(), len(x))]
				best := k.greatestOf(lowest[S](), part, f, block)
				if best > acc.best || acc.number == nowhere {
					*acc = place[S]{best, number + int64(first+k.find(best, part, f, block))}
				}
				first += len(part)
			}
			blocks.Put(block)
		},
		across: func(acc []place[S], x grid[U], number int64, f *Finish) {
			block, _ := tables.Get().(*columns)
			argAcross(k, block, acc, x, number, f)
			tables.Put(block)
		},
		merge:  each(func(acc, other *place[S]) { better(acc, other.best, other.number) }),
		number: func(acc *place[S], by, plus int64) { acc.renumber(by, plus) },
		store:  storePlaces[S],
	}.reducer()
}

// columns is memory for the greatest of some columns, for the rows where those
// are, and for keys.
type columns struct{ best, at, keys scratch }

// argAcross is across of argMaxima. It counts rows in integers of the size of a
// key, as many of them as such integers count.
func argAcross[U unsigned, S signed](k keying[U, S], block *columns, acc []place[S], x grid[U], number int64, f *Finish) {
	count := min(int64(^lowest[S]()), math.MaxInt16)
	for first := 0; first < len(acc); first += fit[S]() {
		last := min(first+fit[S](), len(acc))
		best := unsafe.Slice((*S)(unsafe.Pointer(&block.best)), last-first)
		at := unsafe.Slice((*S)(unsafe.Pointer(&block.at)), last-first)
		for row := int64(0); row < x.rows; row += count {
			copy(best, k.of(x.row(row)[first:last], f, &block.keys))
			clear(at)
			for r := int64(1); r < min(count, x.rows-row); r++ {
				eachPlace(best, at, k.of(x.row(row + r)[first:last], f, &block.keys), S(r))
			}
			for i, b := range best {
				better(&acc[first+i], b, number+row+int64(at[i]))
			}
		}
	}
}

// eachPlace makes each of best the greater of it and its key, and puts row down
// where that is the key.
func eachPlace[S signed](best, at, keys []S, row S) {
	best, at = best[:len(keys)], at[:len(keys)]
	for i := eachPlaceVectors(best, at, keys, row); i < len(keys); i++ {
		if keys[i] > best[i] {
			best[i], at[i] = keys[i], row
		}
	}
}

// find is where the first of x is whose key is w, which must be there.
func (k keying[U, S]) find(w S, x []U, f *Finish, block *scratch) int {
	for at := 0; ; {
		keys := k.of(x[at:], f, block)
		for i := findVectors(w, keys); i < len(keys); i++ {
			if keys[i] == w {
				return at + i
			}
		}
		at += len(keys)
	}
}
