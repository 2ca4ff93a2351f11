package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/device"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

// openDriver opens the CUDA driver. Tests replace it with a simulated driver.
var openDriver = cudabuf.Open

type serveFlags struct {
	device   string
	allow    []uint32
	silence  time.Duration
	lease    time.Duration
	patience time.Duration
	flight   string
}

func newServeCommand(socket *string) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve FILE...",
		Short: "Publish Arrow and Parquet files as tables",
		Long: `Serve reads Arrow IPC files and streams and Parquet files into the memory of a
device, and publishes each as a table, until a signal ends it. The name of a table
is its file's name without folder and extension, or NAME if the argument is
NAME=FILE. Processes of the same user read the tables in place. With --flight,
other machines read copies of the tables by Arrow Flight. Flight is not encrypted
and open to every client that can reach the address.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd, *socket, args, f) },
	}
	appendHelp(cmd, `  quiver-share serve flights.parquet --device cuda
  quiver-share serve today=/data/2026-11-21.arrow --socket /run/columns.sock`)
	flags := cmd.Flags()
	flags.StringVar(&f.device, "device", "auto", "device of the tables: auto, cpu, cuda, cuda:N, cuda_managed:N or GPU-UUID")
	flags.Var((*userList)(&f.allow), "allow", "ids of further users that may connect; the socket's folder must be accessible to them")
	flags.DurationVar(&f.silence, "silence", 0, "end the leases of a client that sends nothing for this long (0: never)")
	flags.DurationVar(&f.lease, "lease-limit", 0, "disconnect a client that holds a lease for this long (0: never)")
	flags.DurationVar(&f.patience, "patience", 5*time.Second, "at the end, wait this long for clients that hold leases")
	flags.StringVar(&f.flight, "flight", "", "serve the tables by Arrow Flight too, at HOST:PORT")
	return cmd
}

func serve(cmd *cobra.Command, socket string, files []string, f serveFlags) (err error) {
	if min(f.silence, f.lease, f.patience) < 0 {
		return withExitCode(exitUsage, errors.New("--silence, --lease-limit and --patience: got a negative time, want at least 0"))
	}
	dev, why, closeDevice, err := device.Open(f.device, openDriver)
	if err != nil {
		return withDeviceExitCode(err)
	}
	defer func() { err = errors.Join(err, withExitCode(exitDevice, closeDevice())) }()
	if why != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "device %s (%s)\n", dev, why)
	}

	catalog := ipc.NewCatalog()
	defer catalog.Close()
	for _, file := range files {
		name, path := tableName(file)
		if err := publish(cmd.Context(), catalog, name, path, dev); err != nil {
			return withExitCode(exitInput, err)
		}
	}

	options := ipc.ServerOptions{KeepAliveTimeout: f.silence, MaxLeaseTime: f.lease}
	if len(f.allow) > 0 {
		options.AllowUIDs = append(f.allow, uint32(os.Getuid()))
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return withExitCode(exitServer, err)
	}
	server, err := ipc.Serve(socket, catalog, options)
	if err != nil {
		return withExitCode(exitServer, err)
	}
	if len(f.allow) > 0 { // other users can open the socket; the server checks their ids
		if err := os.Chmod(socket, 0o666); err != nil {
			return errors.Join(withExitCode(exitServer, err), server.Close())
		}
	}
	for _, e := range catalog.List() {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s rows, %s on %s\n", e.Name, humanize.Comma(e.Rows), humanize.IBytes(uint64(e.Bytes)), e.Device)
	}
	if f.flight != "" {
		byFlight, failure := flight.Serve(f.flight, catalog, flight.ServerOptions{})
		if failure != nil {
			return withExitCode(exitServer, errors.Join(failure, server.Close()))
		}
		defer func() { err = errors.Join(err, withExitCode(exitServer, byFlight.Close())) }()
		fmt.Fprintf(cmd.OutOrStdout(), "serving Flight at %s\n", byFlight.Address())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "serving at %s\n", server.Path())

	<-cmd.Context().Done()
	patience, cancel := context.WithTimeout(context.Background(), f.patience)
	defer cancel()
	if err := server.Shutdown(patience); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return withExitCode(exitServer, err)
	}
	return nil
}

// tableName returns the name and the path of an argument: NAME=FILE, or FILE with
// the name of the file.
func tableName(argument string) (name, path string) {
	if name, path, ok := strings.Cut(argument, "="); ok && name != "" && !strings.Contains(name, "/") {
		return name, path
	}
	base := filepath.Base(argument)
	return strings.TrimSuffix(base, filepath.Ext(base)), argument
}

// publish reads a file onto a device and publishes it as a table of a catalog.
func publish(ctx context.Context, catalog *ipc.Catalog, name, path string, dev arrowbuf.Device) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// arrow-go panics on some malformed files.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: malformed data: %v", path, p)
		}
	}()
	if gpu, ok := dev.(*cudabuf.Device); ok {
		dev = shareable{gpu}
	}
	reader, err := openReader(ctx, f, dev)
	if err != nil {
		return fmt.Errorf("%s: want an Arrow IPC file or stream, or a Parquet file: %w", path, err)
	}
	defer reader.Release()

	var batches []arrow.RecordBatch
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	for reader.Next() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		batch := reader.RecordBatch()
		if onDevice, ok := batch.(*arrowbuf.RecordBatch); ok { // the batch is on the device already
			onDevice.Retain()
		} else if batch, err = arrowbuf.CopyTo(batch, dev); err != nil {
			return fmt.Errorf("%s: batch %d: %w", path, len(batches), err)
		}
		batches = append(batches, batch)
	}
	if err := reader.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: batch %d: %w", path, len(batches), err)
	}
	if err := catalog.PublishTable(name, reader.Schema(), batches); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// shareable is a GPU that allocates memory which other processes can open. Each
// batch gets allocations of its own, so sharing needs no copy. Memory with a file
// descriptor works across PID namespaces and outlives this process.
type shareable struct{ *cudabuf.Device }

func (d shareable) Alloc(n int64) (arrowbuf.Buffer, error) { return d.NewFDBuffer(n) }

// openReader detects the format of a file by its first bytes. Arrow IPC batches
// are read onto the device; Parquet batches are decoded on the host.
func openReader(ctx context.Context, f *os.File, dev arrowbuf.Device) (array.RecordReader, error) {
	status, err := f.Stat()
	if err != nil {
		return nil, err
	}
	magic := make([]byte, 6)
	if _, err := f.ReadAt(magic, 0); err != nil {
		return nil, fmt.Errorf("reading the first bytes: %w", err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte("PAR1")):
		parquet, err := file.NewParquetReader(f)
		if err != nil {
			return nil, err
		}
		columns, err := pqarrow.NewFileReader(parquet, pqarrow.ArrowReadProperties{Parallel: true, BatchSize: 1 << 20}, dev.HostAllocator())
		if err != nil {
			return nil, err
		}
		return columns.GetRecordReader(ctx, nil, nil)
	case bytes.Equal(magic, []byte("ARROW1")):
		return arrowipc.NewFileReader(f, status.Size(), dev)
	}
	return arrowipc.NewReader(f, dev)
}
