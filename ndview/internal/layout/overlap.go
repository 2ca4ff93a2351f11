package layout

import (
	"cmp"
	"math/bits"
	"slices"
)

// Overlap reports whether two arrays have a byte in common. The result is exact: it
// considers strides, so that the even and the odd columns of a matrix do not overlap.
// The search is bounded: contrived layouts that would take seconds are reported as
// overlapping.
func Overlap(a, b Run) bool {
	if Product(a.Shape) == 0 || Product(b.Shape) == 0 {
		return false
	}
	lowA, highA, _ := ByteBounds(a.Size, a.Offset, a.Shape, a.Strides)
	lowB, highB, _ := ByteBounds(b.Size, b.Offset, b.Shape, b.Strides)
	if highA <= lowB || highB <= lowA {
		return false
	}
	// With every axis reversed to have a positive stride, a byte of a is lowA + Σ sᵢxᵢ
	// + p, a byte of b is lowB + Σ tⱼyⱼ + q. Substituting y = last - y', they are equal
	// if Σ sᵢxᵢ + Σ tⱼy'ⱼ = lowB - lowA + Σ tⱼlastⱼ + q - p, with -a.Size < q-p <
	// b.Size.
	terms := append(axisTerms(a), axisTerms(b)...)
	middle := (highB - b.Size) - lowA
	return hasSum(terms, middle-a.Size+1, middle+b.Size-1)
}

// axisTerms returns the axes with more than one element, with positive strides.
func axisTerms(r Run) []term {
	var out []term
	for i, d := range r.Shape {
		if d > 1 {
			out = append(out, term{magnitude(r.Strides[i]), d - 1})
		}
	}
	return out
}

// term is a step that may be taken 0 to count times.
type term struct{ step, count int64 }

// searchLimit bounds the steps of a search to about a second.
const searchLimit = 1 << 21

// hasSum reports whether some sum of the terms is in [low, high], a bounded linear
// Diophantine problem. It is NP-hard in general (it includes the knapsack problem). But
// strides of arrays are nested, and nested terms can be divided into two independent
// problems. If the search limit is exceeded, hasSum returns true.
func hasSum(terms []term, low, high int64) bool {
	s := search{left: searchLimit}
	return s.hasSum(slices.Clone(terms), low, high)
}

type search struct{ left int }

// hasSum may modify terms.
func (s *search) hasSum(terms []term, low, high int64) bool {
	if s.left--; s.left < 0 {
		return true
	}
	terms, low, high = simplify(terms, low, high)
	total := sum(terms)
	switch {
	case low > high || high < 0 || low > total:
		return false
	case low <= 0 || high >= total:
		return true // the empty sum, or the sum of all
	case len(terms) == 1:
		return high/terms[0].step*terms[0].step >= low
	case len(terms) == 2:
		return pairHasSum(terms[0], terms[1], low, high)
	}
	return s.hasSumSplit(terms, low, high)
}

// hasSumSplit divides the terms, which are in descending order, into the first k and
// the rest. Sums of the first k are multiples of their common divisor, and sums of the
// rest are small, so there may be few multiples to try. Otherwise it tries all counts
// of one term.
func (s *search) hasSumSplit(terms []term, low, high int64) bool {
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
			if s.hasSum(slices.Clone(others), low-n*t.step, high-n*t.step) {
				return true
			}
		}
		return false
	}
	top, bottom := terms[:k], terms[k:]
	last := min(high, sum(top))
	for v := max(ceilDiv(low-sum(bottom), divisor), 0) * divisor; v <= last; v += divisor {
		if s.hasSum(slices.Clone(bottom), low-v, high-v) && s.hasSum(slices.Clone(top), v, v) {
			return true
		}
	}
	return false
}

// simplify returns an equivalent problem with fewer or smaller terms, the largest
// first. Equal steps become one term. A step that is no longer than the window extends
// the window. A common divisor is divided out.
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

// pairHasSum is hasSum for two terms, 0 < low and high < their sum. For some count x of
// a, a multiple of b must be in [low-ax, high-ax].
func pairHasSum(a, b term, low, high int64) bool {
	first := max(ceilDiv(low-b.step*b.count, a.step), 0)
	last := min(high/a.step, a.count)
	if first > last {
		return false
	}
	if low <= a.step*last || high-a.step*first >= b.step*b.count {
		return true // with count 0 of b, or with all
	}
	// In between, b's count is not a limit: (high - ax) mod b <= high - low.
	window := high - low
	if window >= b.step-1 {
		return true
	}
	start := floorMod(high-a.step*first, b.step)
	if start <= window {
		return true
	}
	from := b.step - start // (-ax) mod b must be in [from, from+window]
	x, ok := firstInRange(b.step-floorMod(a.step, b.step), b.step, from, from+window)
	return ok && x <= last-first
}

// firstInRange returns the smallest x >= 0 with a·x mod m in [low, high], for 0 <= a <=
// m and 0 < low <= high < m. It recurses as Euclid's algorithm does.
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

// Overlaps reports whether two different elements of an array have a byte in common, as
// in a broadcast array, so that the order of writes matters. It is as exact as Overlap.
func (r Run) Overlaps() bool {
	if Product(r.Shape) == 0 {
		return false
	}
	axes := axisTerms(r)
	slices.SortFunc(axes, func(x, y term) int { return cmp.Compare(x.step, y.step) })
	if len(axes) > 0 && axes[0].step == 0 {
		return true
	}
	// Two elements differ by Σ sᵢdᵢ with -lastᵢ <= dᵢ <= lastᵢ, not all 0. Let i be the
	// axis with the largest stride such that dᵢ ≠ 0; assume dᵢ > 0. Then the axes with
	// smaller strides must sum to within an element's size of -sᵢdᵢ.
	below, reach := []term{}, int64(0)
	for _, a := range axes {
		if a.step < reach+r.Size {
			terms := append(slices.Clone(below), term{a.step, a.count - 1})
			if target := reach - a.step; hasSum(terms, target-r.Size+1, target+r.Size-1) {
				return true
			}
		}
		below = append(below, term{a.step, 2 * a.count})
		reach += a.step * a.count
	}
	return false
}
