//go:build linux

package collective_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

// measured are the operations of the benchmarks. Of n bytes, each rank sends or receives n in
// all-reduce, broadcast and send, and its part of n in the others.
var measured = []struct {
	name string
	run  func(c *collective.Comm, whole, other, part *ndview.NDBuffer) error
}{
	{"all-reduce", func(c *collective.Comm, whole, _, _ *ndview.NDBuffer) error {
		return c.AllReduceInto(whole, whole, collective.Sum)
	}},
	{"all-gather", func(c *collective.Comm, whole, _, part *ndview.NDBuffer) error { return c.AllGatherInto(whole, part) }},
	{"reduce-scatter", func(c *collective.Comm, whole, _, part *ndview.NDBuffer) error {
		return c.ReduceScatterInto(part, whole, collective.Sum)
	}},
	{"broadcast", func(c *collective.Comm, whole, _, _ *ndview.NDBuffer) error { return c.Broadcast(whole, 0) }},
	{"send-recv", func(c *collective.Comm, whole, other, _ *ndview.NDBuffer) error {
		var g collective.Group
		return errors.Join(g.Comm(c).Send(whole, 1-c.Rank()), g.Comm(c).Recv(other, 1-c.Rank()), g.Run())
	}},
}

// result is a line of the benchmark: seconds per operation, enqueued back to back, and with a
// wait after each (the median).
type result struct {
	Name            string
	Bytes           int64
	Stream, Latency float64
}

// bench measures the operations between two processes. Rank 0 prints the results as JSON.
// bench/gpu/collective_peers.py does the same with PyTorch.
func (w *worker) bench() error {
	for bytes := int64(1 << 10); bytes <= 1<<30; bytes *= 4 {
		if err := w.benchSize(bytes); err != nil {
			return errors.Join(err, w.close())
		}
	}
	return w.close()
}

func (w *worker) benchSize(bytes int64) error {
	return scoped(func(s *ndview.Scope) error {
		make := func(n int64) *ndview.NDBuffer {
			a, err := s.Add(ndview.Zeros(w.dev, ndview.Float32, n/4))
			if err != nil {
				panic(err)
			}
			return a
		}
		whole, other, part := make(bytes), make(bytes), make(bytes/2)
		iterations := max(10, min(200, int(4<<30/bytes/16)))
		for _, m := range measured {
			repeat := func(n int, each func() error) error {
				for range n {
					if err := m.run(w.comm, whole, other, part); err != nil {
						return err
					}
					if err := each(); err != nil {
						return err
					}
				}
				return w.comm.Wait()
			}
			nothing := func() error { return nil }
			if err := repeat(10, nothing); err != nil {
				return err
			}
			start := time.Now()
			if err := repeat(iterations, nothing); err != nil {
				return err
			}
			r := result{Name: m.name, Bytes: bytes, Stream: time.Since(start).Seconds() / float64(iterations)}
			var times []float64
			last := time.Now()
			err := repeat(min(iterations, 100), func() error {
				err := w.comm.Wait()
				now := time.Now()
				times, last = append(times, now.Sub(last).Seconds()), now
				return err
			})
			if err != nil {
				return err
			}
			slices.Sort(times)
			r.Latency = times[len(times)/2]
			if w.comm.Rank() == 0 {
				if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// BenchmarkCollective measures operations between two ranks of one process.
func BenchmarkCollective(b *testing.B) {
	for _, bytes := range []int64{1 << 10, 1 << 20, 16 << 20} {
		for _, m := range measured {
			b.Run(fmt.Sprintf("%s/%dKiB/cpu", m.name, bytes>>10), func(b *testing.B) {
				comms, err := collective.NewAll([]arrowbuf.Device{arrowbuf.CPU(), arrowbuf.CPU()}, collective.Options{})
				require.NoError(b, err)
				b.SetBytes(bytes)
				errs := each(comms, func(c *collective.Comm) error {
					return scoped(func(s *ndview.Scope) error {
						var arrays [3]*ndview.NDBuffer
						for i, n := range []int64{bytes, bytes, bytes / 2} {
							var err error
							if arrays[i], err = s.Add(ndview.Zeros(c.Device(), ndview.Float32, n/4)); err != nil {
								return err
							}
						}
						for range b.N {
							if err := m.run(c, arrays[0], arrays[1], arrays[2]); err != nil {
								return err
							}
						}
						return c.Close()
					})
				})
				require.NoError(b, errors.Join(errs...))
			})
		}
	}
}
