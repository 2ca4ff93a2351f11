package ndview_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/require"
)

// BenchmarkArray measures the cases of benchmarkNames on the CPU, and on the GPU if
// tests use it. Names are BenchmarkArray/DEVICE/CASE; bench/ compares each with other
// libraries. Operations write to existing memory if they can. The simulated device
// measures the cost of a call before it reaches a driver.
func BenchmarkArray(b *testing.B) {
	b.Run("simulated", func(b *testing.B) { benchmarkCases(b, []string{"small/add/float32/64"}, cudatest.NewDevice(b)) })
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
	return ndtest.Own(s.b, a, err)
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
	ndtest.Own(s.b, flat, err)
	part := func(from, to int64) *ndview.NDBuffer {
		p, err := flat.Slice(0, from, to)
		return ndtest.Own(s.b, p, err)
	}
	done := int64(len(piece))
	require.NoError(s.b, part(0, done).Assign(ndtest.FromHost(s.b, s.dev, ndview.Int8, piece, done)))
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
		bits := ndtest.Upload(s.b, s.dev, make([]byte, s.number(1)/8))
		return func() error { return x.PackBits(bits, 0) }
	}
	s.b.Fatalf("%v: no such case", s.parts)
	return nil
}

func (s *benchmarkCase) permute() func() error {
	view, out := s.permuted()
	return func() error { return out.CopyFrom(view) }
}

// permuted returns a transposed array and one in C order to copy it to.
func (s *benchmarkCase) permuted() (view, out *ndview.NDBuffer) {
	x := s.values(s.parts[1], s.shape(2)...)
	var order []int
	for _, digit := range s.parts[3] {
		order = append(order, int(digit-'0'))
	}
	view, err := x.Transpose(order...)
	ndtest.Own(s.b, view, err)
	return view, s.empty(s.parts[1], view.Shape()...)
}

func (s *benchmarkCase) strided() func() error {
	x := s.values(s.parts[2], s.shape(3)...)
	part, err := x.Index(ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, s.number(4)))
	ndtest.Own(s.b, part, err)
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
	indices := ndtest.FromHost(s.b, s.dev, ndview.Int64, list, count)
	if dtype == "int64" {
		return indices
	}
	narrow, err := indices.AsType(dtypesByName[dtype], ndview.OrderC, ndview.CastUnsafe)
	return ndtest.Own(s.b, narrow, err)
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
	ndtest.Own(s.b, some, err)
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

// benchmarkNames returns the names of the cases of a kind of device: "cuda", or "cpu"
// with smaller arrays. bench/array_cases.py explains the names, and how many bytes each
// case reads and writes.
func benchmarkNames(device string) []string {
	gpu := device == "cuda"
	side := func(size int64) int64 { // side of a square of about 1 GiB, or 64 MiB
		n := int64(16384)
		if size <= 1 {
			n = 32768
		} else if size >= 16 {
			n = 8192
		}
		if !gpu {
			n /= 4
		}
		return n
	}
	n := func(size int64) int64 { // elements of 1 GiB, or 64 MiB
		if gpu {
			return 1 << 30 / size
		}
		return 64 << 20 / size
	}
	cases := permutations(gpu, side)
	if gpu {
		cases = append(cases, randomPermutations()...)
	}
	add := func(format string, args ...any) { cases = append(cases, fmt.Sprintf(format, args...)) }

	for _, dtype := range []string{"uint8", "int16", "float32", "float64", "complex128"} {
		for _, step := range []int{2, 3, -1} {
			s := side(elementSizes[dtype])
			add("strided/gather/%s/%dx%d/%d", dtype, s, s, step)
			add("strided/scatter/%s/%dx%d/%d", dtype, s, s, step)
		}
	}
	for _, from := range numericTypes {
		for _, to := range numericTypes {
			if from == to {
				continue
			}
			elements := n(max(elementSizes[from], elementSizes[to])) // the wider type takes 1 GiB, or 32 MiB
			if !gpu {
				elements /= 2
			}
			add("astype/%s/%s/%d", from, to, elements)
		}
	}
	for _, dtype := range []string{"float32", "float64", "float16", "int8", "int32", "int64", "complex64"} {
		s := side(elementSizes[dtype])
		for _, op := range []string{"add", "multiply", "less", "where"} {
			if dtype == "complex64" && op == "less" {
				continue
			}
			for _, layout := range []string{"dense", "row", "column", "scalar"} {
				add("elementwise/%s/%s/%dx%d/%s", op, dtype, s, s, layout)
			}
		}
	}
	for _, op := range []string{"negative", "sqrt", "exp", "sin"} {
		add("elementwise/%s/float32/%d", op, n(4))
	}
	for _, dtype := range []string{"float32", "float64", "int8", "int32", "float16"} {
		size := elementSizes[dtype]
		s := side(size)
		for _, op := range []string{"sum", "max", "argmax"} {
			add("reduce/%s/%s/%dx%d/all", op, dtype, s, s)
			add("reduce/%s/%s/%dx%d/0", op, dtype, s, s)
			add("reduce/%s/%s/%dx%d/1", op, dtype, s, s)
			add("reduce/%s/%s/%dx%dx%d/1", op, dtype, s/64, 256, s/4)
			add("reduce/%s/%s/%dx4/0", op, dtype, n(size)/4)
			add("reduce/%s/%s/%dx4/1", op, dtype, n(size)/4)
			add("reduce/%s/%s/4x%d/0", op, dtype, n(size)/4)
			add("reduce/%s/%s/4x%d/1", op, dtype, n(size)/4)
		}
	}
	for _, dtype := range []string{"float32", "int8", "float64", "float16"} {
		add("allequal/%s/%d", dtype, n(elementSizes[dtype]))
		add("equal/%s/%d", dtype, n(elementSizes[dtype]))
	}
	for _, dtype := range []string{"uint8", "float32", "float64", "complex128"} {
		add("fill/%s/%d", dtype, n(elementSizes[dtype]))
		add("zeros/%s/%d", dtype, n(elementSizes[dtype]))
	}
	for _, index := range []string{"int64", "int32"} {
		add("take/float32/%d/%s/%d", n(4), index, n(4))
		add("take/float32/%dx16/%s/%d", n(64), index, n(64))
	}
	for _, step := range []int{2, 100} {
		add("compress/float32/%d/%d", n(4), step)
		add("nonzero/%d/%d", n(4), step)
		add("fillwhere/int64/%d/%d", n(8), step)
	}
	add("put/float32/%d/int64/%d", n(8), n(8))
	for _, dtype := range []string{"int16", "float32", "float64"} {
		add("byteswap/%s/%d", dtype, n(elementSizes[dtype]))
	}
	add("triu/float32/%dx%d", side(4), side(4))
	add("concatenate/float32/%dx%d/0", side(4)/2, side(4))
	add("concatenate/float32/%dx%d/1", side(4)/2, side(4))
	add("unpackbits/%d", n(8))
	add("packbits/%d", n(1))
	add("small/add/float32/1024")
	return cases
}

// permutations returns all permutations of 2 to 4 axes except the identity, for even
// and for odd extents, and some of short axes.
func permutations(gpu bool, side func(size int64) int64) []string {
	var cases []string
	for _, dtype := range []string{"uint8", "int16", "float32", "float64", "complex128"} {
		size := elementSizes[dtype]
		for _, odd := range []int64{0, 1} {
			less := func(extents ...int64) []int64 {
				for i := range extents {
					extents[i] -= odd
				}
				return extents
			}
			shapes := [][]int64{less(side(size), side(size)), less(1024, 512, 2048/size), less(128, 128, 128, 256/size)}
			if !gpu {
				shapes = [][]int64{less(side(size), side(size)), less(128, 256, 1024/size), less(64, 64, 64, 128/size)}
			}
			for _, shape := range shapes {
				for _, order := range axisOrders(len(shape)) {
					cases = append(cases, fmt.Sprintf("permute/%s/%s/%s", dtype, joinExtents(shape), order))
				}
			}
		}
		if gpu { // short axes, several per block
			n := int64(1<<30) / size
			for _, c := range []string{
				fmt.Sprintf("%dx3/10", n/3), fmt.Sprintf("3x%d/10", n/3), fmt.Sprintf("31x31x%d/210", n/961), fmt.Sprintf("%dx31x31/021", n/961),
				fmt.Sprintf("100x%dx100/210", n/10000), fmt.Sprintf("2000x120x%d/021", n/240000), fmt.Sprintf("%dx12x5x8/2130", n/480), fmt.Sprintf("255x127x127x%d/2130", 256/size-1),
			} {
				cases = append(cases, fmt.Sprintf("permute/%s/%s", dtype, c))
			}
		}
	}
	return cases
}

// randomPermutations returns random permutations of 2 to 4 axes of about 512 MiB, with
// a fixed seed: one third have odd extents, one third even ones, one third multiples
// of 8.
func randomPermutations() []string {
	var cases []string
	r := rand.New(rand.NewPCG(12, 3))
	for _, dtype := range []string{"uint8", "int16", "float32", "float64", "complex128"} {
		for i := range 12 {
			parts, all := make([]float64, 2+r.IntN(3)), 0.0
			for k := range parts {
				parts[k] = 1 + r.Float64()
				all += parts[k]
			}
			shape := make([]int64, len(parts))
			for k, part := range parts {
				extent := int64(math.Pow(float64(512<<20/elementSizes[dtype]), part/all))
				shape[k] = []int64{extent | 1, extent &^ 1, extent &^ 7}[i%3]
			}
			some := axisOrders(len(shape))
			cases = append(cases, fmt.Sprintf("arbitrary/%s/%s/%s", dtype, joinExtents(shape), some[r.IntN(len(some))]))
		}
	}
	return cases
}

// joinExtents joins extents with x.
func joinExtents(shape []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", "x"), "[]")
}

// axisOrders returns the permutations of n axes as digits, without the identity.
func axisOrders(n int) []string {
	all := []string{""}
	for range n {
		var longer []string
		for _, order := range all {
			for axis := range n {
				if digit := fmt.Sprint(axis); !strings.Contains(order, digit) {
					longer = append(longer, order+digit)
				}
			}
		}
		all = longer
	}
	return all[1:]
}

var elementSizes = map[string]int64{
	"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
	"int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}

var numericTypes = []string{
	"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
	"float16", "bfloat16", "float32", "float64", "complex64", "complex128",
}

// BenchmarkCopyKernels measures every kernel that can do each permuted copy of
// BenchmarkArray, on a GPU. Names are BenchmarkCopyKernels/CASE/KERNEL. The rules of
// internal/stridedcopy, which choose a kernel, are fitted to its record.
func BenchmarkCopyKernels(b *testing.B) {
	if !cudatest.OnGPU() {
		b.Skip("compares kernels on a GPU")
	}
	driver, err := cudabuf.Open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, driver.Close()) })
	dev, err := driver.Device(0)
	require.NoError(b, err)
	for _, name := range benchmarkNames("cuda") {
		if !strings.HasPrefix(name, "permute/") && !strings.HasPrefix(name, "arbitrary/") {
			continue
		}
		b.Run(name, func(b *testing.B) {
			s := newBenchmarkCase(b, dev, name)
			src, dst := s.permuted()
			want := s.empty(s.parts[1], dst.Shape()...)
			require.NoError(b, want.CopyFrom(src))
			candidates, err := ndview.CopyCandidates(dst, src)
			require.NoError(b, err)
			for _, c := range candidates {
				b.Run(c.Kernel, func(b *testing.B) {
					require.NoError(b, dst.Zero())
					require.NoError(b, c.Run(), "the first launch loads the kernel")
					require.NoError(b, requireEqualArrays(dst.Equal(want)))
					b.ResetTimer()
					for range b.N {
						if err := c.Run(); err != nil {
							b.Fatal(err)
						}
					}
					require.NoError(b, dev.Synchronize())
				})
			}
		})
	}
}
