package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func newRestoreCommand() *cobra.Command {
	var options arrowzarr.RestoreOptions
	var maxMemory string
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "restore ZARR OUTPUT",
		Short: "Write the table in a Zarr group as Arrow or Parquet again",
		Long: `Restore reads the columns of ZARR and writes OUTPUT, whose name says the format:
.arrow is an Arrow IPC file, .arrows an Arrow IPC stream, .parquet Parquet, and "-"
an Arrow IPC stream on standard output.

The table of a group that convert wrote equals the converted one. Of any other group,
each array is a column. All must have one length: --exclude leaves out others.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			options.Stdout = cmd.OutOrStdout()
			var err error
			if options.MaxMemory, err = parseSize(maxMemory); err != nil {
				return fmt.Errorf("--max-memory %q: %w", maxMemory, err)
			}
			debug.SetMemoryLimit(arrowzarr.Options{MaxMemory: options.MaxMemory}.GoMemoryLimit())
			report, err := arrowzarr.Restore(cmd.Context(), args[0], args[1], options)
			if err != nil || args[1] == "-" || quiet {
				return err
			}
			if asJSON {
				return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(report))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s rows, %d columns in %.2f s\n",
				report.Output, report.Format, humanize.Comma(report.Rows), report.Columns, report.Seconds)
			return writeSummary(err)
		},
	}
	appendHelp(cmd, `  arrow2zarr restore flights.zarr flights.parquet
  arrow2zarr restore flights.zarr delays.parquet --columns '*_delay,origin'
  arrow2zarr restore flights.zarr - | consumer`)
	flags := cmd.Flags()
	flags.StringSliceVar(&options.Columns, "columns", nil, "names or patterns (*, ?, [a-z]) of the columns to restore (default all)")
	flags.StringSliceVar(&options.Exclude, "exclude", nil, "names or patterns of columns to leave out")
	flags.StringVar(&maxMemory, "max-memory", "1GiB", "most memory to use")
	flags.IntVar(&options.Jobs, "jobs", 0, "chunks read and decoded at once (default: one per core, up to 64 from an object store)")
	flags.Int64Var(&options.BatchRows, "batch-rows", 0, "most rows in a record batch (default: 64 MiB, or less by --max-memory)")
	flags.BoolVar(&options.Overwrite, "overwrite", false, "replace OUTPUT")
	flags.BoolVar(&asJSON, "json", false, "print a summary as one JSON object")
	flags.BoolVarP(&quiet, "quiet", "q", false, "print nothing but errors")
	cmd.MarkFlagsMutuallyExclusive("quiet", "json")
	return cmd
}

// errDiffers is the result of verify for tables that differ. The difference is printed
// already.
var errDiffers = errors.New("the tables differ")

func newVerifyCommand() *cobra.Command {
	var asJSON, quiet bool
	var options arrowzarr.Options
	cmd := &cobra.Command{
		Use:   "verify INPUT... ZARR",
		Short: "Compare every value of an input with the Zarr group that it became",
		Long: `Verify compares INPUT, anything that convert reads, with the Zarr group that convert
made of it: the schema, and every value. It prints the first
difference.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			options.Input.More = args[1:last]
			report, err := arrowzarr.Verify(cmd.Context(), args[0], args[last], options)
			if err != nil {
				return err
			}
			if quiet && report.Difference == "" {
				return nil
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else if report.Difference == "" {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s equals %s: %s rows, %d columns in %.2f s\n",
					report.Zarr, report.Input, humanize.Comma(report.Rows), report.Columns, report.Seconds)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s differs from %s: %s\n", report.Zarr, report.Input, report.Difference)
			}
			if err == nil && report.Difference != "" {
				return errDiffers
			}
			return writeSummary(err)
		},
	}
	appendHelp(cmd, `  arrow2zarr verify flights.parquet flights.zarr`)
	flags := cmd.Flags()
	addInputFlags(flags, &options.Input)
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.BoolVarP(&quiet, "quiet", "q", false, "print nothing but a difference and errors")
	cmd.MarkFlagsMutuallyExclusive("quiet", "json")
	return cmd
}

// writeSummary marks the failure to write a result as one of the output.
func writeSummary(err error) error {
	if err == nil {
		return nil
	}
	return &arrowzarr.Error{Part: arrowzarr.PartOutput, Err: fmt.Errorf("writing the summary: %w", err)}
}
