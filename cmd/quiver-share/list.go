package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
)

func newListCommand(flags *connectFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List what a server publishes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := dial(cmd.Context(), flags)
			if err != nil {
				return err
			}
			defer client.Close()
			entries, err := client.List(cmd.Context())
			if err != nil {
				return withExitCode(exitServer, err)
			}
			if asJSON {
				return withExitCode(exitOutput, json.NewEncoder(cmd.OutOrStdout()).Encode(entries))
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "NAME\tKIND\tROWS\tBATCHES\tSIZE\tDEVICE\tSUBSCRIBERS")
			for _, e := range entries {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", e.Name, e.Kind, humanize.Comma(e.Rows), humanize.Comma(e.Batches), humanize.IBytes(uint64(e.Bytes)), e.Device, e.Subscribers)
			}
			return withExitCode(exitOutput, table.Flush())
		},
	}
	appendHelp(cmd, `  quiver-share ls
  quiver-share ls --socket /run/columns.sock --json`)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}
