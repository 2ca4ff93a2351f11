package arrowbuf_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func ExampleCopyTo() {
	machine := cudatest.New(cudatest.Config{}) // cudabuf.Open() where there is a GPU
	defer machine.Close()
	gpu, err := machine.Device(0)
	if err != nil {
		log.Fatal(err)
	}

	host := flights(memory.DefaultAllocator)
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

// flights is a batch of the host, in memory of an allocator.
func flights(mem memory.Allocator) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "carrier", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	builder := array.NewRecordBuilder(mem, schema)
	defer builder.Release()
	builder.Field(0).(*array.StringBuilder).AppendValues([]string{"UA", "AA", "B6"}, []bool{true, false, true})
	return builder.NewRecordBatch()
}

// From pinned memory a batch goes to the device while the program goes on.
func ExampleWithStream() {
	machine := cudatest.New(cudatest.Config{}) // cudabuf.Open() where there is a GPU
	defer machine.Close()
	gpu, err := machine.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := gpu.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()

	host := flights(gpu.HostAllocator())
	batch, err := arrowbuf.CopyTo(host, gpu, arrowbuf.WithStream(stream))
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	host.Release()               // the copy holds it as long as it needs it
	fmt.Println(batch.Column(0)) // comes behind the copy
	// Output: ["UA" (null) "B6"]
}

// Code that was written for the host does not crash the program.
func ExampleCatchHostAccess() {
	machine := cudatest.New(cudatest.Config{}) // cudabuf.Open() where there is a GPU
	defer machine.Close()
	gpu, err := machine.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	host := flights(memory.DefaultAllocator)
	defer host.Release()
	batch, err := arrowbuf.CopyTo(host, gpu)
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()

	defer func() { fmt.Println(recover()) }()
	arrowbuf.CatchHostAccess(batch, func() {
		text := array.NewStringData(batch.Column(0).Data()) // an array of the host, over memory of the GPU
		fmt.Println(text.Value(0))
	})
	// Output: the host accessed the memory of column 0, "carrier", of type utf8, on cuda:0; call ToHost first: wrong device
}
