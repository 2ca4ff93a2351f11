package collective_test

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

var allOps = []collective.Op{collective.Sum, collective.Prod, collective.Min, collective.Max, collective.Avg}

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

var counts = []int{0, 1, 2, 3, 7, 64, 1001}

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

func TestMovementsTakeEveryType(t *testing.T) {
	record, err := ndview.Record(12, ndview.Field{Name: "a", DType: ndview.Int32}, ndview.Field{Name: "b", DType: ndview.Float64, Offset: 4})
	require.NoError(t, err)
	types := append([]ndview.DType{
		ndview.Datetime64(ndview.Nanosecond, 1), ndview.Timedelta64(ndview.Second, 1), ndview.Bytes(3), ndview.Bytes(16), record,
	}, numericTypes...)
	for _, ranks := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			onRanks(t, ranks, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
				for _, dtype := range types {
					for _, n := range counts {
						together(t, comms, func(c *collective.Comm) error {
							if err := checkMovements(c, dtype, n); err != nil {
								return fmt.Errorf("%d %s at rank %d: %w", n, dtype, c.Rank(), err)
							}
							return nil
						})
					}
				}
			})
		})
	}
}

// pattern returns n elements of random bytes, the same for the same seed.
func pattern(dev arrowbuf.Device, dtype ndview.DType, n, seed int) (*ndview.NDBuffer, error) {
	raw := make([]byte, int64(n)*dtype.Size())
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for i := range raw {
		raw[i] = byte(r.Uint32())
		if dtype == ndview.Bool {
			raw[i] &= 1
		}
	}
	return ndview.FromBytes(dev, dtype, raw, int64(n))
}

func checkMovements(c *collective.Comm, dtype ndview.DType, n int) error {
	size, rank := c.Size(), c.Rank()
	root := (n + 1) % size
	return scoped(func(s *ndview.Scope) error {
		of := func(seed, n int) *ndview.NDBuffer {
			a, err := s.Add(pattern(c.Device(), dtype, n, seed))
			if err != nil {
				panic(err)
			}
			return a
		}
		check := func(what string, got *ndview.NDBuffer, want ...*ndview.NDBuffer) error {
			if len(want) == 0 {
				return nil
			}
			all, err := s.Add(ndview.ConcatenateFlat(want))
			if err != nil {
				return err
			}
			return equalBytes(got, all, what)
		}
		var every []*ndview.NDBuffer
		for r := range size {
			every = append(every, of(r, n))
		}
		mine := every[rank]
		a := of(100+rank, n)
		if err := c.Broadcast(a, root); err != nil {
			return err
		}
		if err := check("Broadcast", a, of(100+root, n)); err != nil {
			return err
		}
		got, err := c.AllGather(mine)
		if err != nil {
			return err
		}
		if shapeText(got.Shape()) != fmt.Sprintf("%d %d", size, n) {
			return fmt.Errorf("AllGather: got shape %v", got.Shape())
		}
		if err := check("AllGather", got, every...); err != nil {
			return err
		}
		gathered, err := c.Gather(mine, root)
		if err != nil {
			return err
		}
		if (gathered != nil) != (rank == root) {
			return fmt.Errorf("Gather: got %v at rank %d, root is %d", gathered, rank, root)
		}
		if gathered != nil {
			if err := check("Gather", gathered, every...); err != nil {
				return err
			}
		}
		var src *ndview.NDBuffer
		if rank == root {
			if src, err = s.Add(ndview.ConcatenateFlat(every)); err != nil {
				return err
			}
		}
		part := of(7, n)
		if err := c.ScatterInto(part, src, root); err != nil {
			return err
		}
		if err := check("Scatter", part, mine); err != nil {
			return err
		}
		// Rank r sends the array of seed 1000+10r+to to each rank.
		var sent, want []*ndview.NDBuffer
		for r := range size {
			sent, want = append(sent, of(1000+10*rank+r, n)), append(want, of(1000+10*r+rank, n))
		}
		all, err := s.Add(ndview.ConcatenateFlat(sent))
		if err != nil {
			return err
		}
		exchanged, err := c.AllToAll(all)
		if err != nil {
			return err
		}
		if err := check("AllToAll", exchanged, want...); err != nil {
			return err
		}
		if err := c.AllToAllInto(all, all); err != nil { // parts change places
			return err
		}
		if err := check("AllToAll in place", all, want...); err != nil {
			return err
		}
		// Around the ring, and to itself, at once.
		var g collective.Group
		next, previous := (rank+1)%size, (rank+size-1)%size
		received, own := of(8, n), of(9, n)
		err = errors.Join(g.Comm(c).Send(mine, next), g.Comm(c).Recv(received, previous),
			g.Comm(c).Send(mine, rank), g.Comm(c).Recv(own, rank), g.Run())
		if err != nil {
			return err
		}
		if size == 1 { // both sends went to itself
			return check("Send", received, mine)
		}
		return errors.Join(check("Send", received, every[previous]), check("Send to itself", own, mine))
	})
}

// The shapes are those of pygpu's tests, but for an axis of extent 1, which pygpu drops.
func TestShapesOfResults(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		together(t, comms, func(c *collective.Comm) error {
			return scoped(func(s *ndview.Scope) error {
				src, err := s.Add(ndview.Zeros(c.Device(), ndview.Int32, 6, 5))
				if err != nil {
					return err
				}
				for _, one := range []struct {
					want string
					f    func() (*ndview.NDBuffer, error)
				}{
					{"6 5", func() (*ndview.NDBuffer, error) { return c.AllReduce(src, collective.Sum) }},
					{"3 5", func() (*ndview.NDBuffer, error) { return c.ReduceScatter(src, collective.Sum) }},
					{"2 6 5", func() (*ndview.NDBuffer, error) { return c.AllGather(src) }},
					{"6 5", func() (*ndview.NDBuffer, error) { return c.AllToAll(src) }},
				} {
					got, err := one.f()
					if err != nil {
						return err
					}
					if shapeText(got.Shape()) != one.want {
						return fmt.Errorf("got shape %v, want %s", got.Shape(), one.want)
					}
					if got.Scope() != s {
						return errors.New("the result does not belong to the scope of its operand")
					}
				}
				return nil
			})
		})
	})
}

// Operands of any layout give the same results as contiguous ones.
func TestOperandsMayHaveAnyLayout(t *testing.T) {
	layouts := map[string]func(a *ndview.NDBuffer) (*ndview.NDBuffer, error){
		"transposed": func(a *ndview.NDBuffer) (*ndview.NDBuffer, error) { return a.Transpose() },
		"reversed": func(a *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			return a.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
		},
		"every other row": func(a *ndview.NDBuffer) (*ndview.NDBuffer, error) { return a.Index(ndview.SpanStep(0, ndview.Open, 2)) },
		"a column": func(a *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			return a.Index(ndview.Span(ndview.Open, ndview.Open), ndview.At(1))
		},
		"no axes": func(a *ndview.NDBuffer) (*ndview.NDBuffer, error) { return a.Index(ndview.At(1), ndview.At(1)) },
	}
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		for _, dtype := range []ndview.DType{ndview.Float32, ndview.Int16, ndview.Bool, ndview.Complex128} {
			for name, layout := range layouts {
				together(t, comms, func(c *collective.Comm) error {
					return scoped(func(s *ndview.Scope) error {
						whole, err := s.Add(numbers(c.Device(), dtype, 24, c.Rank()))
						if err != nil {
							return err
						}
						shaped, err := whole.Reshape(6, 4)
						if err != nil {
							return err
						}
						src, err := layout(shaped)
						if err != nil {
							return err
						}
						packed, err := src.Copy(ndview.OrderC)
						if err != nil {
							return err
						}
						want, err := c.AllReduce(packed, collective.Sum)
						if err != nil {
							return err
						}
						got, err := c.AllReduce(src, collective.Sum)
						if err != nil {
							return err
						}
						if err := sameValues(got, want, false); err != nil {
							return fmt.Errorf("%s source: %w", name, err)
						}
						rest, err := whole.Copy(ndview.OrderC)
						if err != nil {
							return err
						}
						if err := c.AllReduceInto(src, src, collective.Sum); err != nil {
							return err
						}
						if err := sameValues(src, want, false); err != nil {
							return fmt.Errorf("%s in place: %w", name, err)
						}
						if err := c.Broadcast(src, 1); err != nil {
							return err
						}
						// Restoring the view restores the whole: nothing else was written.
						if err := src.CopyFrom(packed); err != nil {
							return err
						}
						return sameValues(whole, rest, false)
					})
				})
			}
		}
	})
}

// A destination that overlaps the source at another place gets the result of reading first.
func TestOverlappingOperandsAreReadFirst(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		together(t, comms, func(c *collective.Comm) error {
			return scoped(func(s *ndview.Scope) error {
				memory, err := s.Add(numbers(c.Device(), ndview.Int32, 100, c.Rank()))
				if err != nil {
					return err
				}
				src, err := memory.Slice(0, 0, 60)
				if err != nil {
					return err
				}
				dst, err := memory.Slice(0, 30, 90)
				if err != nil {
					return err
				}
				want, err := c.AllReduce(src, collective.Sum)
				if err != nil {
					return err
				}
				if err := c.AllReduceInto(dst, src, collective.Sum); err != nil {
					return err
				}
				if err := sameValues(dst, want, false); err != nil {
					return err
				}
				// A rank's own place in the result of AllGather is no overlap.
				half, err := memory.Slice(0, int64(c.Rank())*50, int64(c.Rank())*50+50)
				if err != nil {
					return err
				}
				all, err := c.AllGather(half)
				if err != nil {
					return err
				}
				if err := c.AllGatherInto(memory, half); err != nil {
					return err
				}
				flat, err := all.Reshape(100)
				if err != nil {
					return err
				}
				return sameValues(memory, flat, false)
			})
		})
	})
}

func TestLargeArraysAreCombined(t *testing.T) {
	n := int64(5<<20 + 3)
	if testing.Short() {
		n = 1<<20 + 3
	}
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		together(t, comms, func(c *collective.Comm) error {
			return scoped(func(s *ndview.Scope) error {
				src, err := s.Add(ndview.Full(c.Device(), ndview.Float32, c.Rank()+1, n))
				if err != nil {
					return err
				}
				sum, err := c.AllReduce(src, collective.Sum)
				if err != nil {
					return err
				}
				if equal, err := sum.AllEqual(3, false); err != nil || !equal {
					return fmt.Errorf("the sum is not 3 everywhere: %w", err)
				}
				all, err := c.AllGather(src)
				if err != nil {
					return err
				}
				for rank := range 2 {
					row, err := all.Index(ndview.At(int64(rank)))
					if err != nil {
						return err
					}
					if equal, err := row.AllEqual(rank+1, false); err != nil || !equal {
						return fmt.Errorf("row %d is not %d everywhere: %w", rank, rank+1, err)
					}
				}
				return nil
			})
		})
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

func TestInvalidArgumentsAreErrorsOfTheirRank(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		c := comms[0]
		s := ndview.NewScope()
		defer s.Release()
		zeros := func(dev arrowbuf.Device, dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
			a, err := s.Add(ndview.Zeros(dev, dtype, shape...))
			require.NoError(t, err)
			return a
		}
		a, b := zeros(c.Device(), ndview.Float32, 4), zeros(c.Device(), ndview.Float32, 6)
		other := zeros(c.Device(), ndview.Float64, 4)
		readOnly, err := a.ReadOnly()
		require.NoError(t, err)
		elsewhere := zeros(otherDevice(t, k), ndview.Float32, 4)
		released, err := ndview.Zeros(c.Device(), ndview.Float32, 4)
		require.NoError(t, err)
		released.Release()
		for name, one := range map[string]struct {
			err  error
			want error
		}{
			"size":      {c.AllReduceInto(a, b, collective.Sum), ndview.ErrShape},
			"dtype":     {c.AllReduceInto(other, a, collective.Sum), ndview.ErrDType},
			"read-only": {c.AllReduceInto(readOnly, a, collective.Sum), ndview.ErrReadOnly},
			"device":    {c.AllReduceInto(a, elsewhere, collective.Sum), arrowbuf.ErrDevice},
			"nil":       {c.AllReduceInto(nil, a, collective.Sum), ndview.ErrNil},
			"released":  {c.AllReduceInto(a, released, collective.Sum), arrowbuf.ErrReleased},
			"operator":  {c.AllReduceInto(a, a, collective.Op(77)), errors.ErrUnsupported},
			"time":      {c.AllReduceInto(zeros(c.Device(), ndview.Timedelta64(ndview.Second, 1), 2), zeros(c.Device(), ndview.Timedelta64(ndview.Second, 1), 2), collective.Sum), ndview.ErrDType},
			"root":      {c.Broadcast(a, 2), collective.ErrRank},
			"negative":  {c.ReduceInto(a, a, collective.Sum, -1), collective.ErrRank},
			"parts":     {c.ReduceScatterInto(a, b, collective.Sum), ndview.ErrShape},
			"gathered":  {c.AllGatherInto(b, a), ndview.ErrShape},
			"odd":       {c.AllToAllInto(zeros(c.Device(), ndview.Int8, 3), zeros(c.Device(), ndview.Int8, 3)), ndview.ErrShape},
			"receiver":  {c.Send(a, 5), collective.ErrRank},
		} {
			assert.ErrorIs(t, one.err, one.want, name)
			assert.ErrorContains(t, one.err, "collective.Comm.", name)
		}
		_, err = c.ReduceScatter(zeros(c.Device(), ndview.Int8, 3, 2), collective.Sum)
		assert.ErrorIs(t, err, ndview.ErrShape)
		// None of these has concerned the other rank.
		together(t, comms, func(c *collective.Comm) error {
			return scoped(func(s *ndview.Scope) error {
				one, err := s.Add(ndview.Full(c.Device(), ndview.Float32, 1, 4))
				if err != nil {
					return err
				}
				sum, err := c.AllReduce(one, collective.Sum)
				if err != nil {
					return err
				}
				equal, err := sum.AllEqual(2, false)
				if !equal {
					return fmt.Errorf("got %v, %w", sum, err)
				}
				return nil
			})
		})
	})
}

func otherDevice(t *testing.T, k kind) arrowbuf.Device {
	if k.name == "cpu" {
		d := newSimulated(t)
		return d
	}
	return arrowbuf.CPU()
}

func TestOperatorsHaveTheNamesOfPygpu(t *testing.T) {
	for op, names := range map[collective.Op][]string{
		collective.Sum: {"sum", "+", "add", "SUM"}, collective.Prod: {"prod", "*", "product", "mul"},
		collective.Min: {"min", "minimum"}, collective.Max: {"max", "Maximum"}, collective.Avg: {"avg", "mean"},
	} {
		for _, name := range names {
			got, err := collective.ParseOp(name)
			require.NoError(t, err)
			assert.Equal(t, op, got, name)
		}
		assert.Equal(t, names[0], op.String())
	}
	_, err := collective.ParseOp("xor")
	assert.ErrorIs(t, err, ndview.ErrDType)
	assert.Equal(t, "op(9)", collective.Op(9).String())
}

// Operations use the stream of the options, in order with work of others.
func TestOperationsAreOrderedWithOtherWork(t *testing.T) {
	onCUDA(t, 2, func(t *testing.T, k kind) {
		id, err := collective.NewID("unix")
		require.NoError(t, err)
		comms := make([]*collective.Comm, 2)
		errs := make(chan error, 2)
		for rank := range comms {
			go func() {
				s, err := k.devices[rank].(*cudabuf.Device).NewStream(cudabuf.StreamOptions{})
				if err == nil {
					comms[rank], err = collective.New(k.devices[rank], id, rank, 2, collective.Options{Stream: s})
				}
				errs <- err
			}()
		}
		require.NoError(t, errors.Join(<-errs, <-errs))
		together(t, comms, func(c *collective.Comm) error {
			return scoped(func(s *ndview.Scope) error {
				a, err := s.Add(ndview.Zeros(c.Device(), ndview.Int64, 1<<20))
				if err != nil {
					return err
				}
				for step := range 20 {
					if err := ndview.Add.Into(a, a, 1); err != nil { // on the default stream
						return err
					}
					if err := c.AllReduceInto(a, a, collective.Max); err != nil {
						return err
					}
					if step%5 == 0 {
						if equal, err := a.AllEqual(step+1, false); err != nil || !equal {
							return fmt.Errorf("step %d: got %v, %w", step, a, err)
						}
					}
				}
				return nil
			})
		})
		for _, c := range comms {
			require.NoError(t, c.Close())
		}
	})
}
