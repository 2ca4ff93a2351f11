package dissociated

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

// peerVariable makes the test binary run as another process. Its value is the
// role, the device and further arguments.
const peerVariable = "QUIVER_TEST_DISSOCIATED_PEER"

func TestMain(m *testing.M) {
	if what := os.Getenv(peerVariable); what != "" {
		if err := runPeer(strings.Split(what, " ")); err != nil {
			fmt.Println("peer:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// peer is another process.
type peer struct {
	*exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startPeer(t *testing.T, what ...string) *peer {
	t.Helper()
	p, err := tryPeer(t, nil, what...)
	require.NoError(t, err)
	return p
}

func tryPeer(t *testing.T, attributes *syscall.SysProcAttr, what ...string) (*peer, error) {
	t.Helper()
	p := &peer{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", peerVariable+"="+strings.Join(what, " "))
	p.Stderr, p.SysProcAttr = os.Stderr, attributes
	var err error
	p.in, err = p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.lines = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p, nil
}

// readLine waits for the next line that the process prints.
func (p *peer) readLine(t *testing.T) string {
	t.Helper()
	require.True(t, p.lines.Scan(), "the other process printed no further line")
	return p.lines.Text()
}

// proceed lets the process continue.
func (p *peer) proceed(t *testing.T) {
	t.Helper()
	_, err := p.in.Write([]byte("\n"))
	require.NoError(t, err)
}

// runPeer runs the role of the other process.
func runPeer(what []string) error {
	if err := ipctest.MountProc(); err != nil {
		fmt.Println("no /proc:", err)
		return nil
	}
	dev, _, closeDriver, err := ipctest.OpenDevice(what[1])
	if err != nil {
		return err
	}
	stdin := bufio.NewReader(os.Stdin)
	wait := func() { _, _ = stdin.ReadString('\n') }
	if what[0] == "client" {
		err = peerClient(dev, what[2], what[3], wait)
	} else {
		err = peerServer(dev, what[2], wait)
	}
	return errors.Join(err, closeDriver())
}

// numbered returns a reader of n batches with 100, 200, ... rows.
func numbered(n int) array.RecordReader {
	i := 0
	return arrowbuf.NewReaderFunc(schema, func() (arrow.RecordBatch, error) {
		if i == n {
			return nil, io.EOF
		}
		i++
		return rowsOf(i, 100*i)
	}, func() {})
}

// peerClient reads all batches and checks them. It keeps two, waits, checks these
// again, and releases them.
func peerClient(dev arrowbuf.Device, metadata, data string, wait func()) error {
	r, err := Dial(context.Background(), metadata, data, []byte("numbered"), dev, ReceiveOptions{})
	if err != nil {
		return err
	}
	defer r.Release()
	var kept []arrow.RecordBatch
	count := 0
	for r.Next() {
		count++
		if err := checkBatch(count, r.RecordBatch()); err != nil {
			return err
		}
		if len(kept) < 2 {
			r.RecordBatch().Retain()
			kept = append(kept, r.RecordBatch())
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	fmt.Println("read", count)
	wait()
	for i, one := range kept {
		if err := checkBatch(i+1, one); err != nil {
			return err
		}
		one.Release()
	}
	fmt.Println("released")
	return nil
}

// checkBatch compares a batch with that of numbered.
func checkBatch(number int, got arrow.RecordBatch) error {
	want, err := rowsOf(number, 100*number)
	if err != nil {
		return err
	}
	defer want.Release()
	host, err := arrowbuf.CopyTo(got, arrowbuf.CPU())
	if err != nil {
		return err
	}
	defer host.Release()
	if !array.RecordEqual(want, host) {
		return fmt.Errorf("batch %d: got %v, want %v", number, host, want)
	}
	return nil
}

// peerServer serves numbered batches from a window until wait returns.
func peerServer(dev arrowbuf.Device, folder string, wait func()) error {
	w, err := NewWindow(dev, 1<<20)
	if err != nil {
		return err
	}
	s, err := numberedServer(folder, dev, w, 5)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	metadata, data := s.URIs()
	fmt.Println(metadata)
	fmt.Println(data)
	wait()
	cancel()
	return errors.Join(<-done, w.Close())
}

func numberedServer(folder string, dev arrowbuf.Device, w *Window, n int) (*Server, error) {
	s := &Server{Window: w, Open: func(_ context.Context, identifier []byte) (array.RecordReader, error) {
		if string(identifier) != "numbered" {
			return nil, fmt.Errorf("no stream %q", identifier)
		}
		host := numbered(n)
		defer host.Release()
		return arrowbuf.NewReader(host, dev)
	}}
	var err error
	if s.Metadata, err = Listen(filepath.Join(folder, "m")); err != nil {
		return nil, err
	}
	s.Data, err = Listen(filepath.Join(folder, "d"))
	return s, err
}

// serve runs a server until the end of the test.
func serve(t *testing.T, dev arrowbuf.Device, w *Window, n int) (metadata, data string) {
	t.Helper()
	s, err := numberedServer(t.TempDir(), dev, w, n)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	m, d := s.URIs()
	return m.String(), d.String()
}
