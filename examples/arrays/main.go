// Command arrays computes with a column of an Arrow table as an N-dimensional array, on
// the GPU if the machine has one.
//
//	go run ./examples/arrays
package main

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func main() {
	device := must(cudabuf.OpenDevice("auto"))            // or cpu, cuda:0, GPU-UUID
	column := must(arrowbuf.CopyArrayTo(miles(), device)) // each buffer crosses the link once
	defer column.Release()
	scope := ndview.NewScope()
	defer scope.Release()                              // releases every array below
	array := must(scope.Add(ndview.FromArrow(column))) // a view of the column's memory
	km := must(ndview.Multiply.Of(array, 1.609344))
	longest := must(ndview.Max.Of(km, ndview.ReduceOptions{}))
	fmt.Println(km, longest)
}

// miles returns three distances in host memory.
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
