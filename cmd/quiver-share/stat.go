package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/ipc"
)

func newStatCommand(flags *connectFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stat",
		Short: "List clients, leases and shared memory",
		Long: `Stat prints the clients of a server with the batches that they hold, and the
allocations that are shared with them. The command itself is one of the clients.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := dial(cmd.Context(), flags)
			if err != nil {
				return err
			}
			defer client.Close()
			stats, err := client.Stat(cmd.Context())
			if err != nil {
				return withExitCode(exitServer, err)
			}
			if asJSON {
				return withExitCode(exitOutput, json.NewEncoder(cmd.OutOrStdout()).Encode(stats))
			}
			return withExitCode(exitOutput, printStats(cmd, stats))
		},
	}
	appendHelp(cmd, `  quiver-share stat
  quiver-share stat --json`)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printStats(cmd *cobra.Command, stats ipc.Stats) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PID\tUSER\tCONNECTED\tHOLDS\tSEQUENCE\tSIZE\tFOR")
	for _, c := range stats.Clients {
		fmt.Fprintf(table, "%d\t%d\t%s\t-\t-\t-\t-\n", c.PID, c.UID, since(c.Connected))
		for _, l := range c.Leases {
			fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%d\t%s\t%s\n", c.PID, c.UID, since(c.Connected), l.Name, l.Sequence, humanize.IBytes(uint64(l.Bytes)), since(l.Since))
		}
	}
	if err := errors.Join(table.Flush(), printEmptyLine(cmd)); err != nil {
		return err
	}
	fmt.Fprintln(table, "BLOCK\tSIZE\tDEVICE\tBY\tLEASES\tCLIENTS")
	for _, b := range stats.Blocks {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%d\n", b.Block, humanize.IBytes(uint64(b.Size)), b.Device, b.Mechanism, b.Leases, b.Clients)
	}
	return table.Flush()
}

func printEmptyLine(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout())
	return err
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
