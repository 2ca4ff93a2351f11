// Command flight is a relay for interop/flight.py. It reads all flights of another
// Flight server and serves them again.
//
//	go run ./interop/flight HOST:PORT
//
// It prints its address and ends when its standard input does.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

func main() {
	if err := relay(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func relay(ctx context.Context, address string) error {
	client, err := flight.Dial(ctx, address, flight.DialOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	catalog := ipc.NewCatalog()
	defer catalog.Close()
	flights, err := client.List(ctx)
	if err != nil {
		return err
	}
	for _, one := range flights {
		if err := copyTable(ctx, client, one.GetFlightDescriptor().GetPath()[0], catalog); err != nil {
			return err
		}
	}
	server, err := flight.Serve("127.0.0.1:0", catalog, flight.ServerOptions{MaxBody: 100 << 10})
	if err != nil {
		return err
	}
	fmt.Println(server.Address())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return server.Close()
}

func copyTable(ctx context.Context, client *flight.Client, name string, catalog *ipc.Catalog) error {
	r, err := client.Reader(ctx, name, arrowbuf.CPU())
	if err != nil {
		return err
	}
	defer r.Release()
	var batches []arrow.RecordBatch
	for r.Next() {
		r.RecordBatch().Retain()
		batches = append(batches, r.RecordBatch())
	}
	if err := r.Err(); err != nil {
		return err
	}
	return catalog.PublishTable(name, r.Schema(), batches)
}
