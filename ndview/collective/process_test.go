//go:build linux

package collective_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

// TestMain runs the tests. In a child process of a test it is one rank.
func TestMain(m *testing.M) {
	if task := os.Getenv("QUIVER_COLLECTIVE_TASK"); task != "" {
		os.Exit(runTask(task))
	}
	os.Exit(m.Run())
}

// The tasks of child processes. Each is one rank, on the device that QUIVER_COLLECTIVE_DEVICE
// names, at the rendezvous QUIVER_COLLECTIVE_AT or, without it, that of the environment.
func runTask(task string) int {
	tasks := map[string]func(w *worker) error{"sum": (*worker).sum, "loop": (*worker).loop, "bench": (*worker).bench}
	w, err := newWorker()
	if err == nil {
		err = tasks[task](w)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// worker is a rank in a process of its own.
type worker struct {
	dev    arrowbuf.Device
	driver *cudabuf.Driver // nil on the CPU
	comm   *collective.Comm
}

func newWorker() (w *worker, err error) {
	w = &worker{dev: arrowbuf.CPU()}
	r := collective.Rendezvous{Address: os.Getenv("QUIVER_COLLECTIVE_AT")}
	if r.Address == "" {
		if r, err = collective.FromEnv(); err != nil {
			return nil, err
		}
	} else {
		r.Rank, _ = strconv.Atoi(os.Getenv("RANK"))
		r.Size, _ = strconv.Atoi(os.Getenv("WORLD_SIZE"))
	}
	ordinal := 0
	switch os.Getenv("QUIVER_COLLECTIVE_DEVICE") {
	case "simulated":
		w.driver = cudatest.New(cudatest.Config{})
	case "cuda":
		w.driver, err = cudabuf.Open()
		ordinal = r.Rank
	}
	if err == nil && w.driver != nil {
		w.dev, err = w.driver.Device(ordinal)
	}
	if err != nil {
		return nil, err
	}
	o := collective.Options{Timeout: limit}
	if text := os.Getenv("QUIVER_COLLECTIVE_TIMEOUT"); text != "" {
		if o.Timeout, err = time.ParseDuration(text); err != nil {
			return nil, err
		}
	}
	w.comm, err = collective.Connect(w.dev, r, o)
	return w, err
}

// close closes what the worker has opened; the driver reports memory in use.
func (w *worker) close() error {
	err := w.comm.Close()
	if w.driver != nil {
		err = errors.Join(err, w.driver.Close())
	}
	return err
}

// sum prints the sum of the ranks plus one, of several collectives.
func (w *worker) sum() error {
	err := scoped(func(s *ndview.Scope) error {
		a, err := s.Add(ndview.Full(w.dev, ndview.Int64, w.comm.Rank()+1, 1000))
		if err != nil {
			return err
		}
		sum, err := w.comm.AllReduce(a, collective.Sum)
		if err != nil {
			return err
		}
		all, err := w.comm.AllGather(sum)
		if err != nil {
			return err
		}
		total, err := ndview.Max.Of(all, ndview.ReduceOptions{})
		if err != nil {
			return err
		}
		v, err := total.Item()
		if err != nil {
			return err
		}
		// Ranks on this machine share memory, however they meet.
		if cuda := os.Getenv("QUIVER_COLLECTIVE_DEVICE") == "cuda"; (mappings() > 0) == cuda {
			return fmt.Errorf("%d mappings of shared memory", mappings())
		}
		fmt.Println("sum", v)
		return w.comm.Wait()
	})
	return errors.Join(err, w.close())
}

// loop sums until another rank dies, and prints the error.
func (w *worker) loop() error {
	failure := scoped(func(s *ndview.Scope) error {
		a, err := s.Add(ndview.Zeros(w.dev, ndview.Float32, 1<<20))
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			if err := w.comm.AllReduceInto(a, a, collective.Sum); err != nil {
				return err
			}
			if err := w.comm.Wait(); err != nil {
				return err
			}
			if i == 0 {
				fmt.Println("running")
			}
		}
	})
	for kind, sentinel := range map[string]error{"peer": collective.ErrPeer, "timeout": collective.ErrTimeout} {
		if !errors.Is(failure, sentinel) {
			continue
		}
		fmt.Println(kind, failure)
		if err := w.comm.Close(); !errors.Is(err, sentinel) {
			return fmt.Errorf("Close returned %w, want the failure", err)
		}
	}
	// The memory of the operations comes back.
	if n := mappings(); n > 0 {
		return fmt.Errorf("%d mappings of shared memory after Close", n)
	}
	if w.driver != nil {
		return w.driver.Close()
	}
	return nil
}

// child is a running rank.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// startRanks starts a process for each rank.
func startRanks(t *testing.T, task, device string, size int, env ...string) []*child {
	t.Helper()
	children := make([]*child, size)
	for rank := range children {
		cmd := exec.Command(os.Args[0])
		cmd.Env = environ(task, rank, size, append(env, "QUIVER_COLLECTIVE_DEVICE="+device)...)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		children[rank] = &child{cmd, bufio.NewScanner(out)}
	}
	return children
}

// line returns the next line that the process prints.
func (c *child) line() string {
	if c.lines.Scan() {
		return c.lines.Text()
	}
	return ""
}

// end returns what the process still prints, and fails if it does not end well.
func (c *child) end(t *testing.T) string {
	t.Helper()
	var rest []string
	for c.lines.Scan() {
		rest = append(rest, c.lines.Text())
	}
	assert.NoError(t, c.cmd.Wait(), "%v", rest)
	return strings.Join(rest, "\n")
}

// processDevices are the devices on which ranks run in processes.
func processDevices(t *testing.T, ranks int) []string {
	devices := []string{"cpu", "simulated"}
	if cudatest.OnGPU() {
		d, err := cudabuf.Open()
		require.NoError(t, err)
		defer func() { require.NoError(t, d.Close()) }()
		if d.Count() >= ranks {
			return append(devices, "cuda")
		}
	}
	return devices
}

func TestProcessesMeetAtEachKindOfRendezvous(t *testing.T) {
	for _, device := range processDevices(t, 2) {
		folder := t.TempDir()
		for name, env := range map[string][]string{
			"file":        {"QUIVER_COLLECTIVE_AT=file:" + filepath.Join(folder, "id")},
			"unix":        {"QUIVER_COLLECTIVE_AT=unix:" + filepath.Join(folder, "socket")},
			"tcp":         {"QUIVER_COLLECTIVE_AT=tcp:127.0.0.1:" + freePort(t)},
			"environment": {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t)},
		} {
			t.Run(device+"/"+name, func(t *testing.T) {
				size := 3
				if device == "cuda" {
					size = 2
				}
				for rank, c := range startRanks(t, "sum", device, size, env...) {
					assert.Equal(t, fmt.Sprint("sum ", size*(size+1)/2), c.end(t), "rank %d", rank)
				}
			})
		}
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		assert.Empty(t, left, "rank 0 removes its file and its socket")
	}
}

// A killed rank is an error of all others, within the limit, and their memory comes back.
func TestKilledRankIsAnErrorOfAllOthers(t *testing.T) {
	for _, device := range processDevices(t, 2) {
		size := 3
		if device == "cuda" {
			size = 2
		}
		for victim := range size {
			t.Run(fmt.Sprint(device, "/rank ", victim), func(t *testing.T) {
				children := startRanks(t, "loop", device, size, "QUIVER_COLLECTIVE_AT=file:"+filepath.Join(t.TempDir(), "id"))
				for rank, c := range children {
					require.Equal(t, "running", c.line(), "rank %d", rank)
				}
				killed := time.Now()
				require.NoError(t, children[victim].cmd.Process.Kill())
				for rank, c := range children {
					if rank != victim {
						line := c.line()
						assert.Regexp(t, fmt.Sprintf("^peer .*rank %d", victim), line, "rank %d", rank)
						assert.Less(t, time.Since(killed), limit)
						t.Logf("rank %d after %v: %s", rank, time.Since(killed).Round(time.Millisecond), line)
						assert.Empty(t, c.end(t))
					}
				}
			})
		}
	}
}

// A rank that hangs is a timeout of all others.
func TestStoppedRankIsATimeoutOfAllOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, device := range processDevices(t, 2) {
		t.Run(device, func(t *testing.T) {
			timeout := "3s" // within which the processes also join
			if device == "cuda" {
				timeout = "8s"
			}
			children := startRanks(t, "loop", device, 2, "QUIVER_COLLECTIVE_AT=file:"+filepath.Join(t.TempDir(), "id"), "QUIVER_COLLECTIVE_TIMEOUT="+timeout)
			for rank, c := range children {
				require.Equal(t, "running", c.line(), "rank %d", rank)
			}
			stopped := time.Now()
			require.NoError(t, children[0].cmd.Process.Signal(syscall.SIGSTOP))
			assert.Regexp(t, "^timeout ", children[1].line())
			assert.Less(t, time.Since(stopped), limit)
			assert.Empty(t, children[1].end(t))
			// A rank that goes on learns of it.
			require.NoError(t, children[0].cmd.Process.Signal(syscall.SIGCONT))
			assert.Regexp(t, "^timeout ", children[0].line())
			assert.Empty(t, children[0].end(t))
		})
	}
}
