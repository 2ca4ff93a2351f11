//go:build linux || darwin

package cdevice_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/cdevice"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// A batch on a GPU is exported and imported. A library in C would pass the addresses
// of the structs.
func Example() {
	machine := cudatest.New(cudatest.Config{}) // use cudabuf.Open on a machine with a GPU
	defer machine.Close()
	gpu, err := machine.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	batch := flights(gpu)

	var schema cdevice.Schema
	var rows cdevice.DeviceArray
	if err := cdevice.ExportSchema(batch.Schema(), &schema); err != nil {
		log.Fatal(err)
	}
	if err := cdevice.ExportBatch(batch, gpu, &rows); err != nil {
		log.Fatal(err)
	}
	batch.Release() // the exported structs retain the memory

	fields, err := cdevice.ImportSchema(&schema)
	if err != nil {
		log.Fatal(err)
	}
	imported, err := cdevice.ImportBatch(&rows, fields, gpu)
	if err != nil {
		log.Fatal(err)
	}
	defer imported.Release()
	fmt.Println(arrowbuf.DeviceOf(imported.Column(0)), imported.Column(0))
	// Output: cuda:0 ["UA" (null) "B6"]
}

func flights(dev arrowbuf.Device) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "carrier", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	builder.Field(0).(*array.StringBuilder).AppendValues([]string{"UA", "AA", "B6"}, []bool{true, false, true})
	host := builder.NewRecordBatch()
	defer host.Release()
	batch, err := arrowbuf.CopyTo(host, dev)
	if err != nil {
		log.Fatal(err)
	}
	return batch
}
