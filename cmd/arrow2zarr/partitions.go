package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func newPlanCommand() *cobra.Command {
	var f convertFlags
	var partitions int
	cmd := &cobra.Command{
		Use:   "plan INPUT... OUTPUT --partitions N",
		Short: "Plan a conversion by many processes",
		Long: `Plan divides a conversion into N partitions, which "arrow2zarr partition" writes on any
machines that reach the inputs and OUTPUT under these names. "arrow2zarr finalize" then makes
the output of them. A local OUTPUT must be on a file system that all of them share.

Plan reads metadata, and all of the columns that are nested or dictionaries. OUTPUT is
locked for other conversions until finalize or abort.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			f.input.More = args[1:last]
			options, err := f.options()
			if err != nil {
				return err
			}
			debug.SetMemoryLimit(options.GoMemoryLimit())
			r, err := arrowzarr.Plan(cmd.Context(), args[0], args[last], partitions, options)
			if err != nil {
				return err
			}
			if f.json {
				return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(r))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d partitions of %s rows in all, %d columns, %.2f s\n",
				r.Output, r.Partitions, humanize.Comma(r.Rows), r.Columns, r.Seconds)
			return writeSummary(err)
		},
	}
	appendHelp(cmd, `  arrow2zarr plan s3://in/big.parquet s3://out/big.zarr --partitions 100
  arrow2zarr partition s3://out/big.zarr 0 1 2
  arrow2zarr partition s3://out/big.zarr --index-from-env
  arrow2zarr status s3://out/big.zarr
  arrow2zarr finalize s3://out/big.zarr`)
	cmd.Flags().IntVar(&partitions, "partitions", 0, "number of partitions")
	_ = cmd.MarkFlagRequired("partitions") // the flag exists
	f.addTableFlags(cmd.Flags())
	f.addWorkFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.overwrite, "overwrite", false, "replace OUTPUT if it is a Zarr hierarchy")
	cmd.Flags().BoolVar(&f.resume, "resume", false, "keep a plan of the same inputs, options and partitions")
	return cmd
}

// indexVariables are the environment variables in which schedulers tell a process of an
// array its number.
var indexVariables = []string{"JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "AWS_BATCH_JOB_ARRAY_INDEX"}

func newPartitionCommand() *cobra.Command {
	var f convertFlags
	var fromEnvironment, oneBased bool
	cmd := &cobra.Command{
		Use:   "partition OUTPUT [NUMBER...]",
		Short: "Write partitions of a planned conversion",
		Long: `Partition writes partitions of an OUTPUT that "arrow2zarr plan" has planned. Partitions may
be written in any order, at once, and again: one that is done is not written again.

With --index-from-env the number is that of the array of a scheduler: ` + strings.Join(indexVariables, ",\n") + `.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			numbers, err := partitionNumbers(args[1:], fromEnvironment, oneBased, os.LookupEnv)
			if err != nil {
				return err
			}
			return f.withDevice(cmd, func(options arrowzarr.Options) error {
				for _, number := range numbers {
					r, err := arrowzarr.RunPartition(cmd.Context(), args[0], number, options)
					if err != nil {
						return err
					}
					if err := f.printPartition(cmd, r); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	appendHelp(cmd, `  arrow2zarr partition big.zarr 0 1 2
  seq 0 99 | xargs -P 8 -n 1 arrow2zarr partition big.zarr
  sbatch --array=1-100 --wrap 'arrow2zarr partition big.zarr --index-from-env --one-based'`)
	cmd.Flags().BoolVar(&fromEnvironment, "index-from-env", false, "take the number from the environment of a scheduler")
	cmd.Flags().BoolVar(&oneBased, "one-based", false, "numbers begin at 1")
	f.addDeviceFlag(cmd.Flags())
	f.addWorkFlags(cmd.Flags())
	return cmd
}

func (f convertFlags) printPartition(cmd *cobra.Command, r *arrowzarr.PartitionReport) error {
	if f.json {
		return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(r))
	}
	what := fmt.Sprintf("%.2f s", r.Seconds)
	if r.Done {
		what = "was done before"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: partition %d: %s rows, %s in %s, %s\n", r.Output, r.Partition,
		humanize.Comma(r.Rows), humanize.IBytes(uint64(r.RawBytes)), humanize.IBytes(uint64(r.StoredBytes)), what)
	return writeSummary(err)
}

// partitionNumbers returns the numbers of the arguments or of the environment.
func partitionNumbers(args []string, fromEnvironment, oneBased bool, lookup func(string) (string, bool)) ([]int, error) {
	if fromEnvironment {
		if len(args) > 0 {
			return nil, errors.New("--index-from-env: expected no numbers besides")
		}
		for _, name := range indexVariables {
			if value, ok := lookup(name); ok {
				args = []string{value}
				break
			}
		}
		if len(args) == 0 {
			return nil, fmt.Errorf("--index-from-env: expected one of %s in the environment", strings.Join(indexVariables, ", "))
		}
	}
	if len(args) == 0 {
		return nil, errors.New("expected the number of a partition, or --index-from-env")
	}
	numbers := make([]int, len(args))
	for i, arg := range args {
		n, err := strconv.Atoi(arg)
		if err != nil {
			return nil, fmt.Errorf("%q is not the number of a partition", arg)
		}
		if oneBased {
			n--
		}
		numbers[i] = n
	}
	return numbers, nil
}

func newFinalizeCommand() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "finalize OUTPUT",
		Short: "Make the output of the partitions that are written",
		Long: `Finalize joins the partitions of OUTPUT and writes the metadata, the root's last. It
names partitions that are missing.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := f.options()
			if err != nil {
				return err
			}
			debug.SetMemoryLimit(options.GoMemoryLimit())
			r, err := arrowzarr.Finalize(cmd.Context(), args[0], options)
			if err != nil {
				return err
			}
			if f.json {
				return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(r))
			}
			return writeSummary(printReport(cmd.OutOrStdout(), r, f.verbose))
		},
	}
	appendHelp(cmd, `  arrow2zarr finalize big.zarr`)
	f.addWorkFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print more")
	return cmd
}
