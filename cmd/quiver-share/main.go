// Command quiver-share shares Arrow columns with other processes of a machine, on
// its GPU or its host, and inspects what others share.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quiver-gpu/quiver/cmd/internal/version"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
)

// Exit codes. They are part of the command's interface.
const (
	exitOK     = 0
	exitUsage  = 2
	exitInput  = 3
	exitOutput = 4
	exitDevice = 5
	exitServer = 6
)

const exitCodesHelp = `
Exit codes:
  0  done
  2  invalid arguments
  3  an input file is missing or malformed
  4  the output cannot be written
  5  the device is missing or failed
  6  the server is missing, refused, or failed`

// failure is an error with an exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// withExitCode attaches an exit code to an error. An error that has one keeps it,
// since the first code is the most specific.
func withExitCode(code int, err error) error {
	var marked *failure
	if err == nil || errors.As(err, &marked) {
		return err
	}
	return &failure{code, err}
}

// withDeviceExitCode attaches an exit code to an error of opening a device by
// name.
func withDeviceExitCode(err error) error {
	if errors.Is(err, cudabuf.ErrInvalidName) {
		return withExitCode(exitUsage, err)
	}
	return withExitCode(exitDevice, err)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "quiver-share",
		Version:       version.String(),
		Short:         "Share Arrow columns with other processes, on a GPU or the host",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	var flags connectFlags
	root.PersistentFlags().StringVar(&flags.socket, "socket", defaultSocket(), "the Unix socket of the server")
	root.PersistentFlags().Var((*userList)(&flags.serverUIDs), "server-user", "ids of the users that may run the server (default: yourself and root)")
	root.AddCommand(newServeCommand(&flags.socket), newListCommand(&flags), newCatCommand(&flags), newStatCommand(&flags))
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args to cobra
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "quiver-share: %v\n", err)
	var marked *failure
	if errors.As(err, &marked) {
		return marked.code
	}
	return exitUsage // an error of cobra, such as an unknown flag
}

// connectFlags selects a server and the users that may run it.
type connectFlags struct {
	socket     string
	serverUIDs []uint32
}

// defaultSocket returns the socket path that a user's server and clients share.
func defaultSocket() string {
	folder := os.Getenv("XDG_RUNTIME_DIR")
	if folder == "" {
		folder = filepath.Join(os.TempDir(), "quiver-"+strconv.Itoa(os.Getuid()))
	}
	return filepath.Join(folder, "quiver-share.sock")
}

// appendHelp appends examples and exit codes to a command's help.
func appendHelp(cmd *cobra.Command, examples string) {
	cmd.SetHelpTemplate(cmd.HelpTemplate() + "\nExamples:\n" + examples + "\n" + exitCodesHelp + "\n")
}

// userList is a flag value that lists user ids.
type userList []uint32

func (l *userList) Type() string { return "uids" }

func (l *userList) String() string {
	words := make([]string, len(*l))
	for i, uid := range *l {
		words[i] = strconv.FormatUint(uint64(uid), 10)
	}
	return strings.Join(words, ",")
}

func (l *userList) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		uid, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return fmt.Errorf("got %q, want user ids from 0 to 4294967295", word)
		}
		*l = append(*l, uint32(uid))
	}
	return nil
}

// dial connects to a server as a client without a GPU, so that data arrives in
// host memory.
func dial(ctx context.Context, flags *connectFlags) (*ipc.Client, error) {
	client, err := ipc.Dial(ctx, flags.socket, ipc.DialOptions{ServerUIDs: flags.serverUIDs})
	if err != nil {
		return nil, withExitCode(exitServer, err)
	}
	return client, nil
}
