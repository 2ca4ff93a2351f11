package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
)

func newCatCommand(flags *connectFlags) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "cat NAME",
		Short: "Print a table, a stream, a buffer or an array",
		Long: `Cat prints a table or a stream as one JSON object per row, or as an Arrow IPC
stream, a buffer as its bytes, and an array as NumPy does. Of a stream it prints
the batches that are written from now on, until the stream ends.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "json" && format != "arrow" {
				return withExitCode(exitUsage, fmt.Errorf("--format: got %s, want json or arrow", format))
			}
			client, err := dial(cmd.Context(), flags)
			if err != nil {
				return err
			}
			defer client.Close()
			return cat(cmd.Context(), client, args[0], format, cmd.OutOrStdout())
		},
	}
	appendHelp(cmd, `  quiver-share cat flights
  quiver-share cat flights --format arrow > flights.arrows`)
	cmd.Flags().StringVar(&format, "format", "json", "json: an object per row; arrow: an Arrow IPC stream")
	return cmd
}

func cat(ctx context.Context, client *ipc.Client, name, format string, w io.Writer) error {
	entries, err := client.List(ctx)
	if err != nil {
		return withExitCode(exitServer, err)
	}
	kind := ipc.Kind(0)
	for _, e := range entries {
		if e.Name == name {
			kind = e.Kind
		}
	}
	switch kind {
	case ipc.KindTable:
		table, err := client.Table(ctx, name)
		if err != nil {
			return withExitCode(exitServer, err)
		}
		defer table.Release()
		rest := table.Batches
		return writeBatches(w, format, table.Schema, func() (arrow.RecordBatch, error) {
			if len(rest) == 0 {
				return nil, io.EOF
			}
			batch := rest[0]
			rest = rest[1:]
			batch.Retain()
			return batch, nil
		})
	case ipc.KindStream:
		stream, err := client.Stream(ctx, name, 4)
		if err != nil {
			return withExitCode(exitServer, err)
		}
		defer stream.Close()
		return writeBatches(w, format, stream.Schema(), func() (arrow.RecordBatch, error) { return stream.Next(ctx) })
	case ipc.KindBuffer:
		buffer, err := client.Buffer(ctx, name)
		if err != nil {
			return withExitCode(exitServer, err)
		}
		defer buffer.Release()
		_, err = io.Copy(w, io.NewSectionReader(buffer, 0, buffer.Len()))
		return withExitCode(exitOutput, err)
	case ipc.KindArray:
		a, err := ndarray.Open(ctx, client, name)
		if err != nil {
			return withExitCode(exitServer, err)
		}
		defer a.Release()
		_, err = fmt.Fprintf(w, "%s %v on %v\n%v\n", a.DType(), a.Shape(), a.Device(), a)
		return withExitCode(exitOutput, err)
	}
	return withExitCode(exitServer, fmt.Errorf("%s: %w", name, ipc.ErrNotFound))
}

// writeBatches prints batches until next returns io.EOF.
func writeBatches(w io.Writer, format string, schema *arrow.Schema, next func() (arrow.RecordBatch, error)) error {
	put, finish := writeRows(w), func() error { return nil }
	if format == "arrow" {
		stream, err := arrowipc.NewWriter(w, schema)
		if err != nil {
			return withExitCode(exitOutput, err)
		}
		put, finish = stream.Write, stream.Close
	}
	for {
		batch, err := next()
		if errors.Is(err, io.EOF) {
			return withExitCode(exitOutput, finish())
		}
		if err != nil {
			return withExitCode(exitServer, err)
		}
		err = put(batch)
		batch.Release()
		if err != nil {
			return withExitCode(exitOutput, err)
		}
	}
}

// writeRows returns a function that prints each row of a batch as a JSON object.
func writeRows(w io.Writer) func(arrow.RecordBatch) error {
	return func(batch arrow.RecordBatch) error {
		host, err := arrowbuf.ToHost(batch)
		if err != nil {
			return err
		}
		defer host.Release()
		return array.RecordToJSON(host, w)
	}
}
