// Package trace generates sequences of allocations that benchmarks replay. Every
// language that follows these rules, with 64-bit unsigned integers that wrap,
// generates the same sequences:
//
//	next():                     # splitmix64; the initial state is the seed
//	    state += 0x9E3779B97F4A7C15
//	    z = state
//	    z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
//	    z = (z ^ z>>27) * 0x94D049BB133111EB
//	    return z ^ z>>31
//
//	for i = 0 ... allocations-1:
//	    if i % 65536 == 0: level = live/2 + next() % (live/2)
//	    Uniform:  e = 9 + next() % 17
//	    Mixed:    if next() % 100 < 95: e = 9 + next() % 7
//	              else:                 e = 20 + next() % 6
//	    size = 2^e + next() % 2^e
//	    while bytes of all live + size > level and any live:
//	        j = next() % number of live
//	        free the j-th live allocation; move the last one to its index
//	    allocate size; append it to the live allocations
//
// At the end all live allocations are freed, from the last to the first.
package trace

import "slices"

// Sizes is a distribution of sizes.
type Sizes int

const (
	// Uniform sizes are in [512 B, 64 MiB), with equally likely powers of two.
	Uniform Sizes = iota
	// Mixed sizes are below 64 KiB, 19 of 20, or in [1 MiB, 64 MiB).
	Mixed
)

// String returns the name in lower case.
func (s Sizes) String() string {
	if s == Uniform {
		return "uniform"
	}
	return "mixed"
}

// Trace is a sequence of allocations and frees. The live bytes stay below a
// level between half of Live and Live, which changes every 65536 allocations.
type Trace struct {
	Seed        uint64
	Sizes       Sizes
	Allocations int
	Live        int64
}

// Run replays a trace. It numbers allocations from 0, and stops at the first
// error.
func (t Trace) Run(alloc func(i int, size int64) error, free func(i int) error) error {
	type block struct {
		i    int
		size int64
	}
	var live []block
	var bytes, level int64
	random := splitmix(t.Seed)
	for i := range t.Allocations {
		if i%65536 == 0 {
			level = t.Live/2 + int64(random.next()%uint64(t.Live/2))
		}
		size := random.size(t.Sizes)
		for bytes+size > level && len(live) > 0 {
			j, last := int(random.next()%uint64(len(live))), len(live)-1
			if err := free(live[j].i); err != nil {
				return err
			}
			bytes -= live[j].size
			live[j] = live[last]
			live = live[:last]
		}
		if err := alloc(i, size); err != nil {
			return err
		}
		live = append(live, block{i, size})
		bytes += size
	}
	for _, b := range slices.Backward(live) {
		if err := free(b.i); err != nil {
			return err
		}
	}
	return nil
}

type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (s *splitmix) size(sizes Sizes) int64 {
	var e uint64
	switch {
	case sizes == Uniform:
		e = 9 + s.next()%17
	case s.next()%100 < 95:
		e = 9 + s.next()%7
	default:
		e = 20 + s.next()%6
	}
	return int64(1<<e + s.next()%(1<<e))
}
