package cudabuf_test

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool/trace"
	"github.com/stretchr/testify/require"
)

// The benchmarks of copies between the host and a device. MB/s are 1e6 bytes per second.

// allocHost allocates the kinds of host memory that a copy may use.
var allocHost = map[string]func(b *testing.B, dev *cudabuf.Device, n int64) []byte{
	"pageable": func(_ *testing.B, _ *cudabuf.Device, n int64) []byte { return make([]byte, n) },
	"pinned": func(b *testing.B, dev *cudabuf.Device, n int64) []byte {
		h, err := dev.NewHostBuffer(n, cudabuf.HostOptions{})
		require.NoError(b, err)
		b.Cleanup(h.Release)
		return h.HostBytes()
	},
	"registered": func(b *testing.B, dev *cudabuf.Device, n int64) []byte {
		memory := make([]byte, n)
		h, err := dev.RegisterHost(memory, cudabuf.RegisterOptions{})
		require.NoError(b, err)
		b.Cleanup(h.Release)
		return memory
	},
}

func benchmarkCopy(b *testing.B, move func(*cudabuf.Buffer, []byte) (int64, error)) {
	for _, kind := range []string{"pinned", "pageable", "registered"} {
		for _, mib := range []int64{1, 4, 64, 1 << 10} {
			b.Run(fmt.Sprintf("%s/%dMiB", kind, mib), func(b *testing.B) {
				forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
					n := skipLargeOnSimulated(b, mib<<20)
					measureCopy(b, bufferOf(b, dev, n), allocHost[kind](b, dev, n), move)
				})
			})
		}
	}
}

// BenchmarkPin allocates and frees pinned memory: as the PinnedAllocator does, and by
// cuMemHostAlloc, which makes memory that kernels map.
func BenchmarkPin(b *testing.B) {
	const size = 64 << 20
	forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
		a := dev.HostAllocator().(*cudabuf.PinnedAllocator)
		require.NoError(b, a.SetIdleLimit(0))
		b.Run("registered", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				a.Free(a.Allocate(size))
			}
		})
		b.Run("cuMemHostAlloc", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				h, err := dev.NewHostBuffer(size, cudabuf.HostOptions{Mapped: true})
				if err != nil {
					b.Fatal(err)
				}
				h.Release()
			}
		})
	})
}

// skipLargeOnSimulated skips large copies on the simulated device, which has no speed to
// measure.
func skipLargeOnSimulated(b *testing.B, n int64) int64 {
	if strings.HasSuffix(b.Name(), "/simulated") && n > 4<<20 {
		b.Skip("for a GPU")
	}
	return n
}

func measureCopy(b *testing.B, device *cudabuf.Buffer, host []byte, move func(*cudabuf.Buffer, []byte) (int64, error)) {
	for i := 0; i < len(host); i += 4096 { // map the pages before the measurement
		host[i] = byte(i >> 12)
	}
	_, err := move(device, host) // allocates the staging buffers
	require.NoError(b, err)
	b.SetBytes(int64(len(host)))
	for b.Loop() {
		if _, err := move(device, host); err != nil {
			b.Fatal(err)
		}
	}
}

func toDevice(d *cudabuf.Buffer, h []byte) (int64, error) { return d.CopyFromHost(h, 0) }
func toHost(d *cudabuf.Buffer, h []byte) (int64, error)   { return d.CopyToHost(h, 0) }

func BenchmarkCopyHostToDevice(b *testing.B) { benchmarkCopy(b, toDevice) }
func BenchmarkCopyDeviceToHost(b *testing.B) { benchmarkCopy(b, toHost) }

// BenchmarkStaging measures the parameters of copies of ordinary memory: the number and
// size of staging buffers for 1 GiB, and the size from which staging is faster.
func BenchmarkStaging(b *testing.B) {
	copies := map[string]func(*cudabuf.Buffer, []byte) (int64, error){"h2d": toDevice, "d2h": toHost}
	run := func(name string, threshold, minPart, bufferSize int64, workers int, size int64) {
		for _, direction := range []string{"h2d", "d2h"} {
			b.Run(name+"/"+direction, func(b *testing.B) {
				forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
					n := skipLargeOnSimulated(b, size)
					require.NoError(b, dev.SetStaging(threshold, minPart, bufferSize, workers))
					measureCopy(b, bufferOf(b, dev, n), make([]byte, n), copies[direction])
				})
			})
		}
	}
	for _, workers := range []int{1, 2, 4, 6, 8, 10, 12} {
		for _, kib := range []int64{512, 1 << 10, 2 << 10, 4 << 10} {
			run(fmt.Sprintf("%dworkers/%dKiB", workers, kib), 1<<20, 64<<10, kib<<10, workers, 1<<30)
		}
	}
	for _, size := range []int64{512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10} {
		run(fmt.Sprintf("%dKiB/driver", size), 1<<40, 0, 2<<20, 8, size<<10)
		for _, minPart := range []int64{128, 256, 512} {
			run(fmt.Sprintf("%dKiB/least%dKiB", size, minPart), 1, minPart<<10, 2<<20, 8, size<<10)
		}
	}
}

// BenchmarkCopyRanges copies ordinary memory in one range, and in the 96 ranges of a batch
// of 64 columns. The lengths of the ranges are multiples of 64 bytes, or odd.
func BenchmarkCopyRanges(b *testing.B) {
	for _, c := range []struct {
		name  string
		sizes []int64
	}{{"1", []int64{1 << 40}}, {"96", []int64{19173952, 299584, 19173952, 9586944, 9586944, 9586944}}, {"96odd", []int64{19173959, 299593, 19173959, 9586983, 9586987, 9586983}}} {
		b.Run(c.name, func(b *testing.B) {
			forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
				n := int64(1 << 30)
				if strings.HasSuffix(b.Name(), "/simulated") {
					n = 256 << 20
				}
				var ranges []arrowbuf.HostRange
				for i, at := 0, int64(0); at < n; i++ {
					size := min(c.sizes[i%len(c.sizes)], n-at)
					ranges = append(ranges, arrowbuf.HostRange{Bytes: make([]byte, size), Pos: at})
					at += size
				}
				for _, r := range ranges {
					for i := range r.Bytes {
						r.Bytes[i] = byte(i)
					}
				}
				buf := bufferOf(b, dev, n)
				require.NoError(b, buf.CopyRangesFromHost(ranges))
				b.SetBytes(n)
				for b.Loop() {
					if err := buf.CopyRangesFromHost(ranges); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// The benchmarks of single operations. Their names end in the device. On the simulated
// device they only show that they run. bench/gpu/cudabuf.py measures the same operations
// with other libraries.

//go:embed testdata/speed.ptx
var speedPTX []byte

var speedHostKernels = map[string]cudabuf.HostKernel{
	"add_float32": func(l *cudabuf.HostLaunch) {
		n := int64(l.Uint32(3))
		values := func(argument int) []float32 { return cudabuf.Elements[float32](l, l.Pointer(argument), n) }
		a, b, sum := values(0), values(1), values(2)
		for i := range sum {
			sum[i] = a[i] + b[i]
		}
	},
}

// depth is the number of operations that are submitted to a stream between waits.
const depth = 1000

// forEachDevice runs a benchmark on a simulated device, and on the GPU if tests use it.
func forEachDevice(b *testing.B, run func(b *testing.B, dev *cudabuf.Device)) {
	b.Run("simulated", func(b *testing.B) { run(b, cudatest.NewDevice(b)) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run("cuda", func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		run(b, dev)
	})
}

func streamOf(b *testing.B, dev *cudabuf.Device) *cudabuf.Stream {
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

func bufferOf(b *testing.B, dev *cudabuf.Device, n int64) *cudabuf.Buffer {
	buffer, err := dev.NewBuffer(n)
	require.NoError(b, err)
	b.Cleanup(buffer.Release)
	return buffer
}

// benchmarkStream measures work on a stream, including the waits for it. The result is the
// longer of the time to submit the work and the time to run it. It reports the median of
// its rounds, as bench/gpu/limits.c does.
func benchmarkStream(b *testing.B, s *cudabuf.Stream, work func() error) {
	round := func(n int) time.Duration {
		start := time.Now()
		for range n {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Synchronize(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	round(depth)
	b.ReportAllocs()
	b.ResetTimer()
	var rounds []time.Duration
	for left := b.N; left > 0; left -= depth {
		if took := round(min(left, depth)); left >= depth {
			rounds = append(rounds, took)
		}
	}
	if slices.Sort(rounds); len(rounds) > 0 {
		b.ReportMetric(float64(rounds[len(rounds)/2].Nanoseconds())/depth, "ns/op")
	}
}

// BenchmarkLaunchSmall adds 1024 numbers.
func BenchmarkLaunchSmall(b *testing.B) {
	forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
		m, err := dev.LoadModule(speedPTX, speedHostKernels)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, m.Close()) })
		k, err := m.Kernel("add_float32")
		require.NoError(b, err)
		s, x, y, sum := streamOf(b, dev), bufferOf(b, dev, 4096), bufferOf(b, dev, 4096), bufferOf(b, dev, 4096)
		require.NoError(b, x.Fill(0))
		require.NoError(b, y.Fill(0))
		benchmarkStream(b, s, func() error {
			return k.LaunchAsync(s, cudabuf.Dim3{X: 4}, cudabuf.Dim3{X: 256}, 0, cudabuf.In(x, 0), cudabuf.In(y, 0), sum, uint32(1024))
		})
	})
}

// BenchmarkEvent records an event on a stream and makes another stream wait for it.
func BenchmarkEvent(b *testing.B) {
	forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
		first, second := streamOf(b, dev), streamOf(b, dev)
		e, err := dev.NewEvent(cudabuf.EventOptions{})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, e.Close()) })
		benchmarkStream(b, second, func() error {
			if err := first.Record(e); err != nil {
				return err
			}
			return second.WaitEvent(e)
		})
	})
}

// BenchmarkStream creates and closes a stream.
func BenchmarkStream(b *testing.B) {
	forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
		for b.Loop() {
			s, err := dev.NewStream(cudabuf.StreamOptions{})
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCopySmall copies from and to ordinary memory and waits.
func BenchmarkCopySmall(b *testing.B) {
	copies := map[string]func(*cudabuf.Buffer, []byte) (int64, error){
		"h2d": func(d *cudabuf.Buffer, h []byte) (int64, error) { return d.CopyFromHost(h, 0) },
		"d2h": func(d *cudabuf.Buffer, h []byte) (int64, error) { return d.CopyToHost(h, 0) },
	}
	for _, direction := range []string{"h2d", "d2h"} {
		for _, kib := range []int64{1, 64, 1024} {
			b.Run(fmt.Sprintf("%s/%dKiB", direction, kib), func(b *testing.B) {
				forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
					device, host := bufferOf(b, dev, kib<<10), make([]byte, kib<<10)
					b.SetBytes(kib << 10)
					for b.Loop() {
						if _, err := copies[direction](device, host); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkAllocFree allocates and releases 1 MiB in several goroutines. ns/op is the
// elapsed time divided by the operations of all goroutines. ns/each is the elapsed time
// divided by the operations of one.
func BenchmarkAllocFree(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprintf("%dgoroutines", goroutines), func(b *testing.B) {
			forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
				each := (b.N + goroutines - 1) / goroutines
				allocFree := func(n int) {
					var all sync.WaitGroup
					for range goroutines {
						all.Go(func() {
							for range n {
								m, err := dev.NewBuffer(1 << 20)
								if err != nil {
									b.Error(err)
									return
								}
								m.Release()
							}
						})
					}
					all.Wait()
				}
				allocFree(100)
				b.ReportAllocs()
				b.ResetTimer()
				allocFree(each)
				b.StopTimer()
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(each), "ns/each")
			})
		})
	}
}

// BenchmarkTrace replays a random sequence of a million allocations. It compares the peak
// of the held memory, and the memory held at the end, with the peak in use.
func BenchmarkTrace(b *testing.B) {
	for name, sizes := range map[string]trace.Sizes{"uniform": trace.Uniform, "mixed": trace.Mixed} {
		b.Run(name, func(b *testing.B) {
			forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
				_, total, err := dev.MemInfo()
				require.NoError(b, err)
				played := trace.Trace{Seed: 1, Sizes: sizes, Allocations: 1_000_000, Live: 4 << 30}
				if total < 4*played.Live { // the simulated device
					played.Allocations, played.Live = 5000, total/4
				}
				for b.Loop() {
					playTrace(b, dev, played)
				}
			})
		})
	}
}

func playTrace(b *testing.B, dev *cudabuf.Device, played trace.Trace) {
	p, err := dev.NewPool(cudabuf.PoolOptions{})
	require.NoError(b, err)
	buffers := make([]*cudabuf.Buffer, played.Allocations)
	var used, peak int64
	require.NoError(b, played.Run(func(i int, size int64) (err error) {
		used += size
		peak = max(peak, used)
		buffers[i], err = p.Alloc(size)
		return err
	}, func(i int) error {
		used -= buffers[i].Len()
		buffers[i].Release()
		return nil
	}))
	s := p.Stats()
	b.ReportMetric(float64(s.Held)/float64(peak), "end/peak")
	b.ReportMetric(float64(s.PeakHeld)/float64(peak), "held/peak")
	require.NoError(b, p.Close())
}

// BenchmarkAllocOn allocates 1 MiB for a stream and releases it.
func BenchmarkAllocOn(b *testing.B) {
	for _, kind := range []cudabuf.PoolKind{cudabuf.CachingPool, cudabuf.StreamOrderedPool} {
		b.Run(kind.String(), func(b *testing.B) {
			forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
				p, err := dev.NewPool(cudabuf.PoolOptions{Kind: kind})
				require.NoError(b, err)
				s := streamOf(b, dev)
				benchmarkStream(b, s, func() error {
					m, err := p.AllocOn(1<<20, s)
					if err == nil {
						m.Release()
					}
					return err
				})
			})
		})
	}
}

// BenchmarkDriverCall measures a driver call that does nothing.
func BenchmarkDriverCall(b *testing.B) {
	forEachDevice(b, func(b *testing.B, dev *cudabuf.Device) {
		for b.Loop() {
			if err := dev.DriverCall(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
