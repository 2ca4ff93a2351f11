package collective_test

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

// reduced returns what an operator makes of element i of all ranks, computed by Go, and
// whether the type supports it.
func reduced(dtype ndview.DType, op collective.Op, i, ranks int) (complex128, bool) {
	all := value(dtype, i, 0)
	isBool, isComplex := dtype == ndview.Bool, dtype.Kind() == ndview.KindComplex
	for rank := 1; rank < ranks; rank++ {
		v := value(dtype, i, rank)
		switch {
		case op == collective.Min || op == collective.Prod && isBool:
			all = complex(min(real(all), real(v)), 0)
		case op == collective.Max || op == collective.Sum && isBool:
			all = complex(max(real(all), real(v)), 0)
		case op == collective.Prod:
			all *= v
		default:
			all += v
		}
	}
	if op == collective.Avg {
		all = complex(real(all)/float64(ranks), imag(all)/float64(ranks))
		if dtype.IsInteger() {
			all = complex(math.Trunc(real(all)), 0)
		}
	}
	return all, !(isComplex && (op == collective.Min || op == collective.Max)) && !(isBool && op == collective.Avg)
}

// sameValues returns an error unless got is want, up to the rounding of averages, which NCCL computes from
// rounded quotients.
func sameValues(got, want *ndview.NDBuffer, approximately bool) error {
	equal, err := got.AllEqual(want, true)
	if err != nil || equal {
		return err
	}
	if !approximately {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	g, err := wide(got)
	if err != nil {
		return err
	}
	w, err := wide(want)
	if err != nil {
		return err
	}
	for i := range g {
		if cmplx.Abs(g[i]-w[i]) > 0.02*(1+cmplx.Abs(w[i])) {
			return fmt.Errorf("element %d: got %v, want %v", i, g[i], w[i])
		}
	}
	return nil
}

func wide(a *ndview.NDBuffer) ([]complex128, error) {
	w, err := ndview.AsArray(a, ndview.AsArrayOptions{DType: ndview.Complex128})
	if err != nil {
		return nil, err
	}
	defer w.Release()
	return ndview.ToHost[complex128](w)
}

func TestReductionsCombineAllRanks(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 5} {
		if testing.Short() && ranks%2 == 1 && ranks != 3 {
			continue
		}
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			onRanks(t, ranks, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
				for _, dtype := range numericTypes {
					for _, op := range allOps {
						for _, n := range counts {
							if testing.Short() && n > 7 && dtype.Size() != 4 {
								continue
							}
							together(t, comms, func(c *collective.Comm) error {
								if err := checkReductions(c, k, dtype, op, n); err != nil {
									return fmt.Errorf("%v of %d %s at rank %d: %w", op, n, dtype, c.Rank(), err)
								}
								return nil
							})
						}
					}
				}
			})
		})
	}
}

// Ranks on several machines have no shared memory.
func TestSocketsCarryElementsWithoutSharedMemory(t *testing.T) {
	collective.UseSockets(t)
	before := mappings()
	onRanks(t, 3, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		if k.name == "cuda" {
			t.Skip("NCCL moves the elements")
		}
		assert.Equal(t, before, mappings())
		for _, n := range []int{1, 1001, 200_000} {
			if testing.Short() {
				n = min(n, 50_000)
			}
			together(t, comms, func(c *collective.Comm) error {
				return errors.Join(checkReductions(c, k, ndview.Int32, collective.Sum, n), checkMovements(c, ndview.Float64, n))
			})
		}
		together(t, comms, func(c *collective.Comm) error { return checkBatches(c, 1000) })
	})
}

// checkReductions runs all reductions of n elements of a part.
func checkReductions(c *collective.Comm, k kind, dtype ndview.DType, op collective.Op, n int) error {
	size, rank := c.Size(), c.Rank()
	_, supported := reduced(dtype, op, 0, size)
	approximately := op == collective.Avg && k.name == "cuda"
	return scoped(func(s *ndview.Scope) error {
		src, err := s.Add(numbers(c.Device(), dtype, n, rank))
		if err != nil {
			return err
		}
		want, err := s.Add(castFrom(c.Device(), dtype, n, func(i int) complex128 { v, _ := reduced(dtype, op, i, size); return v }))
		if err != nil {
			return err
		}
		got, err := c.AllReduce(src, op)
		if !supported {
			if !errors.Is(err, ndview.ErrDType) {
				return fmt.Errorf("got error %w, want ErrDType", err)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := sameValues(got, want, approximately); err != nil {
			return fmt.Errorf("AllReduce: %w", err)
		}
		root := n % size
		at, err := c.Reduce(src, op, root)
		if err != nil {
			return err
		}
		if (at != nil) != (rank == root) {
			return fmt.Errorf("Reduce: got array %v at rank %d, root is %d", at, rank, root)
		}
		if at != nil {
			if err := sameValues(at, want, approximately); err != nil {
				return fmt.Errorf("Reduce: %w", err)
			}
		}
		all, err := s.Add(numbers(c.Device(), dtype, n*size, rank))
		if err != nil {
			return err
		}
		part, err := c.ReduceScatter(all, op)
		if err != nil {
			return err
		}
		wantPart, err := s.Add(castFrom(c.Device(), dtype, n, func(i int) complex128 { v, _ := reduced(dtype, op, i+rank*n, size); return v }))
		if err != nil {
			return err
		}
		if err := sameValues(part, wantPart, approximately); err != nil {
			return fmt.Errorf("ReduceScatter: %w", err)
		}
		// In place, where the result is an operand.
		if err := c.AllReduceInto(src, src, op); err != nil {
			return err
		}
		return sameValues(src, want, approximately)
	})
}

func TestMinAndMaxIgnoreNaNBesideNumbers(t *testing.T) {
	nan := math.NaN()
	values := [][]float64{{nan, 1, nan, -1}, {2, nan, nan, 3}}
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		for _, dtype := range []ndview.DType{ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64} {
			together(t, comms, func(c *collective.Comm) error {
				return scoped(func(s *ndview.Scope) error {
					at := func(v []float64) (*ndview.NDBuffer, error) {
						return s.Add(castFrom(c.Device(), dtype, len(v), func(i int) complex128 { return complex(v[i], 0) }))
					}
					src, err := at(values[c.Rank()])
					if err != nil {
						return err
					}
					for _, one := range []struct {
						op   collective.Op
						want []float64
					}{{collective.Min, []float64{2, 1, nan, -1}}, {collective.Max, []float64{2, 1, nan, 3}}} {
						want, err := at(one.want)
						if err != nil {
							return err
						}
						got, err := c.AllReduce(src, one.op)
						if err != nil {
							return err
						}
						if err := sameValues(got, want, false); err != nil {
							return fmt.Errorf("%v of %s: %w", one.op, dtype, err)
						}
					}
					return nil
				})
			})
		}
	})
}

// Floats are combined in the order of ranks on hosts: the result is that of adding in a loop.
func TestSumsOfFloatsAreInTheOrderOfRanks(t *testing.T) {
	const n, ranks = 1000, 4
	random := func(rank int) []float32 {
		r := rand.New(rand.NewPCG(9, uint64(rank)))
		v := make([]float32, n)
		for i := range v {
			v[i] = (r.Float32() - 0.5) * float32(math.Pow(10, float64(r.IntN(8))))
		}
		return v
	}
	want := random(0)
	for rank := 1; rank < ranks; rank++ {
		for i, v := range random(rank) {
			want[i] += v
		}
	}
	forEachKind(t, ranks, func(t *testing.T, k kind) {
		if k.name == "cuda" {
			t.Skip("NCCL chooses the order")
		}
		comms := newAll(t, k, collective.Options{})
		together(t, comms, func(c *collective.Comm) error {
			return scoped(func(s *ndview.Scope) error {
				src, err := s.Add(ndview.FromHost(c.Device(), ndview.Float32, random(c.Rank()), n))
				if err != nil {
					return err
				}
				for range 3 {
					sum, err := c.AllReduce(src, collective.Sum)
					if err != nil {
						return err
					}
					got, err := ndview.ToHost[float32](sum)
					if err != nil {
						return err
					}
					for i := range got {
						if got[i] != want[i] {
							return fmt.Errorf("element %d: got %v, want %v", i, got[i], want[i])
						}
					}
				}
				return nil
			})
		})
	})
}

// On GPUs too, all ranks have the same bits.
func TestAllRanksHaveTheSameSum(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		sums := make([][]float32, 2)
		together(t, comms, func(c *collective.Comm) error {
			return scoped(func(s *ndview.Scope) error {
				r := rand.New(rand.NewPCG(5, uint64(c.Rank())))
				v := make([]float32, 100_000)
				for i := range v {
					v[i] = r.Float32() - 0.5
				}
				src, err := s.Add(ndview.FromHost(c.Device(), ndview.Float32, v, int64(len(v))))
				if err != nil {
					return err
				}
				sum, err := c.AllReduce(src, collective.Sum)
				if err != nil {
					return err
				}
				sums[c.Rank()], err = ndview.ToHost[float32](sum)
				return err
			})
		})
		assert.Equal(t, sums[0], sums[1])
	})
}
