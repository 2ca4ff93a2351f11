// Command ndarray is the Go side of the arrays in interop/share.py.
//
//	ndarray serve SOCKET DEVICE < arrays.json    until standard input ends
//	ndarray read SOCKET DEVICE                   prints every array as JSON
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

// described is an array: its place in memory that is shared, and that memory; or, if
// it is read, its elements in C order.
type described struct {
	Name, DType    string
	Offset         int64
	Shape, Strides []int64
	Bytes          []byte
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ndarray:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 3 {
		return fmt.Errorf("arguments: got %d, want serve or read, a socket and a device", len(arguments))
	}
	dev, err := cudabuf.OpenDevice(arguments[2])
	if err != nil {
		return err
	}
	if arguments[0] == "serve" {
		return serve(arguments[1], dev)
	}
	return read(arguments[1], dev)
}

// serve publishes the arrays of the first line of standard input.
func serve(socket string, dev arrowbuf.Device) error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var arrays []described
	if err := json.Unmarshal(line, &arrays); err != nil {
		return err
	}
	catalog := ipc.NewCatalog()
	defer catalog.Close()
	for _, d := range arrays {
		if err := publish(catalog, dev, d); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	server, err := ipc.Serve(socket, catalog, ipc.ServerOptions{})
	if err != nil {
		return err
	}
	fmt.Println("serving")
	_, _ = io.Copy(io.Discard, in)
	return server.Close()
}

func publish(catalog *ipc.Catalog, dev arrowbuf.Device, d described) error {
	t, _, err := dtype.ParseDType(d.DType)
	if err != nil {
		return err
	}
	memory, err := dev.Alloc(int64(len(d.Bytes)))
	if err != nil {
		return err
	}
	defer memory.Release()
	if _, err := memory.CopyFromHost(d.Bytes, 0); err != nil {
		return err
	}
	a, err := ndview.FromBuffer(memory, t, d.Offset, d.Shape, d.Strides)
	if err != nil {
		return err
	}
	defer a.Release()
	return ndarray.Publish(catalog, d.Name, a)
}

func read(socket string, dev arrowbuf.Device) error {
	ctx := context.Background()
	client, err := ipc.Dial(ctx, socket, ipc.DialOptions{Devices: []arrowbuf.Device{dev}})
	if err != nil {
		return err
	}
	defer client.Close()
	entries, err := client.List(ctx)
	if err != nil {
		return err
	}
	var arrays []described
	for _, e := range entries {
		a, err := ndarray.Open(ctx, client, e.Name)
		if err != nil {
			return err
		}
		d := described{Name: e.Name, DType: a.DType().NumPy(), Offset: a.Offset(), Shape: a.Shape(), Strides: a.Strides()}
		if d.Bytes, err = a.Bytes(); err != nil {
			return err
		}
		a.Release()
		arrays = append(arrays, d)
	}
	return json.NewEncoder(os.Stdout).Encode(arrays)
}
