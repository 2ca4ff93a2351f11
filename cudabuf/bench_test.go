package cudabuf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// The benchmarks of copies between the host and a device. MB/s are 1e6 bytes a
// second.

// hostMemory are the kinds of memory that a copy may meet.
var hostMemory = map[string]func(b *testing.B, dev *cudabuf.Device, n int64) []byte{
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
				speed(b, func(b *testing.B, dev *cudabuf.Device) {
					n := onSoftLess(b, mib<<20)
					measureCopy(b, bufferOf(b, dev, n), hostMemory[kind](b, dev, n), move)
				})
			})
		}
	}
}

// onSoftLess is how much to copy: a soft device has no speed to measure.
func onSoftLess(b *testing.B, n int64) int64 {
	if strings.HasSuffix(b.Name(), "/soft") && n > 4<<20 {
		b.Skip("for a GPU")
	}
	return n
}

func measureCopy(b *testing.B, device *cudabuf.Buffer, host []byte, move func(*cudabuf.Buffer, []byte) (int64, error)) {
	for i := 0; i < len(host); i += 4096 { // so that no copy has to bring a page in
		host[i] = byte(i >> 12)
	}
	_, err := move(device, host) // makes what copies keep
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

// BenchmarkStaging is what the parameters of copies of ordinary memory were
// chosen by: pieces and workers for 1 GiB, and from which size on it pays.
func BenchmarkStaging(b *testing.B) {
	ways := map[string]func(*cudabuf.Buffer, []byte) (int64, error){"h2d": toDevice, "d2h": toHost}
	run := func(name string, threshold, least, piece int64, workers int, size int64) {
		for _, way := range []string{"h2d", "d2h"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				speed(b, func(b *testing.B, dev *cudabuf.Device) {
					n := onSoftLess(b, size)
					require.NoError(b, dev.SetStaging(threshold, least, piece, workers))
					measureCopy(b, bufferOf(b, dev, n), make([]byte, n), ways[way])
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
		for _, least := range []int64{128, 256, 512} {
			run(fmt.Sprintf("%dKiB/least%dKiB", size, least), 1, least<<10, 2<<20, 8, size<<10)
		}
	}
}

// BenchmarkCopyRanges copies ordinary memory in one range and in as many as a batch
// of 64 columns has, whose lengths are multiples of 64 bytes or odd.
func BenchmarkCopyRanges(b *testing.B) {
	for _, c := range []struct {
		name  string
		sizes []int64
	}{{"1", []int64{1 << 40}}, {"96", []int64{19173952, 299584, 19173952, 9586944, 9586944, 9586944}}, {"96odd", []int64{19173959, 299593, 19173959, 9586983, 9586987, 9586983}}} {
		b.Run(c.name, func(b *testing.B) {
			speed(b, func(b *testing.B, dev *cudabuf.Device) {
				n := int64(1 << 30)
				if strings.HasSuffix(b.Name(), "/soft") {
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
