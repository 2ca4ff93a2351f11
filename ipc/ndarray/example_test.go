//go:build linux

package ndarray_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
	"github.com/quiver-gpu/quiver/ndview"
)

// A process publishes the even columns of a matrix, and another one, here the same,
// reads them in place.
func Example() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	matrix, err := ndview.FromSlice(arrowbuf.CPU(), [][]float32{{1, 2, 3}, {4, 5, 6}})
	if err != nil {
		log.Fatal(err)
	}
	defer matrix.Release()
	even, err := matrix.Index(ndview.All, ndview.SpanStep(0, ndview.Open, 2))
	if err != nil {
		log.Fatal(err)
	}
	defer even.Release()
	catalog := ipc.NewCatalog()
	defer catalog.Close()
	if err := ndarray.Publish(catalog, "even", even); err != nil {
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
	shared, err := ndarray.Open(ctx, client, "even")
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Release() // ends the lease
	fmt.Println(shared.DType(), shared.Shape(), shared.Strides())
	fmt.Println(shared)
	// Output:
	// float32 [2 2] [12 8]
	// [[1 3]
	//  [4 6]]
}
