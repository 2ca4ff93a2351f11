package ndview_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// BenchmarkArray measures the cases of benchmarkNames on the CPU, and on the GPU if
// tests use it. Names are BenchmarkArray/DEVICE/CASE; bench/ compares each with other
// libraries. Operations write to existing memory if they can. The simulated device
// measures the cost of a call before it reaches a driver.
func BenchmarkArray(b *testing.B) {
	b.Run("soft", func(b *testing.B) { benchmarkCases(b, []string{"small/add/float32/64"}, cudatest.NewDevice(b)) })
	b.Run("cpu", func(b *testing.B) { benchmarkCases(b, benchmarkNames("cpu"), arrowbuf.CPU()) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run("cuda", func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		benchmarkCases(b, benchmarkNames("cuda"), dev)
	})
}

func benchmarkCases(b *testing.B, names []string, dev arrowbuf.Device) {
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			work := newBenchmarkCase(b, dev, name).operation()
			require.NoError(b, work(), "the first run loads the kernel")
			require.NoError(b, dev.Synchronize())
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
		})
	}
}

// benchmarkCase is one case, with the parts of its name.
type benchmarkCase struct {
	b     *testing.B
	dev   arrowbuf.Device
	parts []string
}

func newBenchmarkCase(b *testing.B, dev arrowbuf.Device, name string) *benchmarkCase {
	return &benchmarkCase{b: b, dev: dev, parts: strings.Split(name, "/")}
}

func (s *benchmarkCase) number(i int) int64 {
	n, err := strconv.ParseInt(s.parts[i], 10, 64)
	require.NoError(s.b, err)
	return n
}

func (s *benchmarkCase) shape(i int) []int64 {
	var shape []int64
	for text := range strings.SplitSeq(s.parts[i], "x") {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(s.b, err)
		shape = append(shape, n)
	}
	return shape
}

func (s *benchmarkCase) empty(dtype string, shape ...int64) *ndview.NDBuffer {
	a, err := ndview.Empty(s.dev, dtypesByName[dtype], shape...)
	return own(s.b, a, err)
}

// values returns an array of the elements 0, 1, ... 112, 0, ...
func (s *benchmarkCase) values(dtype string, shape ...int64) *ndview.NDBuffer {
	a := s.empty(dtype, shape...)
	n := a.Size()
	piece := make([]int8, min(n, 113<<10))
	for i := range piece {
		piece[i] = int8(i % 113)
	}
	flat, err := a.Reshape(n)
	own(s.b, flat, err)
	part := func(from, to int64) *ndview.NDBuffer {
		p, err := flat.Slice(0, from, to)
		return own(s.b, p, err)
	}
	done := int64(len(piece))
	require.NoError(s.b, part(0, done).Assign(fromHost(s.b, s.dev, ndview.Int8, piece, done)))
	for ; done < n; done *= 2 {
		more := min(done, n-done)
		require.NoError(s.b, part(done, done+more).CopyFrom(part(0, more)))
	}
	return a
}

func (s *benchmarkCase) operation() func() error {
	switch s.parts[0] {
	case "permute", "arbitrary":
		return s.permute()
	case "strided":
		return s.strided()
	case "astype":
		from, to := s.values(s.parts[1], s.shape(3)...), s.empty(s.parts[2], s.shape(3)...)
		return func() error { return to.Assign(from) }
	case "elementwise", "small":
		return s.elementwise()
	case "reduce":
		return s.reduce()
	case "allequal":
		x, y := s.values(s.parts[1], s.shape(2)...), s.values(s.parts[1], s.shape(2)...)
		return func() error { return requireEqualArrays(x.AllEqual(y, true)) }
	case "equal":
		x, y := s.values(s.parts[1], s.shape(2)...), s.values(s.parts[1], s.shape(2)...)
		return func() error { return requireEqualArrays(x.Equal(y)) }
	case "fill":
		x := s.empty(s.parts[1], s.shape(2)...)
		return func() error { return x.Fill(3) }
	case "zeros":
		x := s.empty(s.parts[1], s.shape(2)...)
		return x.Zero
	case "take":
		return s.take()
	case "compress":
		return s.compress()
	case "put":
		x, indices := s.values(s.parts[1], s.shape(2)...), s.indices(s.parts[3], s.number(2), s.number(4))
		values := s.values(s.parts[1], s.number(4))
		return func() error { return ndview.Put(x, indices, values, ndview.ModeRaise) }
	case "nonzero":
		mask := s.mask(s.number(1), s.number(2))
		return func() error {
			places, err := ndview.NonZero(mask)
			if err != nil {
				return err
			}
			return releaseResult(places[0], nil)
		}
	case "fillwhere":
		x, mask := s.values(s.parts[1], s.number(2)), s.mask(s.number(2), s.number(3))
		return func() error { return x.FillWhere(mask, 1<<63) }
	case "byteswap":
		return s.values(s.parts[1], s.shape(2)...).ByteSwap
	case "triu":
		x := s.values(s.parts[1], s.shape(2)...)
		return func() error { return releaseResult(x.Triu(0)) }
	case "concatenate":
		parts := []*ndview.NDBuffer{s.values(s.parts[1], s.shape(2)...), s.values(s.parts[1], s.shape(2)...)}
		return func() error { return releaseResult(ndview.Concatenate(parts, int(s.number(3)))) }
	case "unpackbits":
		bits, out := s.values("uint8", s.number(1)), s.empty("bool", 8*s.number(1))
		return func() error { return out.UnpackBits(bits.Buffer(), 0, false) }
	case "packbits":
		x := s.values("bool", s.number(1))
		bits := upload(s.b, s.dev, make([]byte, s.number(1)/8))
		return func() error { return x.PackBits(bits, 0) }
	}
	s.b.Fatalf("%v: no such case", s.parts)
	return nil
}

func (s *benchmarkCase) permute() func() error {
	x := s.values(s.parts[1], s.shape(2)...)
	var order []int
	for _, digit := range s.parts[3] {
		order = append(order, int(digit-'0'))
	}
	view, err := x.Transpose(order...)
	own(s.b, view, err)
	out := s.empty(s.parts[1], view.Shape()...)
	return func() error { return out.CopyFrom(view) }
}

func (s *benchmarkCase) strided() func() error {
	x := s.values(s.parts[2], s.shape(3)...)
	part, err := x.Index(ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, s.number(4)))
	own(s.b, part, err)
	y := s.values(s.parts[2], part.Shape()...)
	if s.parts[1] == "scatter" {
		return func() error { return part.CopyFrom(y) }
	}
	return func() error { return y.CopyFrom(part) }
}

func (s *benchmarkCase) elementwise() func() error {
	op, dtype, shape := s.parts[1], s.parts[2], s.shape(3)
	x := s.values(dtype, shape...)
	unary := map[string]ndview.Unary{"negative": ndview.Negative, "sqrt": ndview.Sqrt, "exp": ndview.Exp, "sin": ndview.Sin}
	if f, ok := unary[op]; ok {
		out := s.empty(dtype, shape...)
		return func() error { return f.Into(out, x) }
	}
	var y any
	switch layout := s.parts[len(s.parts)-1]; layout {
	case "row":
		y = s.values(dtype, shape[1:]...)
	case "column":
		y = s.values(dtype, shape[0], 1)
	case "scalar":
		y = 3
	default:
		y = s.values(dtype, shape...)
	}
	if op == "where" {
		mask := s.values("bool", shape...)
		return func() error { return releaseResult(ndview.Where(mask, x, y)) }
	}
	f, result := map[string]ndview.Binary{"add": ndview.Add, "multiply": ndview.Multiply, "less": ndview.Less}[op], dtype
	if op == "less" {
		result = "bool"
	}
	out := s.empty(result, shape...)
	return func() error { return f.Into(out, x, y) }
}

func (s *benchmarkCase) reduce() func() error {
	x := s.values(s.parts[2], s.shape(3)...)
	var o ndview.ReduceOptions
	if s.parts[4] != "all" {
		o.Axes = []int{int(s.number(4))}
	}
	f := map[string]ndview.Reduction{"sum": ndview.Sum, "max": ndview.Max, "argmax": ndview.ArgMax}[s.parts[1]]
	return func() error { return releaseResult(f.Of(x, o)) }
}

func (s *benchmarkCase) take() func() error {
	x := s.values(s.parts[1], s.shape(2)...)
	indices := s.indices(s.parts[3], x.Shape()[0], s.number(4))
	return func() error { return releaseResult(ndview.Take(x, indices, 0, ndview.ModeRaise)) }
}

// indices returns count pseudorandom indices below n.
func (s *benchmarkCase) indices(dtype string, n, count int64) *ndview.NDBuffer {
	list, state := make([]int64, count), uint64(1)
	for i := range list {
		state = state*6364136223846793005 + 1442695040888963407
		list[i] = int64((state >> 20) % uint64(n))
	}
	indices := fromHost(s.b, s.dev, ndview.Int64, list, count)
	if dtype == "int64" {
		return indices
	}
	narrow, err := indices.AsType(dtypesByName[dtype], ndview.OrderC, ndview.CastUnsafe)
	return own(s.b, narrow, err)
}

func (s *benchmarkCase) compress() func() error {
	x := s.values(s.parts[1], s.shape(2)...)
	mask := s.mask(x.Shape()[0], s.number(3))
	return func() error { return releaseResult(ndview.Compress(mask, x, 0)) }
}

// mask returns a mask of n elements of which each every-th is true.
func (s *benchmarkCase) mask(n, every int64) *ndview.NDBuffer {
	mask := s.empty("bool", n)
	require.NoError(s.b, mask.Zero())
	some, err := mask.Index(ndview.SpanStep(ndview.Open, ndview.Open, every))
	own(s.b, some, err)
	require.NoError(s.b, some.Fill(true))
	return mask
}

// releaseResult releases a result.
func releaseResult(a *ndview.NDBuffer, err error) error {
	if err == nil {
		a.Release()
	}
	return err
}

// requireEqualArrays returns an error unless arrays are equal.
func requireEqualArrays(equal bool, err error) error {
	if err == nil && !equal {
		err = fmt.Errorf("the arrays should be equal")
	}
	return err
}
