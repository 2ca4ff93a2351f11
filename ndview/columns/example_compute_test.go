package columns_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// Adds a column to a record batch on a device, selects rows by it and sums it. The same
// code runs on a GPU with a device of package cudabuf.
func ExampleWith() {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "price", Type: arrow.PrimitiveTypes.Float64, Nullable: true}, {Name: "quantity", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
	host, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[
		{"price": 2.5, "quantity": 4}, {"price": null, "quantity": 3}, {"price": 0.5, "quantity": 2}]`))
	if err != nil {
		log.Fatal(err)
	}
	defer host.Release()
	batch, err := arrowbuf.CopyTo(host, arrowbuf.CPU())
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()

	sales, err := columns.With(batch, "total", columns.Multiply(columns.Field("price"), columns.Field("quantity")))
	if err != nil {
		log.Fatal(err)
	}
	defer sales.Release()
	large, err := columns.FilterBy(sales, columns.GreaterEqual(columns.Field("total"), 5))
	if err != nil {
		log.Fatal(err)
	}
	defer large.Release()
	sum, err := columns.Sum(columns.Field("total").In(sales))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sales.Column(2), large.NumRows(), sum)
	// Output:
	// [10 (null) 1] 1 11
}
