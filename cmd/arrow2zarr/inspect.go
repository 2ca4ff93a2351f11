package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func newInspectCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Describe an Arrow, Parquet or Zarr input",
		Long: `Inspect prints the columns of an Arrow IPC file or stream or of a Parquet file, or
the arrays of a Zarr v3 hierarchy: types, shapes, chunks, codecs, and stored
and uncompressed sizes. PATH "-" is an Arrow IPC stream on standard input.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := arrowzarr.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(found))
			}
			return writeSummary(printContents(cmd.OutOrStdout(), found))
		},
	}
	appendHelp(cmd, `  arrow2zarr inspect flights.parquet
  arrow2zarr inspect flights.zarr --json`)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printContents(w io.Writer, c *arrowzarr.Contents) error {
	fmt.Fprintf(w, "%s: %s, %s rows, %s stored\n\n", c.Path, c.Format, count(c.Rows), humanize.IBytes(uint64(c.StoredBytes)))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tTYPE\tSHAPE\tNULLS\tCHUNKS\tCODECS\tSTORED\tRAW\tRATIO")
	for _, col := range c.Columns {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", col.Name, col.Type, dims(col.Shape), count(col.Nulls), dims(col.Chunks),
			strings.Join(col.Codecs, " "), size(col.StoredBytes), size(col.RawBytes), quotient(col.RawBytes, col.StoredBytes))
	}
	return table.Flush()
}

func dims(shape []int64) string {
	if shape == nil {
		return "-"
	}
	words := make([]string, len(shape))
	for i, d := range shape {
		words[i] = fmt.Sprint(d)
	}
	return strings.Join(words, "x")
}

// Unknown numbers are -1 and are printed as a dash.

func count(n int64) string {
	if n < 0 {
		return "-"
	}
	return humanize.Comma(n)
}

func size(n int64) string {
	if n < 0 {
		return "-"
	}
	return humanize.IBytes(uint64(n))
}

func quotient(raw, stored int64) string {
	if raw < 0 || stored <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(raw)/float64(stored))
}
