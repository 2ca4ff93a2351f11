package collective_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

// withArray runs f with an array of a rank.
func withArray(c *collective.Comm, dtype ndview.DType, n int, f func(a *ndview.NDBuffer) error) error {
	return scoped(func(s *ndview.Scope) error {
		a, err := s.Add(numbers(c.Device(), dtype, n, c.Rank()))
		if err != nil {
			return err
		}
		return f(a)
	})
}

func TestDisagreementIsAnErrorOfAllRanks(t *testing.T) {
	type call = func(c *collective.Comm, a *ndview.NDBuffer) error
	allReduce := func(op collective.Op) call {
		return func(c *collective.Comm, a *ndview.NDBuffer) error { return c.AllReduceInto(a, a, op) }
	}
	broadcast := func(root int) call {
		return func(c *collective.Comm, a *ndview.NDBuffer) error { return c.Broadcast(a, root) }
	}
	send := func(c *collective.Comm, a *ndview.NDBuffer) error { return c.Send(a, 1-c.Rank()) }
	receive := func(c *collective.Comm, a *ndview.NDBuffer) error { return c.Recv(a, 1-c.Rank()) }
	f32, f64 := ndview.Float32, ndview.Float64
	for name, one := range map[string]struct {
		calls  [2]call
		dtypes [2]ndview.DType
		counts [2]int
		text   string
	}{
		"count":     {[2]call{allReduce(collective.Sum), allReduce(collective.Sum)}, [2]ndview.DType{f32, f32}, [2]int{10, 11}, "AllReduce of 11 elements of float32 by sum"},
		"dtype":     {[2]call{allReduce(collective.Sum), allReduce(collective.Sum)}, [2]ndview.DType{f32, f64}, [2]int{10, 10}, "elements of float64"},
		"operator":  {[2]call{allReduce(collective.Sum), allReduce(collective.Max)}, [2]ndview.DType{f32, f32}, [2]int{10, 10}, "by max"},
		"root":      {[2]call{broadcast(0), broadcast(1)}, [2]ndview.DType{f32, f32}, [2]int{10, 10}, "with root 1"},
		"operation": {[2]call{allReduce(collective.Sum), broadcast(1)}, [2]ndview.DType{f32, f32}, [2]int{10, 10}, "Broadcast of 10"},
		"received":  {[2]call{send, receive}, [2]ndview.DType{f32, f64}, [2]int{10, 10}, "Send of 10 elements of float"},
		"large":     {[2]call{allReduce(collective.Sum), allReduce(collective.Sum)}, [2]ndview.DType{f32, f32}, [2]int{1 << 20, 10}, "AllReduce"},
	} {
		t.Run(name, func(t *testing.T) {
			onRanks(t, 2, collective.Options{Check: true, Timeout: limit}, func(t *testing.T, k kind, comms []*collective.Comm) {
				errs := each(comms, func(c *collective.Comm) error {
					return withArray(c, one.dtypes[c.Rank()], one.counts[c.Rank()], func(a *ndview.NDBuffer) error {
						err := one.calls[c.Rank()](c, a)
						if name == "received" && c.Rank() == 0 && err == nil {
							// A send may be done before the receiver disagrees.
							for until := time.Now().Add(limit); err == nil && time.Now().Before(until); time.Sleep(time.Millisecond) {
								err = c.Err()
							}
						}
						return err
					})
				})
				for rank, err := range errs {
					assert.ErrorIs(t, err, collective.ErrMismatch, "rank %d", rank)
					assert.ErrorContains(t, err, one.text)
				}
				for _, c := range comms {
					assert.ErrorIs(t, c.Err(), collective.ErrMismatch, "the communicator has failed")
					assert.ErrorIs(t, c.Broadcast(nil, 0), collective.ErrMismatch, "later calls return the error")
					assert.ErrorIs(t, c.Close(), collective.ErrMismatch)
				}
			})
		})
	}
}

// A rank that does not take part is a timeout of the others.
func TestOperationsTimeOut(t *testing.T) {
	forEachKind(t, 2, func(t *testing.T, k kind) {
		o := collective.Options{Timeout: time.Second} // within which the ranks also join
		if k.name == "cuda" {
			o.Timeout = 5 * time.Second
		}
		comms := newAll(t, k, o)
		start := time.Now()
		err := withArray(comms[0], ndview.Float32, 1000, func(a *ndview.NDBuffer) error {
			return errors.Join(comms[0].AllReduceInto(a, a, collective.Sum), comms[0].Wait())
		})
		assert.ErrorIs(t, err, collective.ErrTimeout)
		assert.Less(t, time.Since(start), limit)
		// The other rank learns of it.
		for until := time.Now().Add(limit); comms[1].Err() == nil && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		assert.ErrorIs(t, comms[1].Err(), collective.ErrTimeout)
		assert.ErrorIs(t, comms[1].Close(), collective.ErrTimeout)
	})
}

func TestAbortEndsOperationsOfAllRanks(t *testing.T) {
	for _, ranks := range []int{2, 3} {
		onRanks(t, ranks, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
			last := comms[ranks-1]
			var waiting sync.WaitGroup
			errs := make([]error, ranks-1)
			for rank := range errs {
				waiting.Go(func() {
					c := comms[rank]
					errs[rank] = withArray(c, ndview.Float32, 1000, func(a *ndview.NDBuffer) error {
						return errors.Join(c.AllReduceInto(a, a, collective.Sum), c.Wait())
					})
				})
			}
			time.Sleep(20 * time.Millisecond) // they wait for the last rank, or do so soon
			last.Abort()
			waiting.Wait()
			for _, err := range errs {
				assert.ErrorIs(t, err, collective.ErrAborted)
				assert.ErrorContains(t, err, fmt.Sprintf("rank %d", ranks-1))
			}
			assert.ErrorIs(t, last.Err(), collective.ErrAborted)
		})
	}
}

func TestClosedRankIsAnErrorOfTheOthers(t *testing.T) {
	forEachKind(t, 2, func(t *testing.T, k kind) {
		if k.name == "cuda" {
			t.Skip("NCCL waits for a rank that has closed until the timeout")
		}
		comms := newAll(t, k, collective.Options{})
		require.NoError(t, comms[1].Close())
		require.NoError(t, comms[1].Close(), "a second Close does nothing")
		assert.ErrorIs(t, comms[1].Err(), collective.ErrClosed)
		assert.ErrorIs(t, comms[1].Wait(), collective.ErrClosed)
		err := withArray(comms[0], ndview.Float32, 10, func(a *ndview.NDBuffer) error { return comms[0].Broadcast(a, 1) })
		assert.ErrorIs(t, err, collective.ErrPeer)
		assert.ErrorContains(t, err, "rank 1 has closed")
	})
}

// What a rank has sent is received even if it closes right after.
func TestSentElementsOutliveTheSender(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		together(t, comms, func(c *collective.Comm) error {
			if c.Rank() == 0 {
				err := withArray(c, ndview.Int64, 1000, func(a *ndview.NDBuffer) error { return c.Send(a, 1) })
				return errors.Join(err, c.Close())
			}
			if k.name != "cuda" { // there Close waits for the receiver
				time.Sleep(20 * time.Millisecond)
			}
			return scoped(func(s *ndview.Scope) error {
				a, err := s.Add(ndview.Zeros(c.Device(), ndview.Int64, 1000))
				if err != nil {
					return err
				}
				want, err := s.Add(numbers(c.Device(), ndview.Int64, 1000, 0))
				if err != nil {
					return err
				}
				if err := c.Recv(a, 0); err != nil {
					return err
				}
				return errors.Join(sameValues(a, want, false), c.Close())
			})
		})
	})
}

func TestCommunicatorsReleaseWhatTheyOpen(t *testing.T) {
	forEachKind(t, 2, func(t *testing.T, k kind) {
		use := func(abort bool) {
			comms, err := collective.NewAll(k.devices, collective.Options{})
			require.NoError(t, err)
			together(t, comms, func(c *collective.Comm) error {
				return withArray(c, ndview.Float32, 100, func(a *ndview.NDBuffer) error {
					return errors.Join(c.AllReduceInto(a, a, collective.Sum), c.Wait())
				})
			})
			split := make([]*collective.Comm, len(comms))
			together(t, comms, func(c *collective.Comm) (err error) {
				split[c.Rank()], err = c.Split(c.Rank()%2, 0)
				return err
			})
			for i, c := range comms {
				if abort {
					split[i].Abort()
					c.Abort()
					continue
				}
				require.NoError(t, split[i].Close())
				require.NoError(t, c.Close())
			}
		}
		use(false) // opens what stays open, such as NCCL
		before, free := resourcesInUse(), freeMemory(t, k)
		for i := range 5 {
			use(i%2 == 1)
		}
		before.eventually(t)
		// NCCL frees the memory of aborted communicators in the background.
		for until := time.Now().Add(limit); freeMemory(t, k) < free-64<<20 && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
		}
		assert.GreaterOrEqual(t, freeMemory(t, k), free-64<<20)
	})
}

// freeMemory returns the free memory of the first GPU.
func freeMemory(t *testing.T, k kind) int64 {
	gpu, ok := k.devices[0].(*cudabuf.Device)
	if !ok {
		return 0
	}
	free, _, err := gpu.MemInfo()
	require.NoError(t, err)
	return free
}

func TestSplitMayReverseRanks(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		together(t, comms, func(c *collective.Comm) error {
			reversed, err := c.Split(0, -c.Rank())
			if err != nil {
				return err
			}
			if reversed.Rank() != 1-c.Rank() || reversed.Device() != c.Device() {
				return fmt.Errorf("rank %d became %d", c.Rank(), reversed.Rank())
			}
			return scoped(func(s *ndview.Scope) error {
				a, err := s.Add(ndview.Full(c.Device(), ndview.Int32, c.Rank(), 3))
				if err != nil {
					return err
				}
				all, err := reversed.AllGather(a)
				if err != nil {
					return err
				}
				first, err := all.Index(ndview.At(0))
				if err != nil {
					return err
				}
				if equal, err := first.AllEqual(1, false); err != nil || !equal {
					return fmt.Errorf("got %v, %w", all, err)
				}
				return reversed.Close()
			})
		})
	})
}

func TestSplitGroupsRanksByColorAndKey(t *testing.T) {
	onRanks(t, 5, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		together(t, comms, func(c *collective.Comm) error {
			color, key := c.Rank()%2, -c.Rank() // in reverse order
			if c.Rank() == 4 {
				color = collective.NoColor
			}
			part, err := c.Split(color, key)
			if err != nil {
				return err
			}
			if color == collective.NoColor {
				if part != nil {
					return errors.New("a rank without color has a communicator")
				}
				return nil
			}
			want := map[int]int{0: 1, 2: 0, 1: 1, 3: 0}[c.Rank()]
			if part.Rank() != want || part.Size() != 2 {
				return fmt.Errorf("rank %d became %d of %d, want %d of 2", c.Rank(), part.Rank(), part.Size(), want)
			}
			return scoped(func(s *ndview.Scope) error {
				a, err := s.Add(ndview.Full(c.Device(), ndview.Int32, c.Rank(), 3))
				if err != nil {
					return err
				}
				sum, err := part.AllReduce(a, collective.Sum)
				if err != nil {
					return err
				}
				if equal, err := sum.AllEqual(2+2*color, false); err != nil || !equal { // 0+2, 1+3
					return fmt.Errorf("got %v, %w", sum, err)
				}
				return part.Close()
			})
		})
		// The first communicator still works.
		together(t, comms, func(c *collective.Comm) error {
			return withArray(c, ndview.Int32, 4, func(a *ndview.NDBuffer) error { return c.Broadcast(a, 3) })
		})
		errs := each(comms[:1], func(c *collective.Comm) error { _, err := c.Split(-2, 0); return err })
		assert.ErrorIs(t, errs[0], collective.ErrRank)
	})
}

// One goroutine drives several communicators in a group.
func TestGroupRunsOperationsOfSeveralCommunicators(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		require.NoError(t, scoped(func(s *ndview.Scope) error {
			var g collective.Group
			var sums []*ndview.NDBuffer
			for rank, c := range comms {
				a, err := s.Add(ndview.Full(c.Device(), ndview.Int16, rank+1, 10))
				if err != nil {
					return err
				}
				sum, err := g.Comm(c).AllReduce(a, collective.Sum)
				if err != nil {
					return err
				}
				product, err := g.Comm(c).AllReduce(a, collective.Prod)
				if err != nil {
					return err
				}
				sums = append(sums, sum, product)
			}
			if err := g.Run(); err != nil {
				return err
			}
			for i, a := range sums {
				if equal, err := a.AllEqual(3-i%2, false); err != nil || !equal {
					return fmt.Errorf("array %d: got %v, %w", i, a, err)
				}
			}
			return g.Run() // an empty group
		}))
		var g collective.Group
		assert.ErrorIs(t, g.Comm(comms[0]).Broadcast(nil, 7), collective.ErrRank)
		assert.ErrorIs(t, g.Run(), collective.ErrRank, "Run returns the error of a call")
		assert.NoError(t, g.Run(), "once")
		_, err := g.Comm(comms[0]).AllReduce(nil, collective.Sum)
		assert.ErrorIs(t, err, ndview.ErrNil)
		assert.ErrorIs(t, g.Run(), ndview.ErrNil)
		_, err = g.Comm(comms[0]).ReduceScatter(nil, collective.Sum)
		assert.ErrorIs(t, err, ndview.ErrNil)
		assert.ErrorIs(t, g.Run(), ndview.ErrNil)
		_, err = g.Comm(comms[0]).Split(0, 0)
		assert.ErrorIs(t, err, errors.ErrUnsupported)
		_, err = g.Comm(comms[0]).RecvBatch(1)
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

func TestSendToItselfNeedsAReceive(t *testing.T) {
	forEachKind(t, 1, func(t *testing.T, k kind) {
		if k.name == "cuda" {
			t.Skip("NCCL defines what happens")
		}
		comms := newAll(t, k, collective.Options{})
		err := withArray(comms[0], ndview.Int8, 3, func(a *ndview.NDBuffer) error { return comms[0].Send(a, 0) })
		assert.ErrorIs(t, err, collective.ErrMismatch)
	})
}

// Ranks that do not fit together are an error of each, with the reason.
func TestRanksThatDoNotFitAreErrors(t *testing.T) {
	type rank struct {
		dev        arrowbuf.Device
		rank, size int
	}
	cpu := arrowbuf.CPU()
	for name, one := range map[string]struct {
		ranks   []rank
		timeout time.Duration
		text    string
	}{
		"sizes":     {[]rank{{cpu, 0, 2}, {cpu, 1, 3}}, limit, "ranks, others want"},
		"same rank": {[]rank{{cpu, 0, 3}, {cpu, 1, 3}, {cpu, 1, 3}}, limit, "two processes are rank 1"},
		"a missing": {[]rank{{cpu, 0, 3}, {cpu, 2, 3}}, time.Second, "2 of 3 ranks have joined, missing [1]"},
	} {
		t.Run(name, func(t *testing.T) {
			before := resourcesInUse()
			id, err := collective.NewID("unix")
			require.NoError(t, err)
			errs := make([]error, len(one.ranks))
			var joining sync.WaitGroup
			for i, r := range one.ranks {
				joining.Go(func() {
					_, errs[i] = collective.New(r.dev, id, r.rank, r.size, collective.Options{Timeout: one.timeout})
				})
			}
			joining.Wait()
			var texts string
			for _, err := range errs {
				assert.ErrorIs(t, err, collective.ErrRendezvous)
				texts += fmt.Sprint(err)
			}
			assert.Contains(t, texts, one.text)
			before.eventually(t)
		})
	}
}

func TestRendezvousWithoutRankZeroTimesOut(t *testing.T) {
	folder := t.TempDir()
	for _, at := range []string{"unix:" + filepath.Join(folder, "socket"), "file:" + filepath.Join(folder, "id"), "tcp:127.0.0.1:" + freePort(t)} {
		_, err := collective.Connect(arrowbuf.CPU(), collective.Rendezvous{Address: at, Rank: 1, Size: 2}, collective.Options{Timeout: 50 * time.Millisecond})
		assert.ErrorIs(t, err, collective.ErrTimeout, at)
		assert.ErrorContains(t, err, "no rank 0 at")
	}
	for _, at := range []string{"", "udp:1", "file", "tcp:"} {
		_, err := collective.Connect(arrowbuf.CPU(), collective.Rendezvous{Address: at, Rank: 0, Size: 1}, collective.Options{})
		assert.ErrorIs(t, err, collective.ErrRendezvous, at)
	}
	_, err := collective.Connect(arrowbuf.CPU(), collective.Rendezvous{Address: "tcp:127.0.0.1:0", Rank: 2, Size: 2}, collective.Options{})
	assert.ErrorIs(t, err, collective.ErrRank)
}

// An error of one rank's device ends the operation of the others.
func TestFailureOfADeviceIsAnErrorOfAllRanks(t *testing.T) {
	var failing atomic.Bool
	d := cudatest.Start(t, cudatest.Config{Devices: 2, Fail: func(call string, _ int) cudabuf.Result {
		if failing.Load() && strings.HasPrefix(call, "cuMemcpyDtoH") {
			return 2 // out of memory
		}
		return 0
	}})
	k := kind{name: "simulated"}
	for i := range 2 {
		dev, err := d.Device(i)
		require.NoError(t, err)
		k.devices = append(k.devices, dev)
	}
	k.devices[0] = arrowbuf.CPU() // which does not fail
	comms := newAll(t, k, collective.Options{Timeout: limit})
	failing.Store(true)
	errs := each(comms, func(c *collective.Comm) error {
		return withArray(c, ndview.Float32, 10, func(a *ndview.NDBuffer) error { return c.AllReduceInto(a, a, collective.Sum) })
	})
	failing.Store(false)
	assert.ErrorIs(t, errs[1], arrowbuf.ErrOutOfMemory)
	assert.ErrorIs(t, errs[0], collective.ErrPeer)
	assert.ErrorContains(t, errs[0], "rank 1")
}
