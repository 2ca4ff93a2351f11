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
)

func newCatCommand(at *place) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "cat NAME",
		Short: "Print a table, a stream or a buffer",
		Long: `Cat prints what a name stands for: of tables and streams a JSON object a row, or
an Arrow IPC stream; of buffers their bytes. Of a stream it prints what is
written from now on, until it ends.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "json" && format != "arrow" {
				return failed(exitUsage, fmt.Errorf("--format %s: expected json or arrow", format))
			}
			client, err := dial(cmd.Context(), at)
			if err != nil {
				return err
			}
			defer client.Close()
			return cat(cmd.Context(), client, args[0], format, cmd.OutOrStdout())
		},
	}
	endHelp(cmd, `  quiver-share cat flights
  quiver-share cat flights --format arrow > flights.arrows`)
	cmd.Flags().StringVar(&format, "format", "json", "json: an object a row; arrow: an Arrow IPC stream")
	return cmd
}

func cat(ctx context.Context, client *ipc.Client, name, format string, w io.Writer) error {
	entries, err := client.List(ctx)
	if err != nil {
		return failed(exitServer, err)
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
			return failed(exitServer, err)
		}
		defer table.Release()
		rest := table.Batches
		return write(w, format, table.Schema, func() (arrow.RecordBatch, error) {
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
			return failed(exitServer, err)
		}
		defer stream.Close()
		return write(w, format, stream.Schema(), func() (arrow.RecordBatch, error) { return stream.Next(ctx) })
	case ipc.KindBuffer:
		buffer, err := client.Buffer(ctx, name)
		if err != nil {
			return failed(exitServer, err)
		}
		defer buffer.Release()
		_, err = io.Copy(w, io.NewSectionReader(buffer, 0, buffer.Len()))
		return failed(exitOutput, err)
	}
	return failed(exitServer, fmt.Errorf("%s: %w", name, ipc.ErrNotFound))
}

// write prints batches until next answers io.EOF.
func write(w io.Writer, format string, schema *arrow.Schema, next func() (arrow.RecordBatch, error)) error {
	put, finish := writeRows(w), func() error { return nil }
	if format == "arrow" {
		stream, err := arrowipc.NewWriter(w, schema)
		if err != nil {
			return failed(exitOutput, err)
		}
		put, finish = stream.Write, stream.Close
	}
	for {
		batch, err := next()
		if errors.Is(err, io.EOF) {
			return failed(exitOutput, finish())
		}
		if err != nil {
			return failed(exitServer, err)
		}
		err = put(batch)
		batch.Release()
		if err != nil {
			return failed(exitOutput, err)
		}
	}
}

// writeRows prints each row of a batch as a JSON object.
func writeRows(w io.Writer) func(arrow.RecordBatch) error {
	return func(batch arrow.RecordBatch) error {
		if there, ok := batch.(*arrowbuf.RecordBatch); ok {
			host, err := there.ToHost()
			if err != nil {
				return err
			}
			defer host.Release()
			batch = host
		}
		return array.RecordToJSON(batch, w)
	}
}
