// Command arrow2zarr converts Arrow and Parquet files to Zarr.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cmd/internal/version"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/azure" // az URLs
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/gcs"   // gs URLs
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"    // s3 URLs
	_ "github.com/quiver-gpu/quiver/zarr/store/httpstore"       // http and https URLs
)

// Exit codes are part of the interface of the command: scripts distinguish a malformed
// input from a full disk by them.
const (
	exitOK          = 0
	exitDifferent   = 1
	exitUsage       = 2
	exitInput       = 3
	exitOutput      = 4
	exitDevice      = 5
	exitInterrupted = 130
)

const exitCodesHelp = `
Exit codes:
  0    done
  1    the tables that verify compares differ
  2    the arguments are invalid
  3    the input is missing, malformed, or of a type that has no Zarr form
  4    the output cannot be written
  5    the device does not exist, or failed
  130  interrupted`

// appendHelp appends examples and exit codes to the help of a command. After the flags,
// a terminal shows them without scrolling.
func appendHelp(cmd *cobra.Command, examples string) {
	cmd.SetHelpTemplate(cmd.HelpTemplate() + "\nExamples:\n" + examples + "\n" + exitCodesHelp + "\n")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command with arguments and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "arrow2zarr",
		Version:       version.String(),
		Short:         "Convert Arrow and Parquet files to Zarr, and back",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newConvertCommand(), newPlanCommand(), newPartitionCommand(), newFinalizeCommand(), newStatusCommand(), newAbortCommand(), newRestoreCommand(), newVerifyCommand(), newInspectCommand())
	root.SetArgs(append([]string{}, args...)) // cobra would take the arguments of the process for nil
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errDiffers) {
		return exitDifferent
	}
	if ctx.Err() != nil {
		left := "nothing is left behind"
		if name := command.Name(); name == "partition" || name == "finalize" {
			left = "the plan is kept, so it can run again"
		} else if resume := command.Flags().Lookup("resume"); resume != nil && resume.Changed {
			left = "what is written is kept: --resume continues it"
		}
		fmt.Fprintf(stderr, "arrow2zarr: interrupted; %s\n", left)
		return exitInterrupted
	}
	// Errors of several columns have a line each.
	fmt.Fprintf(stderr, "arrow2zarr: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	return exitCode(err)
}

func exitCode(err error) int {
	var failure *arrowzarr.Error
	if !errors.As(err, &failure) {
		return exitUsage // an error of cobra, such as an unknown flag
	}
	switch failure.Part {
	case arrowzarr.PartInput:
		return exitInput
	case arrowzarr.PartOutput:
		return exitOutput
	case arrowzarr.PartDevice:
		return exitDevice
	default:
		return exitUsage
	}
}
