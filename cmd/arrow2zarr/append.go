package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cmd/internal/progress"
)

func newAppendCommand() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "append INPUT... TABLE",
		Short: "Append the rows of Arrow, Parquet, CSV or JSON lines to a Zarr table",
		Long: `Append writes the rows of INPUT, anything that convert reads, after those of TABLE, which
convert has written: a directory, or an object store. A ZIP file is refused.

INPUT must have the columns of TABLE, with the same types, in any order. The codecs and
the chunks of TABLE are kept. A table of one chunk, which may be a short one, gets
chunks as convert chooses them, or of --chunk-rows.

The metadata of TABLE change last and at once, so a reader sees the old table or the new
one. If append fails or is interrupted, TABLE is as it was. After kill -9 it is, too,
for readers of consolidated metadata; the next append to a directory deletes what is
left, and for an object store arrow2zarr abort does.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			f.input.More = args[1:last]
			return f.withDevice(cmd, func(options arrowzarr.Options) error {
				stop := func() {}
				if f.wantsProgress(cmd.ErrOrStderr()) {
					options.Progress = &arrowzarr.Progress{}
					stop = progress.Show(cmd.ErrOrStderr(), options.Progress)
				}
				report, err := arrowzarr.Append(cmd.Context(), args[0], args[last], options)
				stop()
				switch {
				case err != nil:
					return err
				case f.quiet:
					return nil
				case f.json:
					return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(report))
				}
				return writeSummary(printAppended(cmd.OutOrStdout(), report, f.verbose))
			})
		},
	}
	appendHelp(cmd, `  arrow2zarr append monday.parquet flights.zarr
  arrow2zarr append 'week/*.arrow' s3://bucket/flights.zarr --exclude comment
  producer | arrow2zarr append - flights.zarr --json`)
	flags := cmd.Flags()
	f.addDeviceFlag(flags)
	flags.StringSliceVar(&f.columns, "columns", nil, "names or patterns (*, ?, [a-z]) of the input's columns (default all)")
	flags.StringSliceVar(&f.exclude, "exclude", nil, "names or patterns of the input's columns to leave out")
	flags.Int64Var(&f.chunkRows, "chunk-rows", 0, "rows in a chunk, if TABLE has one chunk (default: as convert chooses)")
	addInputFlags(flags, &f.input)
	f.addWorkFlags(flags)
	f.addOutputFlags(cmd)
	return cmd
}

func printAppended(out io.Writer, r *arrowzarr.AppendReport, verbose bool) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s: %s rows appended to %d columns, %s rows in all, in %.2f s\n",
		r.Output, humanize.Comma(r.Appended), r.Columns, humanize.Comma(r.Rows), r.Seconds)
	if verbose {
		printStages(w, r.Stages)
	}
	return w.Flush()
}
