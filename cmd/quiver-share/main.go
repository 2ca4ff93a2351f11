// Command quiver-share shares Arrow columns with other processes of a machine,
// on its GPU or its host, and looks at what others share.
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

	"github.com/quiver-gpu/quiver/cmd/internal/device"
	"github.com/quiver-gpu/quiver/ipc"
)

// Exit codes. They are part of the command's contract.
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
  2  the arguments do not make sense
  3  a file is missing, or not what it should be
  4  the output cannot be written
  5  the device is not there, or failed
  6  the server is not there, refused, or failed`

// failure is an error with the exit code that it ends the program with.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed marks an error, unless it is marked: the first to know is right.
func failed(code int, err error) error {
	var marked *failure
	if err == nil || errors.As(err, &marked) {
		return err
	}
	return &failure{code, err}
}

// failedDevice marks an error of opening a device by name.
func failedDevice(err error) error {
	if errors.Is(err, device.ErrInvalidName) {
		return failed(exitUsage, err)
	}
	return failed(exitDevice, err)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "quiver-share",
		Short:         "Share Arrow columns with other processes, on a GPU or the host",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	var at place
	root.PersistentFlags().StringVar(&at.socket, "socket", defaultSocket(), "the Unix socket of the server")
	root.PersistentFlags().Var((*userList)(&at.servers), "server-user", "numbers of the users whose server is talked to (default: yourself and root)")
	root.AddCommand(newServeCommand(&at.socket), newListCommand(&at), newCatCommand(&at), newStatCommand(&at))
	root.SetArgs(append([]string{}, args...)) // cobra takes nil for "those of the process"
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
	return exitUsage // of cobra: an unknown flag, a missing argument
}

// place is where a server is, and whose it may be.
type place struct {
	socket  string
	servers []uint32
}

// defaultSocket is where server and clients of a user meet.
func defaultSocket() string {
	folder := os.Getenv("XDG_RUNTIME_DIR")
	if folder == "" {
		folder = filepath.Join(os.TempDir(), "quiver-"+strconv.Itoa(os.Getuid()))
	}
	return filepath.Join(folder, "quiver-share.sock")
}

// endHelp puts examples and exit codes behind the flags of a command's help.
func endHelp(cmd *cobra.Command, examples string) {
	cmd.SetHelpTemplate(cmd.HelpTemplate() + "\nExamples:\n" + examples + "\n" + exitCodesHelp + "\n")
}

// userList is the value of a flag that lists users by number.
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
			return fmt.Errorf("%q: expected numbers of users, from 0 to 4294967295", word)
		}
		*l = append(*l, uint32(uid))
	}
	return nil
}

// dial connects to a server as a client without a GPU: what it looks at comes in
// the host's memory.
func dial(ctx context.Context, at *place) (*ipc.Client, error) {
	client, err := ipc.Dial(ctx, at.socket, ipc.DialOptions{ServerUIDs: at.servers})
	if err != nil {
		return nil, failed(exitServer, err)
	}
	return client, nil
}
