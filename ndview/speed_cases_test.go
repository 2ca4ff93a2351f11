package ndview_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// What BenchmarkArray measures, by name; bench/array_cases.py says what the
// names mean, and how many bytes each reads and writes. Sizes are those of a
// GPU; on the CPU the extents that scale are smaller.

// benchmarkNames returns the cases of a kind of device: "cuda", or "cpu" with smaller
// arrays.
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
