//go:build linux

// Command share publishes a table in the memory of one process's device, and reads it in
// place from another process.
//
//	go run ./examples/share serve auto testdata/flights.arrow /tmp/share.sock
//	go run ./examples/share mean auto dep_delay /tmp/share.sock
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := map[string]func(context.Context, arrowbuf.Device, string, string) error{"serve": serve, "mean": mean}
	if len(os.Args) != 5 || run[os.Args[1]] == nil {
		log.Fatal("usage: share serve DEVICE FILE SOCKET, or share mean DEVICE COLUMN SOCKET")
	}
	device, err := cudabuf.OpenDevice(os.Args[2])
	if err == nil {
		err = run[os.Args[1]](ctx, device, os.Args[3], os.Args[4])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve publishes an Arrow file as the table "flights" until ctx is done.
func serve(ctx context.Context, device arrowbuf.Device, path, socket string) error {
	file, err := arrowipc.MapFile(path, device)
	if err != nil {
		return err
	}
	defer file.Release()
	catalog := ipc.NewCatalog()
	defer catalog.Close()
	if err := catalog.PublishReader("flights", file); err != nil {
		return err
	}
	return ipc.ListenAndServe(ctx, socket, catalog, ipc.ServerOptions{})
}

// mean prints the mean of a column of each batch of the table, computed where it lies.
func mean(ctx context.Context, device arrowbuf.Device, column, socket string) error {
	client, err := ipc.Dial(ctx, socket, ipc.DialOptions{Devices: []arrowbuf.Device{device}})
	if err != nil {
		return err
	}
	flights, err := client.Table(ctx, "flights")
	if err != nil {
		return errors.Join(err, client.Close())
	}
	for _, batch := range flights.Batches {
		value, failed := columns.Mean(columns.Field(column).In(batch))
		fmt.Println(value)
		err = errors.Join(err, failed)
	}
	flights.Release() // ends the leases
	return errors.Join(err, client.Close())
}
