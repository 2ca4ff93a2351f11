package ndview_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// MB/s counts bytes read and written. BenchmarkCopyFrom, the copy of the driver
// within the device, is the limit to hold the others against.

// benchmark runs on the CPU with 1/16 of size bytes, and with all of them on the
// GPU where tests use it. All arrays together take up to room*size bytes. The
// names end in device and size, "cuda/128MiB".
func benchmark(b *testing.B, size, room int64, run func(b *testing.B, dev arrowbuf.Device, size int64)) {
	name := func(device string, size int64) string { return fmt.Sprintf("%s/%dMiB", device, size>>20) }
	b.Run(name("cpu", size/16), func(b *testing.B) { run(b, arrowbuf.CPU(), size/16) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run(name("cuda", size), func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		free, _, err := dev.MemInfo()
		require.NoError(b, err)
		if need := room*size + 64<<20; free < need {
			b.Skipf("it takes %d MiB of device memory, %d MiB are free", need>>20, free>>20)
		}
		run(b, dev, size)
	})
}

// filled returns an array of n bytes that repeats a piece.
func filled(b *testing.B, dev arrowbuf.Device, dtype ndview.DType, n int64, piece []byte) *ndview.NDBuffer {
	a, err := ndview.Empty(dev, dtype, n/dtype.Size())
	own(b, a, err)
	for pos := int64(0); pos < n; pos += int64(len(piece)) {
		_, err := a.Buffer().CopyFromHost(piece[:min(int64(len(piece)), n-pos)], pos)
		require.NoError(b, err)
	}
	return a
}

// piece returns 1 MiB, a multiple of every element's size, of one byte every
// `every` bytes.
func piece(value byte, every int) []byte {
	p := make([]byte, 1<<20)
	for i := 0; i < len(p); i += every {
		p[i] = value
	}
	return p
}

// loop measures work on a device that reads and writes n bytes a time. What it
// queues runs back to back; only the last is waited for.
func loop(b *testing.B, dev arrowbuf.Device, n int64, work func() error) {
	require.NoError(b, work(), "the first time loads the kernel")
	require.NoError(b, dev.Synchronize())
	b.SetBytes(n)
	b.ResetTimer()
	for range b.N {
		if err := work(); err != nil {
			b.Fatal(err)
		}
	}
	if err := dev.Synchronize(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
}

// BenchmarkUnpackBits starts at a byte, and Shifted within one, where nothing is
// aligned.
func BenchmarkUnpackBits(b *testing.B)        { benchmarkUnpackBits(b, 0) }
func BenchmarkUnpackBitsShifted(b *testing.B) { benchmarkUnpackBits(b, 13) }

func benchmarkUnpackBits(b *testing.B, shift int64) {
	benchmark(b, 128<<20, 9, func(b *testing.B, dev arrowbuf.Device, size int64) {
		bits := filled(b, dev, ndview.Uint8, size, piece(0x5a, 3))
		out := filled(b, dev, ndview.Bool, 8*size, piece(1, 1))
		part, err := out.Slice(0, shift, 8*size-shift)
		own(b, part, err)
		loop(b, dev, 9*size, func() error { return part.UnpackBits(bits.Buffer(), shift, false) })
	})
}

// BenchmarkPackBits is the way back.
func BenchmarkPackBits(b *testing.B)        { benchmarkPackBits(b, 0) }
func BenchmarkPackBitsShifted(b *testing.B) { benchmarkPackBits(b, 13) }

func benchmarkPackBits(b *testing.B, shift int64) {
	benchmark(b, 128<<20, 9, func(b *testing.B, dev arrowbuf.Device, size int64) {
		bits := filled(b, dev, ndview.Uint8, size, piece(0, 1))
		values := filled(b, dev, ndview.Bool, 8*size, piece(1, 1))
		part, err := values.Slice(0, shift, 8*size-shift)
		own(b, part, err)
		loop(b, dev, 9*size, func() error { return part.PackBits(bits.Buffer(), shift/2) })
	})
}

// BenchmarkTriangle counts what is kept, half of the elements, read, and all
// written.
func BenchmarkTriangle(b *testing.B) {
	benchmark(b, 1<<30, 2, func(b *testing.B, dev arrowbuf.Device, size int64) {
		a := filled(b, dev, ndview.Float32, size, piece(1, 1))
		side := int64(16 << 10)
		if size < 1<<30 {
			side /= 4
		}
		square, err := a.Reshape(side, side)
		own(b, square, err)
		loop(b, dev, size+size/2, func() error {
			c, err := square.Triu(0)
			if err == nil {
				c.Release()
			}
			return err
		})
	})
}

func BenchmarkByteSwap(b *testing.B) {
	for _, dtype := range []ndview.DType{ndview.Int16, ndview.Float32, ndview.Float64} {
		b.Run(dtype.String(), func(b *testing.B) {
			benchmark(b, 1<<30, 1, func(b *testing.B, dev arrowbuf.Device, size int64) {
				a := filled(b, dev, dtype, size, piece(1, 3))
				loop(b, dev, 2*size, a.ByteSwap)
			})
		})
	}
}

func BenchmarkCopyFrom(b *testing.B) {
	benchmark(b, 1<<30, 2, func(b *testing.B, dev arrowbuf.Device, size int64) {
		src := filled(b, dev, ndview.Uint8, size, piece(1, 1))
		dst := filled(b, dev, ndview.Uint8, size, piece(2, 1))
		loop(b, dev, 2*size, func() error { return dst.CopyFrom(src) })
	})
}

// BenchmarkFillWhere is named by how many rows of 8 bytes the mask selects.
func BenchmarkFillWhere(b *testing.B) {
	for _, every := range []int{100, 2} {
		b.Run(fmt.Sprintf("1in%d", every), func(b *testing.B) {
			benchmark(b, 1<<30, 2, func(b *testing.B, dev arrowbuf.Device, size int64) {
				values := filled(b, dev, ndview.Int64, size, piece(1, 1))
				mask := filled(b, dev, ndview.Bool, size/8, piece(1, every))
				loop(b, dev, size/8+size/int64(every), func() error { return values.FillWhere(mask, 1<<63) })
			})
		})
	}
}

// BenchmarkAsType has every pair of numbers, of which the wider ones take all of
// the size.
func BenchmarkAsType(b *testing.B) {
	for _, from := range numbers {
		for _, to := range numbers {
			b.Run(fmt.Sprintf("%s-%s", from, to), func(b *testing.B) {
				benchmark(b, 256<<20, 2, func(b *testing.B, dev arrowbuf.Device, size int64) {
					n := size / max(from.Size(), to.Size())
					src := filled(b, dev, from, n*from.Size(), piece(1, 5))
					dst := filled(b, dev, to, n*to.Size(), piece(1, 1))
					loop(b, dev, n*(from.Size()+to.Size()), func() error { return dst.Assign(src) })
				})
			})
		}
	}
}

// BenchmarkFill is named by the type of the elements. The limit is the driver's
// own fill, "memset".
func BenchmarkFill(b *testing.B) {
	b.Run("memset", func(b *testing.B) {
		benchmark(b, 1<<30, 1, func(b *testing.B, dev arrowbuf.Device, size int64) {
			a := filled(b, dev, ndview.Uint8, size, piece(1, 1))
			buf, ok := a.Buffer().(*cudabuf.Buffer)
			if !ok {
				b.Skip("only a GPU's driver has one")
			}
			stream, err := dev.(*cudabuf.Device).DefaultStream()
			require.NoError(b, err)
			loop(b, dev, size, func() error { return buf.FillAsync(0x5a, stream) })
		})
	})
	for _, v := range []any{true, int16(0x1234), float32(1.5), 2.5, complex(1.5, 2)} {
		s, err := ndview.ScalarOf(v)
		require.NoError(b, err)
		b.Run(s.Natural().String(), func(b *testing.B) {
			benchmark(b, 1<<30, 1, func(b *testing.B, dev arrowbuf.Device, size int64) {
				a := filled(b, dev, s.Natural(), size, piece(1, 1))
				loop(b, dev, size, func() error { return a.Fill(s) })
			})
		})
	}
}
