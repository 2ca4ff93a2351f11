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
	machine := cudatest.New(cudatest.Config{}) // use cudabuf.Open on a machine with a GPU
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

// flights returns a batch on the host, in memory of an allocator.
func flights(mem memory.Allocator) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "carrier", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	builder := array.NewRecordBuilder(mem, schema)
	defer builder.Release()
	builder.Field(0).(*array.StringBuilder).AppendValues([]string{"UA", "AA", "B6"}, []bool{true, false, true})
	return builder.NewRecordBatch()
}

// A batch in pinned memory is copied while the program continues.
func ExampleWithStream() {
	machine := cudatest.New(cudatest.Config{}) // use cudabuf.Open on a machine with a GPU
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
	host.Release()               // the copy holds its own reference
	fmt.Println(batch.Column(0)) // waits for the copy
	// Output: ["UA" (null) "B6"]
}

// Code that reads values in place returns an error, instead of ending the program.
func ExampleCatchHostAccess() {
	machine := cudatest.New(cudatest.Config{}) // use cudabuf.Open on a machine with a GPU
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

	err = arrowbuf.CatchHostAccess(batch, func() error {
		text := array.NewStringData(batch.Column(0).Data()) // a host array over GPU memory
		fmt.Println(text.Value(0))
		return nil
	})
	fmt.Println(err)
	// Output: arrowbuf.CatchHostAccess: the host accessed byte 12 of 16 of buffer 1 of column 0, "carrier", of type utf8, on cuda:0; call ToHost first: host access to device memory
}
