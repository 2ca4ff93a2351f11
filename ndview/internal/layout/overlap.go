package layout

import (
	"cmp"
	"math/bits"
	"slices"
)

// Overlap tells whether two arrays have a byte in common. The answer is exact:
// it is no matter of extents only, so the even and the odd columns of a matrix
// do not overlap. One bound is kept on the search: layouts contrived so that it
// would take seconds are said to overlap.
func Overlap(a, b Run) bool {
	if Product(a.Shape) == 0 || Product(b.Shape) == 0 {
		return false
	}
	lowA, highA, _ := Extent(a.Size, a.Offset, a.Shape, a.Strides)
	lowB, highB, _ := Extent(b.Size, b.Offset, b.Shape, b.Strides)
	if highA <= lowB || highB <= lowA {
		return false
	}
	// With every axis turned to rise, a byte of a is lowA + Σ sᵢxᵢ + p, one of b
	// is lowB + Σ tⱼyⱼ + q. Counting y from the other end, y = last - y', makes
	// all signs of "they are equal" positive: Σ sᵢxᵢ + Σ tⱼy'ⱼ is to be
	// lowB - lowA + Σ tⱼlastⱼ + q - p, with -a.Size < q-p < b.Size.
	terms := append(steps(a), steps(b)...)
	middle := (highB - b.Size) - lowA
	return reaches(terms, middle-a.Size+1, middle+b.Size-1)
}

// steps are the axes along which an array has more than one element, all taken
// to rise.
func steps(r Run) []term {
	var out []term
	for i, d := range r.Shape {
		if d > 1 {
			out = append(out, term{magnitude(r.Strides[i]), d - 1})
		}
	}
	return out
}

// term is a step that can be taken 0 to count times.
type term struct{ step, count int64 }

// patience is the number of steps of a search after which reaches gives up:
// about a second.
const patience = 1 << 21

// reaches tells whether some sum of the terms lies in [low, high]: a bounded
// linear Diophantine problem. It is hard in general (it contains the problem of
// the knapsack), but the strides of arrays nest, and what nests is cut in two
// parts that are solved apart. Where that does not help and patience ends, the
// answer is true.
func reaches(terms []term, low, high int64) bool {
	s := search{patience: patience}
	return s.reaches(slices.Clone(terms), low, high)
}

type search struct{ patience int }

// reaches may change terms.
func (s *search) reaches(terms []term, low, high int64) bool {
	if s.patience--; s.patience < 0 {
		return true
	}
	terms, low, high = simplify(terms, low, high)
	total := sum(terms)
	switch {
	case low > high || high < 0 || low > total:
		return false
	case low <= 0 || high >= total:
		return true // nothing, or everything, is taken
	case len(terms) == 1:
		return high/terms[0].step*terms[0].step >= low
	case len(terms) == 2:
		return pair(terms[0], terms[1], low, high)
	}
	return s.split(terms, low, high)
}

// split cuts the terms, which fall, into the first k and the rest. The sums of
// the first are multiples of their common divisor, and the rest do not reach
// far, so there may be few multiples to try; else the counts of one term are
// tried.
func (s *search) split(terms []term, low, high int64) bool {
	fewest, k, divisor := int64(-1), 0, int64(0)
	rest, g := sum(terms), int64(0)
	for i, t := range terms[:len(terms)-1] {
		rest -= t.step * t.count
		g = gcd(g, t.step)
		first := max(ceilDiv(low-rest, g), 0)
		if n := high/g - first + 1; fewest < 0 || n < fewest {
			fewest, k, divisor = n, i+1, g
		}
	}
	one := 0
	for i, t := range terms {
		if t.count < terms[one].count {
			one = i
		}
	}
	if t := terms[one]; t.count+1 < fewest {
		others := slices.Delete(slices.Clone(terms), one, one+1)
		for n := range t.count + 1 {
			if s.reaches(slices.Clone(others), low-n*t.step, high-n*t.step) {
				return true
			}
		}
		return false
	}
	top, bottom := terms[:k], terms[k:]
	last := min(high, sum(top))
	for v := max(ceilDiv(low-sum(bottom), divisor), 0) * divisor; v <= last; v += divisor {
		if s.reaches(slices.Clone(bottom), low-v, high-v) && s.reaches(slices.Clone(top), v, v) {
			return true
		}
	}
	return false
}

// simplify gives an equal problem with fewer or smaller terms, the largest
// first: equal steps are one term, a step no longer than the window lets the
// window slide without gaps, and a common divisor is divided out.
func simplify(terms []term, low, high int64) ([]term, int64, int64) {
	slices.SortFunc(terms, func(a, b term) int { return cmp.Compare(a.step, b.step) })
	for changed := true; changed && low <= high; {
		changed = false
		out, g := terms[:0], int64(0)
		for _, t := range terms {
			switch {
			case t.step == 0 || t.count == 0:
			case t.step <= high-low+1:
				low -= t.step * t.count
				changed = true
			case len(out) > 0 && out[len(out)-1].step == t.step:
				out[len(out)-1].count += t.count
			default:
				out = append(out, t)
				g = gcd(g, t.step)
			}
		}
		terms = out
		if g > 1 {
			low, high = ceilDiv(low, g), floorDiv(high, g)
			for i := range terms {
				terms[i].step /= g
			}
			changed = true
		}
	}
	slices.Reverse(terms)
	return terms, low, high
}

// pair is reaches for two terms, 0 < low and high < their sum. For each count x
// of a, b must reach [low-ax, high-ax].
func pair(a, b term, low, high int64) bool {
	first := max(ceilDiv(low-b.step*b.count, a.step), 0)
	last := min(high/a.step, a.count)
	if first > last {
		return false
	}
	if low <= a.step*last || high-a.step*first >= b.step*b.count {
		return true // with none of b, or with all
	}
	// Between these ends b's count is no bound: (high - ax) mod b <= high - low.
	window := high - low
	if window >= b.step-1 {
		return true
	}
	start := floorMod(high-a.step*first, b.step)
	if start <= window {
		return true
	}
	from := b.step - start // (-ax) mod b is to lie in [from, from+window]
	x, ok := firstInRange(b.step-floorMod(a.step, b.step), b.step, from, from+window)
	return ok && x <= last-first
}

// firstInRange is the smallest x >= 0 with a·x mod m in [low, high], for
// 0 <= a <= m and 0 < low <= high < m. It descends as Euclid's algorithm does.
func firstInRange(a, m, low, high int64) (int64, bool) {
	a %= m
	if a == 0 {
		return 0, false
	}
	if a > m-a {
		return firstInRange(m-a, m, m-high, m-low)
	}
	if x := ceilDiv(low, a); x <= high/a {
		return x, true
	}
	// ax - my in [low, high]: the smallest y has my mod a in [-high, -low] mod a.
	y, ok := firstInRange(m%a, a, floorMod(-high, a), floorMod(-low, a))
	if !ok {
		return 0, false
	}
	above, below := bits.Mul64(uint64(m), uint64(y))
	below, carry := bits.Add64(below, uint64(low+a-1), 0)
	x, _ := bits.Div64(above+carry, below, uint64(a))
	return int64(x), true
}

func sum(terms []term) int64 {
	n := int64(0)
	for _, t := range terms {
		n += t.step * t.count
	}
	return n
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func floorMod(a, m int64) int64 { return ((a % m) + m) % m }

func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// Overlaps tells whether two different elements of an array have a byte in
// common, as those of a broadcast array do, so that the order of writes to it
// matters. It is exact as Overlap is.
func (r Run) Overlaps() bool {
	if Product(r.Shape) == 0 {
		return false
	}
	axes := steps(r)
	slices.SortFunc(axes, func(x, y term) int { return cmp.Compare(x.step, y.step) })
	if len(axes) > 0 && axes[0].step == 0 {
		return true
	}
	// Two elements differ by Σ sᵢdᵢ with -lastᵢ <= dᵢ <= lastᵢ, not all 0. Let i
	// be the last axis, by stride, with dᵢ ≠ 0; dᵢ > 0 without loss. The smaller
	// axes then must come back from sᵢ or more to less than an element's size.
	below, reach := []term{}, int64(0)
	for _, a := range axes {
		if a.step < reach+r.Size {
			terms := append(slices.Clone(below), term{a.step, a.count - 1})
			if target := reach - a.step; reaches(terms, target-r.Size+1, target+r.Size-1) {
				return true
			}
		}
		below = append(below, term{a.step, 2 * a.count})
		reach += a.step * a.count
	}
	return false
}
