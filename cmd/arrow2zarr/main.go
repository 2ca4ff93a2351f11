// Command arrow2zarr turns Arrow and Parquet files into Zarr.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// Exit codes. They are part of the command's contract: scripts tell a broken
// input from a full disk by them.
const (
	exitOK          = 0
	exitUsage       = 2
	exitInput       = 3
	exitOutput      = 4
	exitDevice      = 5
	exitInterrupted = 130
)

const exitCodesHelp = `
Exit codes:
  0    done
  2    the arguments do not make sense
  3    the input is missing, broken, or of a type that has no Zarr form
  4    the output cannot be written
  5    the device is not there, or failed
  130  interrupted`

// appendHelp puts examples and exit codes at the end of a command's help, behind
// the flags, where a terminal shows them without scrolling.
func appendHelp(cmd *cobra.Command, examples string) {
	cmd.SetHelpTemplate(cmd.HelpTemplate() + "\nExamples:\n" + examples + "\n" + exitCodesHelp + "\n")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "arrow2zarr",
		Short:         "Turn Arrow and Parquet files into Zarr",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newConvertCommand(), newInspectCommand())
	root.SetArgs(append([]string{}, args...)) // cobra takes nil for "those of the process"
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "arrow2zarr: interrupted; nothing is left behind")
		return exitInterrupted
	}
	fmt.Fprintf(stderr, "arrow2zarr: %v\n", err)
	return exitCode(err)
}

func exitCode(err error) int {
	var failure *arrowzarr.Error
	if !errors.As(err, &failure) {
		return exitUsage // of cobra: an unknown flag, a missing argument
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
