package ndview_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// A column is copied to a device once, viewed as an array and computed with. On a GPU
// the same code runs as kernels.
func Example() {
	device := must(cudabuf.OpenDevice("auto"))            // or cpu, cuda:0, GPU-UUID
	column := must(arrowbuf.CopyArrayTo(miles(), device)) // each buffer crosses the link once
	defer column.Release()
	scope := ndview.NewScope()
	defer scope.Release()                              // releases every array below
	array := must(scope.Add(ndview.FromArrow(column))) // a view of the column's memory
	km := must(ndview.Multiply.Of(array, 1.609344))
	longest := must(ndview.Max.Of(km, ndview.ReduceOptions{}))
	fmt.Println(km, longest)
	// Output: [19.312128  12.07008  48.28032] 48.28032
}

// A program that reads columns, computes and writes a column back. The scope releases
// every array that the operations make.
func ExampleScope() {
	batch := must(arrowbuf.CopyTo(orders(), arrowbuf.CPU())) // or a GPU
	defer batch.Release()
	s := ndview.NewScope()
	defer s.Release()
	price := must(s.Add(ndview.FromArrow(batch.Column(0))))
	pieces := must(s.Add(ndview.FromArrow(batch.Column(1))))

	value := must(ndview.Multiply.Of(price, pieces))
	large := must(ndview.GreaterEqual.Of(value, 100))
	toPay := must(ndview.Where(large, must(ndview.Multiply.Of(value, 0.9)), value))
	fmt.Println(toPay, must(ndview.Sum.Of(toPay, ndview.ReduceOptions{})))

	column := must(ndview.ToArrow(toPay, ndview.ArrowOptions{}))
	defer column.Release()
	fmt.Println(column)
	// Output:
	// [  5 180   9] 194
	// [5 180 9]
}

// orders returns a batch of prices and numbers of pieces in host memory.
func orders() arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "price", Type: arrow.PrimitiveTypes.Float64}, {Name: "pieces", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Float64Builder).AppendValues([]float64{2.5, 20, 9}, nil)
	b.Field(1).(*array.Int32Builder).AppendValues([]int32{2, 10, 1}, nil)
	return b.NewRecordBatch()
}

// The dtype and the shape are those of the Go values.
func ExampleFromSlice() {
	matrix := must(ndview.FromSlice(arrowbuf.CPU(), [][]float32{{1, 2, 3}, {4, 5, 6}}))
	defer matrix.Release()
	flags := must(ndview.FromSlice(arrowbuf.CPU(), []bool{true, false, true, true}, 2, -1))
	defer flags.Release()
	fmt.Printf("%#v\n%#v\n", matrix, flags)
	_, err := ndview.FromSlice(arrowbuf.CPU(), [][]float32{{1, 2, 3}, {4, 5}})
	fmt.Println(err)
	// Output:
	// NDBuffer(float32, shape=[2 3], device=cpu)
	// [[1 2 3]
	//  [4 5 6]]
	// NDBuffer(bool, shape=[2 2], device=cpu)
	// [[ true false]
	//  [ true  true]]
	// ndview.FromSlice: slice[1] has length 2, want 3 as the first: shape mismatch
}

// miles returns a column in host memory.
func miles() arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues([]float64{12, 7.5, 30}, nil)
	return b.NewArray()
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A column of lists of three numbers is viewed as a matrix, and its transpose shares
// the column's memory. The same code works on a GPU (arrowbuf.CopyTo).
func ExampleFromArrow() {
	column, _, err := array.FromJSON(memory.DefaultAllocator, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32),
		strings.NewReader(`[[1, 2, 3], [4, 5, 6]]`))
	if err != nil {
		log.Fatal(err)
	}
	defer column.Release()

	matrix, err := ndview.FromArrow(column)
	if err != nil {
		log.Fatal(err)
	}
	defer matrix.Release()
	transposed, err := matrix.Transpose()
	if err != nil {
		log.Fatal(err)
	}
	defer transposed.Release()

	values, err := ndview.ToHost[float32](transposed)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(transposed.DType(), transposed.Shape(), transposed.Strides(), "on", transposed.Device())
	fmt.Println(values)
	// Output:
	// float32 [3 2] [4 12] on cpu
	// [1 4 2 5 3 6]
}

// The last row, every second column from the end: a[-1, ::-2] in NumPy.
func ExampleNDBuffer_Index() {
	a, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, []int32{0, 1, 2, 3, 4, 5, 6, 7}, 2, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Release()
	v, err := a.Index(ndview.At(-1), ndview.SpanStep(ndview.Open, ndview.Open, -2))
	if err != nil {
		log.Fatal(err)
	}
	defer v.Release()
	fmt.Println(v, v.Strides())
	// Output: [7 5] [-8]
}

// Package fmt prints the elements for %v, and the type, shape and device as well for
// %#v.
func ExampleNDBuffer_String() {
	a, err := ndview.FromHost(arrowbuf.CPU(), ndview.Float32, []float32{0.1, 2, 1e-3, 40, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Release()
	fmt.Printf("%v\n%#v\n", a, a)
	// Output:
	// [[  0.1     2 0.001]
	//  [   40     5     6]]
	// NDBuffer(float32, shape=[2 3], device=cpu)
	// [[  0.1     2 0.001]
	//  [   40     5     6]]
}

// A permuted array becomes a column of tensors over its own memory, because the type
// describes the order of the axes.
func ExampleToArrow() {
	a, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 2, 3, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Release()
	transposed, err := a.Transpose(0, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer transposed.Release()
	column, err := ndview.ToArrow(transposed, ndview.ArrowOptions{DimNames: []string{"x", "y"}})
	if err != nil {
		log.Fatal(err)
	}
	defer column.Release()
	fmt.Println(column.Len(), column.DataType())
	// Output:
	// 2 extension<arrow.fixed_shape_tensor[int32, {"shape":[3,2],"permutation":[1,0],"dim_names":["y","x"]}]>
}

// Rows 2 and 0 of the columns selected by a mask: a[[[2], [0]], mask] in NumPy.
func ExampleNDBuffer_Get() {
	a, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}, 3, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Release()
	rows, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int64, []int64{2, 0}, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Release()
	mask, err := ndview.FromHost(arrowbuf.CPU(), ndview.Bool, []bool{true, false, true}, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer mask.Release()
	got, err := a.Get(ndview.IntArray(rows), ndview.Mask(mask))
	if err != nil {
		log.Fatal(err)
	}
	defer got.Release()
	fmt.Println(got)
	_, err = a.Get(ndview.Ints(0, 3))
	fmt.Println(err)
	// Output:
	// [[6 8]
	//  [0 2]]
	// ndview.Get: index 3 is outside axis 0 of 3 elements: out of range
}
