//go:build linux

package ipc_test

import (
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// peerVariable makes a run of the test binary be another process, on a machine of
// that kind.
const peerVariable = "QUIVER_TEST_PEER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(peerVariable); kind != "" {
		bePeer(kind)
		return
	}
	os.Exit(m.Run())
}

// peer is another process, which does what the test calls for.
type peer struct {
	t       testing.TB
	command *exec.Cmd
	client  *rpc.Client
	end     error // of the process
}

// startPeer starts a process. It must end without a leak when the test does,
// unless the test has killed it.
func startPeer(t testing.TB, m machine) *peer {
	t.Helper()
	p, err := tryPeer(t, m, nil)
	require.NoError(t, err)
	return p
}

func tryPeer(t testing.TB, m machine, attributes *syscall.SysProcAttr) (*peer, error) {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Args[0] = os.Args[0]
	command.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", peerVariable+"="+m.kind)
	command.Stderr = os.Stderr
	if command.SysProcAttr = attributes; attributes == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &peer{t: t, command: command, client: rpc.NewClient(pipes{stdout, stdin})}
	t.Cleanup(p.close)
	return p, nil
}

// close ends the process, which must not leak.
func (p *peer) close() {
	if p.command.ProcessState != nil {
		return
	}
	assert.NoError(p.t, p.call("Close", 0, nil), "the other process leaks")
	_ = p.client.Close()
	assert.NoError(p.t, p.command.Wait())
}

// kill ends the process as a crash does.
func (p *peer) kill() {
	_ = p.command.Process.Kill()
	p.wait()
}

// wait waits for a process that was killed.
func (p *peer) wait() {
	p.end = p.command.Wait()
	_ = p.client.Close()
	assert.Equal(p.t, syscall.SIGKILL, p.command.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%v", p.end)
}

// call calls a method of Peer, for 10 s at most.
func (p *peer) call(method string, argument, reply any) error {
	select {
	case done := <-p.client.Go("Peer."+method, argument, reply, make(chan *rpc.Call, 1)).Done:
		return done.Error
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%s hangs", method)
	}
}

// do is a call that must not fail.
func (p *peer) do(method string, argument any) {
	p.t.Helper()
	require.NoError(p.t, p.call(method, argument, nil), method)
}

type pipes struct {
	io.Reader
	io.WriteCloser
}

func bePeer(kind string) {
	p := &Peer{kind: kind, place: arrowbuf.CPU(), held: map[string][]arrow.RecordBatch{}, buffers: map[string]arrowbuf.Buffer{}}
	var err error
	if p.mount = mountProc(); p.mount == nil || kind != "cuda" {
		err = p.openDevice()
	}
	server := rpc.NewServer()
	if err == nil {
		err = server.Register(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	server.ServeConn(pipes{os.Stdin, os.Stdout})
}
