package flight_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

// A process serves a table to other machines; a client reads it onto a device.
func Example() {
	schema := arrow.NewSchema([]arrow.Field{{Name: "distance", Type: arrow.PrimitiveTypes.Int64}}, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"distance": 1400}, {"distance": 1416}]`))
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	catalog := ipc.NewCatalog()
	defer catalog.Close()
	if err := catalog.PublishTable("flights", schema, []arrow.RecordBatch{batch}); err != nil {
		log.Fatal(err)
	}
	server, err := flight.Serve("127.0.0.1:0", catalog, flight.ServerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	client, err := flight.Dial(ctx, server.Address().String(), flight.DialOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	batches, err := client.Reader(ctx, "flights", arrowbuf.CPU()) // or a cudabuf.Device
	if err != nil {
		log.Fatal(err)
	}
	defer batches.Release()
	for batches.Next() {
		fmt.Println(batches.RecordBatch().Column(0))
	}
	fmt.Println(batches.Err())
	// Output:
	// [1400 1416]
	// <nil>
}
