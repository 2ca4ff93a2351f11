//go:build linux

package ipc_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/ipc"
)

// A process publishes a table, and another one, here the same, reads it in place.
func Example() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	schema := arrow.NewSchema([]arrow.Field{{Name: "delay", Type: arrow.PrimitiveTypes.Int64}}, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"delay": 7}, {"delay": 12}]`))
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()

	catalog := ipc.NewCatalog()
	defer catalog.Close()
	if err := catalog.PublishTable("flights", schema, []arrow.RecordBatch{batch}); err != nil {
		log.Fatal(err)
	}
	server, err := ipc.Serve(filepath.Join(folder, "socket"), catalog, ipc.ServerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	client, err := ipc.Dial(ctx, server.Path(), ipc.DialOptions{}) // Devices: GPUs
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	flights, err := client.Table(ctx, "flights")
	if err != nil {
		log.Fatal(err)
	}
	defer flights.Release() // ends the leases
	fmt.Println(flights.Batches[0].Column(0))
	// Output: [7 12]
}
