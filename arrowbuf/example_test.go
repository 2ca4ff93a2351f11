package arrowbuf_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func ExampleCopyTo() {
	machine := cudatest.New(cudatest.Config{}) // cudabuf.Open() where there is a GPU
	defer machine.Close()
	gpu, err := machine.Device(0)
	if err != nil {
		log.Fatal(err)
	}

	schema := arrow.NewSchema([]arrow.Field{{Name: "carrier", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	builder.Field(0).(*array.StringBuilder).AppendValues([]string{"UA", "AA", "B6"}, []bool{true, false, true})
	host := builder.NewRecordBatch()
	defer host.Release()

	batch, err := arrowbuf.CopyTo(host, gpu)
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	carrier := batch.Column(0)
	fmt.Println(arrowbuf.DeviceOf(carrier), carrier.NullN(), carrier)
	// Output: cuda:0 1 ["UA" (null) "B6"]
}
