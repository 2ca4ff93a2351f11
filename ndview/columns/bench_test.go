package columns_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// speed runs a benchmark for columns of several types on the CPU, and on the GPU if
// tests use one. It reports 1e6 bytes of the result per second, including offsets and
// bitmaps.
func speed(b *testing.B, prepare func(b *testing.B, column arrow.Array) func() (arrow.Array, error)) {
	b.Run("cpu", func(b *testing.B) { eachSpeed(b, arrowbuf.CPU(), 1<<21, prepare) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run("cuda", func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		eachSpeed(b, dev, 1<<26, prepare)
	})
}

func eachSpeed(b *testing.B, dev arrowbuf.Device, n int, prepare func(b *testing.B, column arrow.Array) func() (arrow.Array, error)) {
	for _, c := range []struct {
		name   string
		column func() arrow.ArrayData
	}{
		{"int32", func() arrow.ArrayData {
			return fixedColumn(arrow.PrimitiveTypes.Int32.(arrow.FixedWidthDataType), n, false)
		}},
		{"float64-nulls", func() arrow.ArrayData {
			return fixedColumn(arrow.PrimitiveTypes.Float64.(arrow.FixedWidthDataType), n, true)
		}},
		{"utf8-8", func() arrow.ArrayData { return textColumn(n, 8) }},
		{"utf8-40", func() arrow.ArrayData { return textColumn(n/2, 40) }},
		{"utf8-1000", func() arrow.ArrayData { return textColumn(n/64, 1000) }},
		{"list-int16", func() arrow.ArrayData { return listColumn(n/4, 10) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			host := hostColumn(c.name, n, c.column)
			column, err := arrowbuf.CopyArrayTo(host, dev)
			require.NoError(b, err)
			defer column.Release()
			call := prepare(b, column)
			bytes := int64(0)
			once := func() {
				made, err := call()
				if err != nil {
					b.Fatal(err)
				}
				bytes = sizeOf(made.Data())
				made.Release()
			}
			once() // loads the kernels
			require.NoError(b, dev.Synchronize())
			b.SetBytes(bytes)
			b.ResetTimer()
			for range b.N {
				once()
			}
			require.NoError(b, dev.Synchronize())
			b.StopTimer()
		})
	}
}

// made caches the host columns: making one takes longer than measuring.
var made = map[string]arrow.Array{}

func hostColumn(name string, n int, column func() arrow.ArrayData) arrow.Array {
	key := fmt.Sprint(name, n)
	if made[key] == nil {
		made[key] = array.MakeFromData(column())
	}
	return made[key]
}

// sizeOf returns the total size of an array's buffers.
func sizeOf(data arrow.ArrayData) (n int64) {
	for _, b := range data.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, child := range data.Children() {
		n += sizeOf(child)
	}
	return n
}

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n, n+64)
	for i := 0; i+8 <= n; i += 8 {
		v := r.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8*k + 1) & 0x7f)
		}
	}
	return b
}

func fixedColumn(dtype arrow.FixedWidthDataType, n int, nulls bool) arrow.ArrayData {
	buffers, unknown := []*memory.Buffer{nil, memory.NewBufferBytes(randomBytes(n * dtype.Bytes()))}, 0
	if nulls {
		buffers[0], unknown = memory.NewBufferBytes(randomBytes(n/8+1)), array.UnknownNullCount
	}
	return array.NewData(dtype, n, buffers, nil, unknown, 0)
}

// offsetsFor returns the offsets of n ranges with an average number of values, and
// their total.
func offsetsFor(n, average int) ([]int32, int) {
	r := rand.New(rand.NewPCG(3, 4))
	offsets := make([]int32, n+1)
	for i := range n {
		offsets[i+1] = offsets[i] + r.Int32N(int32(2*average+1))
	}
	return offsets, int(offsets[n])
}

func textColumn(n, average int) arrow.ArrayData {
	offsets, size := offsetsFor(n, average)
	return array.NewData(arrow.BinaryTypes.String, n,
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes(randomBytes(size))}, nil, 0, 0)
}

func listColumn(n, average int) arrow.ArrayData {
	offsets, size := offsetsFor(n, average)
	values := fixedColumn(arrow.PrimitiveTypes.Int16.(arrow.FixedWidthDataType), size, false)
	defer values.Release()
	return array.NewData(arrow.ListOf(arrow.PrimitiveTypes.Int16), n,
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, []arrow.ArrayData{values}, 0, 0)
}

// BenchmarkTake takes as many random elements as the column has.
func BenchmarkTake(b *testing.B) {
	speed(b, func(b *testing.B, column arrow.Array) func() (arrow.Array, error) {
		r := rand.New(rand.NewPCG(5, 6))
		list := make([]int32, column.Len())
		for i := range list {
			list[i] = r.Int32N(int32(column.Len()))
		}
		indices, err := arrowbuf.CopyArrayTo(columns.Indices(list...), arrowbuf.DeviceOf(column))
		require.NoError(b, err)
		b.Cleanup(indices.Release)
		return func() (arrow.Array, error) { return columns.Take(column, indices) }
	})
}

// BenchmarkFilter keeps a random half of the elements.
func BenchmarkFilter(b *testing.B) {
	speed(b, func(b *testing.B, column arrow.Array) func() (arrow.Array, error) {
		bits := randomBytes(column.Len()/8 + 8)
		for i := range bits {
			bits[i] = bits[i]<<1 ^ bits[(i+3)%len(bits)]
		}
		data := array.NewData(arrow.FixedWidthTypes.Boolean, column.Len(), []*memory.Buffer{nil, memory.NewBufferBytes(bits)}, nil, 0, 0)
		defer data.Release()
		mask, err := arrowbuf.CopyArrayTo(array.MakeFromData(data), arrowbuf.DeviceOf(column))
		require.NoError(b, err)
		b.Cleanup(mask.Release)
		return func() (arrow.Array, error) { return columns.Filter(column, mask) }
	})
}

// BenchmarkConcatenate joins four slices of a column.
func BenchmarkConcatenate(b *testing.B) {
	speed(b, func(b *testing.B, column arrow.Array) func() (arrow.Array, error) {
		var parts []arrow.Array
		for k := range 4 {
			parts = append(parts, arrowbuf.NewSlice(column, int64(column.Len()*k/4+1), int64(column.Len()*(k+1)/4)))
			b.Cleanup(parts[k].Release)
		}
		return func() (arrow.Array, error) { return columns.Concatenate(parts...) }
	})
}

// The columns are of float64, and one has nulls.
func BenchmarkCompute(b *testing.B) {
	b.Run("cpu", func(b *testing.B) { computeSpeed(b, arrowbuf.CPU(), 1<<21) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run("cuda", func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		computeSpeed(b, dev, 1<<26)
	})
}

func computeSpeed(b *testing.B, dev arrowbuf.Device, n int) {
	var in [2]arrow.Array
	for i := range in {
		data := fixedColumn(arrow.PrimitiveTypes.Float64.(arrow.FixedWidthDataType), n, i == 0)
		host := array.MakeFromData(data)
		moved, err := arrowbuf.CopyArrayTo(host, dev)
		require.NoError(b, err)
		host.Release()
		b.Cleanup(moved.Release)
		in[i] = moved
	}
	evaluate := func(e columns.Expr) func() error {
		return func() error {
			out, err := e.Eval()
			if err == nil {
				out.Release()
			}
			return err
		}
	}
	for _, c := range []struct {
		name  string
		bytes int // per row that are read and written, without bitmaps
		work  func() error
	}{
		{"multiply", 24, evaluate(columns.Multiply(in[0], in[1]))},
		{"greater", 16, evaluate(columns.Greater(in[0], in[1]))},
		{"fill_null", 16, evaluate(columns.FillNull(in[0], 0))},
		{"sum", 8, func() error { _, err := columns.Sum(in[0]); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			require.NoError(b, c.work()) // loads the kernels
			require.NoError(b, dev.Synchronize())
			b.SetBytes(int64(n * c.bytes))
			b.ResetTimer()
			for range b.N {
				if err := c.work(); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, dev.Synchronize())
			b.StopTimer()
		})
	}
}
