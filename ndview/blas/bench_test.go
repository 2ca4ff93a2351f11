package blas_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/blas"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

// benchmarkTypes are the dtypes by their names in benchmarks; tf32 is float32.
var benchmarkTypes = map[string]ndview.DType{
	"bf16": ndview.BFloat16, "f16": ndview.Float16, "f32": ndview.Float32, "tf32": ndview.Float32, "f64": ndview.Float64,
	"c64": ndview.Complex64, "fp8": ndview.Uint8, "i32": ndview.Int32, "i8": ndview.Int8,
}

// batches has the number of matrices of a batch by their rows.
var batches = map[int64]int64{64: 4096, 128: 2048, 256: 512, 512: 128, 1024: 32}

// BenchmarkProduct measures small products on the CPU.
func BenchmarkProduct(b *testing.B) {
	for _, name := range []string{"gemm/f32/256", "gemm/f64/256", "gemm/bf16/256", "gemm/c64/256", "gemm/i32/256"} {
		b.Run("cpu/"+name, func(b *testing.B) {
			work := benchmarkCase(b, arrowbuf.CPU(), name)
			for b.Loop() {
				if err := work(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTurns measures cases on a GPU when bench/gpu/blas.py asks for them, so that it
// can let the peers take turns. Each line of the input is the name of a case, and each
// reply "turn TIME" in us. The arrays of a case remain until another one is named.
func BenchmarkTurns(b *testing.B) {
	if !cudatest.OnGPU() {
		b.Skip("needs a GPU")
	}
	driver, err := cudabuf.Open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, driver.Close()) })
	dev, err := driver.Device(0)
	require.NoError(b, err)
	lines := bufio.NewScanner(os.Stdin)
	more := lines.Scan()
	for more {
		name := lines.Text()
		b.Run(name, func(b *testing.B) {
			measure := timerOnGPU(b, dev, name)
			for more && lines.Text() == name {
				fmt.Printf("\nturn %.3f\n", float64(measure().Nanoseconds())/1e3)
				more = lines.Scan()
			}
		})
	}
}

// benchmarkCase returns a function that computes the product of a case.
func benchmarkCase(b *testing.B, dev arrowbuf.Device, name string) func() error {
	b.Helper()
	var operation, typeName string
	var n int64
	_, err := fmt.Sscanf(strings.ReplaceAll(name, "/", " "), "%s %s %d", &operation, &typeName, &n)
	require.NoError(b, err)
	dtype, o := benchmarkTypes[typeName], blas.Options{TF32: typeName == "tf32"}
	array := func(shape ...int64) *ndview.NDBuffer { return noise(b, dev, dtype, shape...) }
	switch operation {
	case "gemm":
		if typeName == "fp8" {
			x := array(n, n)
			y, err := array(n, n).Transpose()
			ndtest.Own(b, y, err)
			return func() error {
				z, err := blas.MatMulFloat8(x, y, blas.Float8Options{DType: ndview.BFloat16})
				if err != nil {
					return err
				}
				z.Release()
				return nil
			}
		}
		x, y, z := array(n, n), array(n, n), array(n, n)
		return func() error { return blas.GemmInto(z, x, y, o) }
	case "batch":
		x, y, z := array(batches[n], n, n), array(batches[n], n, n), array(batches[n], n, n)
		return func() error { return blas.GemmInto(z, x, y, o) }
	case "gemv", "gemvt":
		a, x, y := array(4/dtype.Size()*n, n), array(n), array(4/dtype.Size()*n)
		if operation == "gemvt" {
			x, y, o.TransA = y, x, blas.Transpose
		}
		return func() error { return blas.GemvInto(y, a, x, o) }
	case "ger":
		a, x, y := array(n, n), array(n), array(n)
		o.Alpha = 1e-3 // the matrix stays finite
		return func() error { return blas.GerInto(a, x, y, o) }
	case "outer":
		a, x, y := array(n, n), array(n), array(n)
		o.Beta = 0
		return func() error { return blas.GerInto(a, x, y, o) }
	case "dot":
		x, y, z := array(n), array(n), array()
		return func() error { return blas.DotInto(z, x, y, o) }
	}
	b.Fatalf("no case %q", name)
	return nil
}

// noise returns an array of normally distributed numbers, of random integers, or of 8-bit
// floats. They repeat after a million.
func noise(b *testing.B, dev arrowbuf.Device, dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
	b.Helper()
	a, err := ndview.Empty(dev, dtype, shape...)
	ndtest.Own(b, a, err)
	r := rand.New(rand.NewPCG(1, uint64(len(shape))))
	part := min(max(a.Size(), 1), 1<<20)
	values := make([]float64, part)
	for i := range values {
		values[i] = r.NormFloat64()
		switch {
		case dtype == ndview.Uint8: // E4M3 from 1/8 to 15/8, of both signs
			values[i] = float64(r.IntN(32) + 0x20 | r.IntN(2)<<7)
		case dtype.IsInteger():
			values[i] = float64(r.IntN(100) - 50)
		}
	}
	wide, err := ndview.FromHost(dev, ndview.Float64, values, part)
	require.NoError(b, err)
	defer wide.Release()
	narrow, err := wide.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
	require.NoError(b, err)
	defer narrow.Release()
	flat, err := a.Reshape(-1, part)
	require.NoError(b, err)
	defer flat.Release()
	require.NoError(b, flat.CopyFrom(narrow))
	return a
}

// timerOnGPU returns a function that measures a case: the time of a call on the GPU or, of
// "launch", on the host.
func timerOnGPU(b *testing.B, dev *cudabuf.Device, name string) func() time.Duration {
	if size, ok := strings.CutPrefix(name, "launch/"); ok {
		work := benchmarkCase(b, dev, "gemm/"+size)
		return func() time.Duration { return launchTime(b, dev, work) }
	}
	work := benchmarkCase(b, dev, name)
	s, err := dev.DefaultStream()
	require.NoError(b, err)
	start, err := dev.NewEvent(cudabuf.EventOptions{Timing: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, start.Close()) })
	end, err := dev.NewEvent(cudabuf.EventOptions{Timing: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, end.Close()) })
	run := func(n int) time.Duration {
		require.NoError(b, s.Record(start))
		for range n {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, s.Record(end))
		require.NoError(b, end.Synchronize())
		took, err := end.Since(start)
		require.NoError(b, err)
		return took
	}
	n := 0
	return func() time.Duration {
		run(1)
		if n == 0 {
			n = max(1, int(30*time.Millisecond/max(run(1), time.Microsecond)))
		}
		return run(n) / time.Duration(n)
	}
}

// launchTime returns the host's time per call.
func launchTime(b *testing.B, dev *cudabuf.Device, work func() error) time.Duration {
	const n = 500
	best := time.Hour
	for range 20 {
		require.NoError(b, dev.Synchronize())
		before := time.Now()
		for range n {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
		best = min(best, time.Since(before))
	}
	return best / n
}
