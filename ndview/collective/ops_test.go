package collective_test

import (
	"errors"
	"fmt"
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

var counts = []int{0, 1, 2, 3, 7, 64, 1001}

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
