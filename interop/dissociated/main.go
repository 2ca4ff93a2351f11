// Command dissociated is a relay for interop/dissociated.py. It reads the streams of
// another server of Arrow's Dissociated IPC Protocol and serves them again.
//
//	go run ./interop/dissociated METADATA-URI DATA-URI FOLDER packed|located
//
// An empty DATA-URI means one connection for metadata and bodies, also for the relay's
// clients. The relay creates its sockets in FOLDER, prints their URIs, one per line,
// and ends when its standard input does.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/dissociated"
)

func main() {
	if err := relay(os.Args[1], os.Args[2], os.Args[3], os.Args[4] == "located"); err != nil {
		log.Fatal(err)
	}
}

func relay(metadata, data, folder string, located bool) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &dissociated.Server{
		Open: func(ctx context.Context, identifier []byte) (array.RecordReader, error) {
			return dissociated.Dial(ctx, metadata, data, identifier, arrowbuf.CPU(), dissociated.ReceiveOptions{})
		},
		OnError: func(err error) {
			if ctx.Err() == nil {
				log.Print(err)
			}
		},
	}
	if s.Metadata, err = dissociated.Listen(filepath.Join(folder, "metadata")); err != nil {
		return err
	}
	if data != "" {
		if s.Data, err = dissociated.Listen(filepath.Join(folder, "data")); err != nil {
			return err
		}
	}
	if located {
		if s.Window, err = dissociated.NewWindow(arrowbuf.CPU(), 16<<20); err != nil {
			return err
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	m, d := s.URIs()
	fmt.Println(m)
	if d != nil {
		fmt.Println(d)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	cancel()
	if err := <-done; err != nil {
		return err
	}
	if s.Window != nil {
		return s.Window.Close() // an error if a client has not freed all locations
	}
	return nil
}
