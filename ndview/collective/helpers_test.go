package collective_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

// limit is within what an error must arrive. It is far more than is needed, since machines
// of tests are slow.
const limit = 20 * time.Second

// kind is a kind of devices, of which a test uses n.
type kind struct {
	name    string
	devices []arrowbuf.Device
}

// forEachKind runs a test on n ranks of the CPU, of simulated devices, and of GPUs if the
// environment asks for them and the machine has as many.
func forEachKind(t *testing.T, n int, test func(t *testing.T, k kind)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) {
		k := kind{name: "cpu"}
		dev := arrowbuftest.Checked(t, arrowbuf.CPU()) // reports leaks
		for range n {
			k.devices = append(k.devices, dev)
		}
		test(t, k)
	})
	onCUDA(t, n, test)
}

func onCUDA(t *testing.T, n int, test func(t *testing.T, k kind)) {
	cudatest.ForEachDriver(t, n, func(t *testing.T, d *cudabuf.Driver) {
		k := kind{name: "cuda"}
		for i := range n {
			dev, err := d.Device(i)
			require.NoError(t, err)
			k.devices = append(k.devices, dev)
			if dev.RunsHostKernels() {
				k.name = "simulated"
			}
		}
		test(t, k)
	})
}

// onRanks is forEachKind with a communicator of the ranks, which is closed at the end.
func onRanks(t *testing.T, n int, o collective.Options, test func(t *testing.T, k kind, comms []*collective.Comm)) {
	t.Helper()
	forEachKind(t, n, func(t *testing.T, k kind) {
		comms := newAll(t, k, o)
		test(t, k, comms)
	})
}

func newAll(t *testing.T, k kind, o collective.Options) []*collective.Comm {
	t.Helper()
	comms, err := collective.NewAll(k.devices, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, c := range comms {
			_ = c.Close() // tests of failures check the error themselves
		}
	})
	return comms
}

// each runs f for all ranks at the same time and returns their errors.
func each(comms []*collective.Comm, f func(c *collective.Comm) error) []error {
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for rank, c := range comms {
		wg.Go(func() { errs[rank] = f(c) })
	}
	wg.Wait()
	return errs
}

// together runs f for all ranks at the same time, and fails if one returns an error.
func together(t *testing.T, comms []*collective.Comm, f func(c *collective.Comm) error) {
	t.Helper()
	require.NoError(t, errors.Join(each(comms, f)...))
}

// scoped runs f with a scope, which it releases.
func scoped(f func(s *ndview.Scope) error) error {
	s := ndview.NewScope()
	defer s.Release()
	return f(s)
}

// equalBytes returns an error unless an array has the elements of another one on the host.
func equalBytes(got, want *ndview.NDBuffer, what string) error {
	g, err := got.Bytes()
	if err != nil {
		return err
	}
	w, err := want.Bytes()
	if err != nil {
		return err
	}
	if string(g) != string(w) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// number is element i of rank in the tests: a small integer, so that sums and products of
// few ranks are exact in every type.
func number(i, rank int, signed bool) int {
	v := (i*7+rank*3+i/5)%5 + 1
	if signed && (i+rank)%3 == 0 {
		return -v
	}
	return v
}

// numbers returns an array of a type on a device, of the numbers of a rank.
func numbers(dev arrowbuf.Device, dtype ndview.DType, n, rank int) (*ndview.NDBuffer, error) {
	return castFrom(dev, dtype, n, func(i int) complex128 { return value(dtype, i, rank) })
}

// value is the number i of a rank as an element of a type.
func value(dtype ndview.DType, i, rank int) complex128 {
	switch dtype.Kind() {
	case ndview.KindBool:
		return complex(float64((i+rank)%2), 0)
	case ndview.KindComplex:
		return complex(float64(number(i, rank, true)), float64(number(i+1, rank, true)))
	case ndview.KindUint:
		return complex(float64(number(i, rank, false)), 0)
	}
	return complex(float64(number(i, rank, true)), 0)
}

// castFrom returns an array whose elements are the values of f, cast to a type.
func castFrom(dev arrowbuf.Device, dtype ndview.DType, n int, f func(i int) complex128) (*ndview.NDBuffer, error) {
	values := make([]complex128, n)
	for i := range values {
		values[i] = f(i)
	}
	wide, err := ndview.FromHost(arrowbuf.CPU(), ndview.Complex128, values, int64(n))
	if err != nil {
		return nil, err
	}
	defer wide.Release()
	return ndview.AsArray(wide, ndview.AsArrayOptions{Device: dev, DType: dtype})
}

var numericTypes = []ndview.DType{
	ndview.Bool, ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Uint8, ndview.Uint16, ndview.Uint32,
	ndview.Uint64, ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64, ndview.Complex64, ndview.Complex128,
}

// resources are what a communicator must release.
type resources struct{ files, goroutines, mappings int }

// resourcesInUse counts open files, shared memory, and the goroutines of this package. Simulated devices
// have goroutines of their own.
func resourcesInUse() resources {
	files, _ := filepath.Glob("/proc/self/fd/*")
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	goroutines := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "/ndview/collective.") {
			goroutines++
		}
	}
	return resources{len(files), goroutines, mappings()}
}

// mappings counts the mappings of memory that ranks share.
func mappings() int {
	maps, _ := os.ReadFile("/proc/self/maps")
	return strings.Count(string(maps), "memfd:quiver-collective")
}

// eventually fails unless the resources are no more than before within the limit.
func (r resources) eventually(t *testing.T) {
	t.Helper()
	var now resources
	for until := time.Now().Add(limit); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if now = resourcesInUse(); now.files <= r.files && now.goroutines <= r.goroutines && now.mappings <= r.mappings {
			return
		}
	}
	assert.Failf(t, "resources leak", "got %+v, before %+v", now, r)
}

// environ returns the environment of a child process that runs a task.
func environ(task string, rank, size int, more ...string) []string {
	return append(append(os.Environ(), more...), "QUIVER_COLLECTIVE_TASK="+task, "RANK="+strconv.Itoa(rank), "WORLD_SIZE="+strconv.Itoa(size))
}

// shapeText returns a shape as text for errors.
func shapeText(shape []int64) string { return strings.Trim(fmt.Sprint(shape), "[]") }

// newSimulated returns a simulated device.
func newSimulated(t *testing.T) arrowbuf.Device { return cudatest.NewDevice(t) }

func dialTCP(port string) (net.Conn, error) { return net.Dial("tcp", "127.0.0.1:"+port) }

// leaveSocket leaves the file of a Unix socket at which no process listens.
func leaveSocket(t *testing.T, path string) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
}

// freePort returns a TCP port at which no process listens.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	return port
}
