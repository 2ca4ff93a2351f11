package ndview_test

import (
	"fmt"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// benchmarkTypes are those of the records of elementwise operations.
var benchmarkTypes = []ndview.DType{ndview.Int8, ndview.Int32, ndview.Int64, ndview.Float16, ndview.Float32, ndview.Float64}

// matrix is an array of size bytes with rows of 16384 elements, of small values.
func matrix(b *testing.B, dev arrowbuf.Device, dtype ndview.DType, size int64) *ndview.NDBuffer {
	a := filled(b, dev, dtype, size, piece(1, 3))
	m, err := a.Reshape(size/dtype.Size()/16384, 16384)
	return own(b, m, err)
}

// BenchmarkElementwise is named by operation, type and what the second operand
// is: all elements, a row, a column or a scalar. Its arrays are of 1 GiB.
func BenchmarkElementwise(b *testing.B) {
	for _, op := range []ndview.Binary{ndview.Add, ndview.Multiply, ndview.Less} {
		for _, dtype := range benchmarkTypes {
			for _, second := range []string{"all", "row", "column", "scalar"} {
				b.Run(fmt.Sprintf("%s-%s-%s", op, dtype, second), func(b *testing.B) {
					benchmarkBinary(b, op, dtype, second)
				})
			}
		}
	}
}

func benchmarkBinary(b *testing.B, op ndview.Binary, dtype ndview.DType, second string) {
	benchmark(b, 1<<30, 3, func(b *testing.B, dev arrowbuf.Device, size int64) {
		x := matrix(b, dev, dtype, size)
		out, err := op.Of(x, x)
		own(b, out, err)
		var y any = 1
		bytes := x.NBytes() + out.NBytes()
		if second != "scalar" {
			operand := part(b, matrix(b, dev, dtype, size), second)
			bytes += operand.NBytes()
			y = operand
		}
		loop(b, dev, bytes, func() error { return op.Into(out, x, y) })
	})
}

// part is the matrix, its first row or its first column.
func part(b *testing.B, m *ndview.NDBuffer, which string) *ndview.NDBuffer {
	keys := map[string][]ndview.Key{"all": {}, "row": {ndview.At(0)}, "column": {ndview.All, ndview.Span(0, 1)}}[which]
	a, err := m.Index(keys...)
	return own(b, a, err)
}

// BenchmarkWhere is named by type and condition.
func BenchmarkWhere(b *testing.B) {
	for _, dtype := range benchmarkTypes {
		for _, condition := range []string{"all", "row", "column"} {
			b.Run(fmt.Sprintf("%s-%s", dtype, condition), func(b *testing.B) {
				benchmark(b, 1<<30, 4, func(b *testing.B, dev arrowbuf.Device, size int64) {
					x, y := matrix(b, dev, dtype, size), matrix(b, dev, dtype, size)
					which := part(b, matrix(b, dev, ndview.Bool, size/dtype.Size()), condition)
					out, err := ndview.Where(which, x, y)
					own(b, out, err)
					loop(b, dev, 3*x.NBytes()+which.NBytes(), func() error { return ndview.WhereInto(out, which, x, y) })
				})
			})
		}
	}
}

// BenchmarkSmall is one operation on 1,024 elements, host to host: what the call
// costs beside the launch.
func BenchmarkSmall(b *testing.B) {
	run := func(name string, of func(x, y, out *ndview.NDBuffer) func() error) {
		b.Run(name, func(b *testing.B) {
			benchmark(b, 1<<20, 3, func(b *testing.B, dev arrowbuf.Device, _ int64) {
				const n = 1024
				x, y, out := filled(b, dev, ndview.Float32, 4*n, piece(1, 1)), filled(b, dev, ndview.Float32, 4*n, piece(1, 1)), filled(b, dev, ndview.Float32, 4*n, piece(1, 1))
				b.ReportAllocs()
				loop(b, dev, 12*n, of(x, y, out))
			})
		})
	}
	run("add", func(x, y, out *ndview.NDBuffer) func() error {
		return func() error { return ndview.Add.Into(out, x, y) }
	})
	run("add-scalar", func(x, _, out *ndview.NDBuffer) func() error {
		return func() error { return ndview.Add.Into(out, x, 1.5) }
	})
	run("add-new", func(x, y, _ *ndview.NDBuffer) func() error {
		return func() error {
			a, err := ndview.Add.Of(x, y)
			if err == nil {
				a.Release()
			}
			return err
		}
	})
	run("add-row", func(x, y, out *ndview.NDBuffer) func() error {
		m, err := x.Reshape(4, 256)
		own(b, m, err)
		row, err := y.Slice(0, 0, 256)
		own(b, row, err)
		to, err := out.Reshape(4, 256)
		own(b, to, err)
		return func() error { return ndview.Add.Into(to, m, row) }
	})
	run("sqrt", func(x, _, out *ndview.NDBuffer) func() error {
		return func() error { return ndview.Sqrt.Into(out, x) }
	})
}
