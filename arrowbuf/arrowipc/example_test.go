package arrowipc_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// The metadata of a batch travels without its body. It describes where the columns,
// which stay on the device, are in the body.
func ExampleEncodeRecordBatch() {
	machine := cudatest.New(cudatest.Config{}) // use cudabuf.Open on a machine with a GPU
	defer machine.Close()
	gpu, err := machine.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "delay", Type: arrow.PrimitiveTypes.Int32}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	builder.Field(0).(*array.Int32Builder).AppendValues([]int32{5, -3, 12}, nil)
	host := builder.NewRecordBatch()
	defer host.Release()
	batch, err := arrowbuf.CopyTo(host, gpu)
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()

	message, err := arrowipc.EncodeRecordBatch(batch)
	if err != nil {
		log.Fatal(err)
	}
	defer message.Release()
	body, err := message.Parts()
	if err != nil {
		log.Fatal(err)
	}
	defer body.Release()
	fmt.Println(message.Type(), message.BodyLength, body[0].Buffer.Device(), body[0].Buffer.Len())

	again, err := arrowipc.DecodeRecordBatch(message.Metadata, schema, body, gpu)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Release()
	fmt.Println(again.Column(0))
	// Output:
	// RecordBatch 16 cuda:0 12
	// [5 -3 12]
}
