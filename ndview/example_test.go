package ndview_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// A column of lists of three numbers is a matrix, and its transpose too, over
// the column's own memory. On a GPU (arrowbuf.CopyTo) the same lines do the same.
func Example() {
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

// The last row, every second column from the end on: a[-1, ::-2] in NumPy.
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
