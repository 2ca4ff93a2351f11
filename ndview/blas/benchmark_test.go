package blas_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/blas"
)

// benchmarkTypes are the dtypes by their names in benchmarks; tf32 is float32.
var benchmarkTypes = map[string]ndview.DType{
	"bf16": ndview.BFloat16, "f16": ndview.Float16, "f32": ndview.Float32, "tf32": ndview.Float32, "f64": ndview.Float64,
	"c64": ndview.Complex64, "i32": ndview.Int32, "i8": ndview.Int8,
}

// batches has the number of matrices of a batch by their rows.
var batches = map[int64]int64{64: 4096, 128: 2048, 256: 512, 512: 128, 1024: 32}

// BenchmarkProduct measures the cases of bench/gpu/blas.py on a GPU: gpu-us is the time of
// a product on the GPU. On other devices it measures small products.
func BenchmarkProduct(b *testing.B) {
	if !cudatest.OnGPU() {
		for _, name := range []string{"gemm/f32/256", "gemm/f64/256", "gemm/bf16/256", "gemm/c64/256", "gemm/i32/256"} {
			b.Run("cpu/"+name, func(b *testing.B) { benchmarkOnHost(b, name) })
		}
		return
	}
	driver, err := cudabuf.Open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, driver.Close()) })
	dev, err := driver.Device(0)
	require.NoError(b, err)
	var names []string
	for _, dtype := range []string{"bf16", "f16", "tf32", "f32", "f64", "c64"} {
		names = append(names, "gemm/"+dtype+"/8192")
	}
	for _, n := range []int64{64, 128, 256, 512, 1024} {
		names = append(names, fmt.Sprintf("batch/bf16/%d", n), fmt.Sprintf("batch/f32/%d", n))
	}
	names = append(names, "gemm/i32/2048", "gemm/i8/2048", "gemv/f32/16384", "gemvt/f32/16384", "gemv/bf16/16384", "gemvt/bf16/16384",
		"ger/f32/16384", "outer/f32/16384", "dot/f32/134217728", "dot/bf16/268435456", "dot/i32/134217728")
	for _, name := range names {
		b.Run(name, func(b *testing.B) { benchmarkOnGPU(b, dev, name) })
	}
	b.Run("launch/f32/64", func(b *testing.B) { benchmarkLaunch(b, dev) })
}

// benchmarkCase returns a function that computes the product of a case.
func benchmarkCase(b *testing.B, dev arrowbuf.Device, name string) func() error {
	b.Helper()
	var operation, typeName string
	var n int64
	_, err := fmt.Sscanf(name, "%s %s %d", &operation, &typeName, &n)
	require.NoError(b, err)
	dtype, o := benchmarkTypes[typeName], blas.Options{TF32: typeName == "tf32"}
	array := func(shape ...int64) *ndview.NDBuffer { return noise(b, dev, dtype, shape...) }
	switch operation {
	case "gemm":
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

// noise returns an array of normally distributed numbers, or of random integers. They
// repeat after a million.
func noise(b *testing.B, dev arrowbuf.Device, dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
	b.Helper()
	a, err := ndview.Empty(dev, dtype, shape...)
	own(b, a, err)
	r := rand.New(rand.NewPCG(1, uint64(len(shape))))
	part := min(max(a.Size(), 1), 1<<20)
	values := make([]float64, part)
	for i := range values {
		values[i] = r.NormFloat64()
		if dtype.IsInteger() {
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

func benchmarkOnGPU(b *testing.B, dev *cudabuf.Device, name string) {
	work := benchmarkCase(b, dev, spaced(name))
	s, err := dev.DefaultStream()
	require.NoError(b, err)
	start, err := dev.NewEvent(cudabuf.EventOptions{Timing: true})
	require.NoError(b, err)
	end, err := dev.NewEvent(cudabuf.EventOptions{Timing: true})
	require.NoError(b, err)
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
	run(1)
	n := max(3, int(100*time.Millisecond/max(run(1), time.Microsecond)))
	b.ResetTimer()
	took := run(n)
	b.ReportMetric(float64(took.Nanoseconds())/1e3/float64(n), "gpu-us")
	require.NoError(b, start.Close())
	require.NoError(b, end.Close())
}

// benchmarkLaunch measures the host's time per small product.
func benchmarkLaunch(b *testing.B, dev *cudabuf.Device) {
	work := benchmarkCase(b, dev, "gemm f32 64")
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
	b.ReportMetric(float64(best.Nanoseconds())/1e3/n, "host-us")
}

func benchmarkOnHost(b *testing.B, name string) {
	work := benchmarkCase(b, arrowbuf.CPU(), spaced(name))
	for b.Loop() {
		if err := work(); err != nil {
			b.Fatal(err)
		}
	}
}

// spaced returns a name with its parts separated by spaces.
func spaced(name string) string { return strings.ReplaceAll(name, "/", " ") }
