package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func newAbortCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "abort OUTPUT...",
		Aliases: []string{"clean"}, // after a conversion that was killed, nothing is left to abort
		Short:   "Delete what is unfinished of an output",
		Long: `Abort deletes planned partitions, and what a conversion that was killed has left. A
complete output is kept, also if the unfinished one was to replace it, and a table to
which rows were being appended is as it was. A local output is refused while a process
writes it. For one in an object store, end the processes before.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error
			for _, output := range args {
				deleted, err := arrowzarr.Abort(cmd.Context(), output)
				what := "nothing is unfinished"
				if deleted {
					what = "deleted what was unfinished"
				}
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", output, what)
					err = writeSummary(err)
				}
				failed = errors.Join(failed, err)
			}
			return failed
		},
	}
}

func newStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status OUTPUT",
		Short: "Print how far an output is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := arrowzarr.Status(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(s))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", s.Output, describeStatus(s))
			return writeSummary(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func describeStatus(s *arrowzarr.OutputStatus) string {
	switch s.State {
	case arrowzarr.StateAppending:
		return "rows are being appended, or that was interrupted; the table is as it was before"
	case arrowzarr.StateMissing:
		return "does not exist"
	case arrowzarr.StatePartitions:
		done := s.Partitions - len(s.Missing)
		text := fmt.Sprintf("%d of %d partitions are written, %s of %s rows", done, s.Partitions, humanize.Comma(s.RowsDone), humanize.Comma(s.Rows))
		if len(s.Missing) == 0 {
			return text + "; arrow2zarr finalize completes it"
		}
		return text + "; missing: " + s.MissingRanges()
	case arrowzarr.StateInterrupted:
		return fmt.Sprintf("interrupted, with %s rows at the last checkpoint, in %s", humanize.Comma(s.RowsDone), s.Folder)
	case arrowzarr.StateConverting:
		return fmt.Sprintf("being converted, with %s rows at the last checkpoint", humanize.Comma(s.RowsDone))
	}
	return s.State
}
