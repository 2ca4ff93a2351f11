// Command arrow2zarr converts Arrow, Parquet, CSV and JSON lines to Zarr.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
  130  interrupted

With --json, an error is one JSON object on standard error, with the keys error, part
and exit_code.`

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

// newRoot returns the command, which writes to stdout and stderr.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "arrow2zarr",
		Version:       version.String(),
		Short:         "Convert Arrow, Parquet, CSV and JSON lines to Zarr, and back to Arrow and Parquet",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newConvertCommand(), newAppendCommand(), newPlanCommand(), newPartitionCommand(), newFinalizeCommand(), newStatusCommand(), newAbortCommand(), newRestoreCommand(), newVerifyCommand(), newInspectCommand(), newManCommand())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if number := (*strconv.NumError)(nil); errors.As(err, &invalid) && errors.As(err, &number) {
			return fmt.Errorf("invalid argument %q for --%s: expected a whole number, such as 65536", invalid.GetValue(), invalid.GetFlag().Name)
		}
		return err
	})
	root.SetOut(stdout) // the command of completion keeps it
	root.SetErr(stderr)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// run runs the command with arguments and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(append([]string{}, args...)) // cobra would take the arguments of the process for nil
	command, err := root, unknownCommand(root, args)
	if err == nil {
		command, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errDiffers) {
		return exitDifferent
	}
	failure := failure{err.Error(), partOf(err), exitCode(err)}
	if ctx.Err() != nil {
		failure = interruption(command)
	}
	failure.print(stderr, wantsJSON(args))
	return failure.ExitCode
}

// unknownCommand returns an error if the first argument is no command. Two files are
// probably meant for convert.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "__complete") {
		return nil
	}
	if found, _, _ := root.Find(args); found != root {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%s: did you mean %s?", text, strings.Join(near, " or "))
	}
	if _, err := os.Stat(args[0]); len(args) > 1 || err == nil {
		return fmt.Errorf("%s: did you mean arrow2zarr convert %s?", text, strings.Join(args, " "))
	}
	return fmt.Errorf("%s: arrow2zarr --help lists the commands", text)
}

// failure is an error as it is printed. With --json, it is one JSON object.
type failure struct {
	Error    string `json:"error"`
	Part     string `json:"part"`
	ExitCode int    `json:"exit_code"`
}

// interruption is the failure of a command that was interrupted.
func interruption(command *cobra.Command) failure {
	left := "nothing is left behind"
	if name := command.Name(); name == "partition" || name == "finalize" {
		left = "the plan is kept, so it can run again"
	} else if name == "append" {
		left = "the table is as it was"
	} else if resume := command.Flags().Lookup("resume"); resume != nil && resume.Changed {
		left = "what is written is kept: --resume continues it"
	}
	return failure{"interrupted; " + left, "interrupted", exitInterrupted}
}

func (f failure) print(w io.Writer, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(w).Encode(f) // an error that cannot be printed has an exit code
		return
	}
	// Errors of several columns have a line each.
	fmt.Fprintf(w, "arrow2zarr: %s\n", strings.ReplaceAll(f.Error, "\n", "\n  "))
}

// wantsJSON reports whether the arguments have --json: also if they are invalid.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--json", "--json=true":
			return true
		case "--":
			return false
		}
	}
	return false
}

// partOf returns the name of the part that failed.
func partOf(err error) string {
	var failure *arrowzarr.Error
	if !errors.As(err, &failure) { // an error of cobra, such as an unknown flag
		return arrowzarr.PartUsage.String()
	}
	return failure.Part.String()
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
