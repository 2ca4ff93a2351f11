package dissociated_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/dissociated"
)

// A server sends a stream with bodies in shared memory, and a client reads them in
// place.
func Example() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	listen := func(name string) net.Listener {
		l, err := dissociated.Listen(filepath.Join(folder, name))
		if err != nil {
			log.Fatal(err)
		}
		return l
	}
	window, err := dissociated.NewWindow(arrowbuf.CPU(), 1<<20) // or of a cudabuf.Device
	if err != nil {
		log.Fatal(err)
	}
	server := &dissociated.Server{
		Metadata: listen("metadata"),
		Data:     listen("data"),
		Window:   window,
		Open: func(_ context.Context, identifier []byte) (array.RecordReader, error) {
			if string(identifier) != "flights" {
				return nil, fmt.Errorf("no stream %q", identifier)
			}
			schema := arrow.NewSchema([]arrow.Field{{Name: "distance", Type: arrow.PrimitiveTypes.Int64}}, nil)
			batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"distance": 1400}, {"distance": 1416}]`))
			if err != nil {
				return nil, err
			}
			defer batch.Release()
			return array.NewRecordReader(schema, []arrow.RecordBatch{batch})
		},
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Serve(ctx) }()

	metadata, data := server.URIs()
	batches, err := dissociated.Dial(ctx, metadata.String(), data.String(), []byte("flights"), arrowbuf.CPU(), dissociated.ReceiveOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for batches.Next() {
		fmt.Println(batches.RecordBatch().Column(0))
	}
	if err := batches.Err(); err != nil {
		log.Fatal(err)
	}
	batches.Release()
	stop()
	fmt.Println(<-done)
	// Output:
	// [1400 1416]
	// <nil>
}
