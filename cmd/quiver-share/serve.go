package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/cmd/internal/device"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

// openDriver opens the CUDA driver. Tests put a driver in software here.
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
device, and publishes each as a table, until a signal ends it. A table is called
as its file without folder and extension, or NAME where the argument is NAME=FILE.
Processes of the same user read the tables in place. With --flight other machines
read copies of them, by Arrow Flight without encryption: everybody who reaches the
address.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd, *socket, args, f) },
	}
	endHelp(cmd, `  quiver-share serve flights.parquet --device cuda
  quiver-share serve today=/data/2026-11-21.arrow --socket /run/columns.sock`)
	flags := cmd.Flags()
	flags.StringVar(&f.device, "device", "auto", "where the tables are: auto, cpu, cuda or cuda:N")
	flags.Var((*userList)(&f.allow), "allow", "numbers of the users that may connect besides you; the socket's folder must let them in")
	flags.DurationVar(&f.silence, "silence", 0, "end the leases of a client that hangs for so long (0: never)")
	flags.DurationVar(&f.lease, "lease-limit", 0, "disconnect a client that holds something for so long (0: never)")
	flags.DurationVar(&f.patience, "patience", 5*time.Second, "at the end, wait so long for clients that hold something")
	flags.StringVar(&f.flight, "flight", "", "offer the tables by Arrow Flight too, at HOST:PORT")
	return cmd
}

func serve(cmd *cobra.Command, socket string, files []string, f serveFlags) (err error) {
	if min(f.silence, f.lease, f.patience) < 0 {
		return failed(exitUsage, errors.New("--silence, --lease-limit and --patience: expected no negative time"))
	}
	dev, why, closeDevice, err := device.Open(f.device, openDriver)
	if err != nil {
		return failedDevice(err)
	}
	defer func() { err = errors.Join(err, failed(exitDevice, closeDevice())) }()
	if why != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "device %s (%s)\n", dev, why)
	}

	catalog := ipc.NewCatalog()
	defer catalog.Close()
	for _, file := range files {
		name, path := nameOf(file)
		if err := publish(cmd.Context(), catalog, name, path, dev); err != nil {
			return failed(exitInput, err)
		}
	}

	options := ipc.ServerOptions{Silence: f.silence, LeaseLimit: f.lease}
	if len(f.allow) > 0 {
		options.Allow = append(f.allow, uint32(os.Getuid()))
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return failed(exitServer, err)
	}
	server, err := ipc.Serve(socket, catalog, options)
	if err != nil {
		return failed(exitServer, err)
	}
	if len(f.allow) > 0 { // others than its owner reach the socket; the server asks who they are
		if err := os.Chmod(socket, 0o666); err != nil {
			return errors.Join(failed(exitServer, err), server.Close())
		}
	}
	for _, e := range catalog.List() {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s rows, %s on %s\n", e.Name, humanize.Comma(e.Rows), humanize.IBytes(uint64(e.Bytes)), e.Device)
	}
	if f.flight != "" {
		byFlight, failure := flight.Serve(f.flight, catalog, flight.ServerOptions{})
		if failure != nil {
			return failed(exitServer, errors.Join(failure, server.Close()))
		}
		defer func() { err = errors.Join(err, failed(exitServer, byFlight.Close())) }()
		fmt.Fprintf(cmd.OutOrStdout(), "serving Flight at %s\n", byFlight.Address())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "serving at %s\n", server.Path())

	<-cmd.Context().Done()
	patience, cancel := context.WithTimeout(context.Background(), f.patience)
	defer cancel()
	if err := server.Shutdown(patience); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return failed(exitServer, err)
	}
	return nil
}

// nameOf is what an argument publishes a file as: NAME=FILE, or the file's own.
func nameOf(argument string) (name, path string) {
	if name, path, ok := strings.Cut(argument, "="); ok && name != "" && !strings.Contains(name, "/") {
		return name, path
	}
	base := filepath.Base(argument)
	return strings.TrimSuffix(base, filepath.Ext(base)), argument
}
