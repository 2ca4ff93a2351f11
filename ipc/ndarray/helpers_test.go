//go:build linux

package ndarray_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

// peerVariable makes the test binary run as another process, on a machine of this
// kind: "cpu", "simulated" or "cuda". The argument of the process is a peerTask.
const peerVariable = "QUIVER_TEST_ARRAY_PEER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(peerVariable); kind != "" {
		if err := runPeer(kind, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// peerTask is what another process does: it opens every array of a server, or those of
// memory handles.
type peerTask struct {
	Path       string
	Mechanisms handle.Mechanisms
	Handles    map[string]cudabuf.MemHandle
	Layouts    map[string][]byte
}

// seen is an array as another process sees it.
type seen struct {
	DType          string
	Shape, Strides []int64
	Bytes          []byte // of the elements in C order
	Device         string
	Writeable      bool
}

func look(a *ndview.NDBuffer) (seen, error) {
	b, err := a.Bytes()
	return seen{a.DType().NumPy(), a.Shape(), a.Strides(), b, a.Device().Type().String(), a.Flags().Writeable}, err
}

func runPeer(kind, argument string) error {
	var task peerTask
	if err := json.Unmarshal([]byte(argument), &task); err != nil {
		return err
	}
	_, dev, closeDriver, err := ipctest.OpenDevice(kind)
	if err != nil {
		return err
	}
	found, err := openAll(dev, task)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	return errors.Join(err, closeDriver())
}

func openAll(dev *cudabuf.Device, task peerTask) (map[string]seen, error) {
	found := map[string]seen{}
	for name, h := range task.Handles {
		a, err := openHandle(dev, h, task.Layouts[name])
		if err != nil {
			return nil, err
		}
		if found[name], err = look(a); err != nil {
			return nil, err
		}
		a.Release()
	}
	if task.Path == "" {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	o := ipc.DialOptions{Mechanisms: task.Mechanisms}
	if dev != nil {
		o.Devices = []arrowbuf.Device{dev}
	}
	client, err := ipc.Dial(ctx, task.Path, o)
	if err != nil {
		return nil, err
	}
	entries, err := client.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		a, err := ndarray.Open(ctx, client, e.Name)
		if err != nil {
			return nil, err
		}
		if found[e.Name], err = look(a); err != nil {
			return nil, err
		}
		a.Release()
	}
	return found, client.Close()
}

func openHandle(dev *cudabuf.Device, h cudabuf.MemHandle, layout []byte) (*ndview.NDBuffer, error) {
	b, err := dev.OpenIPC(h)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	var l ndarray.Layout
	if err := l.UnmarshalBinary(layout); err != nil {
		return nil, err
	}
	return l.Array(b)
}

// inPeer runs a task in another process.
func inPeer(t *testing.T, kind string, task peerTask) map[string]seen {
	t.Helper()
	argument, err := json.Marshal(task)
	require.NoError(t, err)
	command := exec.Command("/proc/self/exe", string(argument))
	command.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", peerVariable+"="+kind)
	command.Stderr = os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	var found map[string]seen
	require.NoError(t, json.Unmarshal(out, &found))
	return found
}

// machine is where a test runs. An allocator makes memory of n bytes on it.
type machine struct {
	kind string
	dev  *cudabuf.Device // nil without a GPU
}

func forEachMachine(t *testing.T, test func(t *testing.T, m machine)) {
	t.Run("cpu", func(t *testing.T) { test(t, machine{kind: "cpu"}) })
	forEachGPU(t, test)
}

func forEachGPU(t *testing.T, test func(t *testing.T, m machine)) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { test(t, machine{ipctest.KindOf(t), dev}) })
}

func (m machine) device() arrowbuf.Device {
	if m.dev == nil {
		return arrowbuf.CPU()
	}
	return m.dev
}

// memoryBytes is the size of the memory that layouts are of.
const memoryBytes = 4096

// memoryFor returns the bytes of arrays of a dtype: booleans are 0 or 1.
func memoryFor(t ndview.DType) []byte {
	raw := make([]byte, memoryBytes)
	for i := range raw {
		raw[i] = byte(i*37 + i>>8)
		if t == ndview.Bool {
			raw[i] &= 1
		}
	}
	return raw
}

// dtypes returns types of every kind.
func dtypes(t testing.TB) map[string]ndview.DType {
	t.Helper()
	packed, err := dtype.Packed(dtype.Field{Name: "x", DType: ndview.Float32}, dtype.Field{Name: "n", DType: ndview.Int64, Shape: []int64{2, 3}})
	require.NoError(t, err)
	aligned, err := dtype.Aligned(dtype.Field{Name: "flag", DType: ndview.Bool}, dtype.Field{Name: "inner", DType: packed}, dtype.Field{Name: "ü", DType: ndview.Datetime64(ndview.Second, 1)})
	require.NoError(t, err)
	made := map[string]ndview.DType{"packed record": packed, "aligned record": aligned}
	for _, d := range []ndview.DType{
		ndview.Bool, ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Uint8, ndview.Uint16, ndview.Uint32, ndview.Uint64,
		ndview.Float16, ndview.Float32, ndview.Float64, ndview.BFloat16, ndview.Complex64, ndview.Complex128,
		ndview.Datetime64(ndview.Microsecond, 25), ndview.Timedelta64(ndview.Generic, 1), ndview.Bytes(5),
	} {
		made[d.String()] = d
	}
	return made
}

// layouts returns layouts of every form, of elements of s bytes.
func layouts(s int64) map[string]ndarray.Layout {
	return map[string]ndarray.Layout{
		"C order":     {Offset: 64, Shape: []int64{3, 4}, Strides: []int64{4 * s, s}},
		"F order":     {Offset: 8 * s, Shape: []int64{3, 4}, Strides: []int64{s, 3 * s}},
		"a column":    {Offset: 2 * s, Shape: []int64{6}, Strides: []int64{5 * s}},
		"reversed":    {Offset: 20 * s, Shape: []int64{4, 3}, Strides: []int64{-3 * s, -s}},
		"mixed signs": {Offset: 20 * s, Shape: []int64{4, 3}, Strides: []int64{3 * s, -2 * s}},
		"broadcast":   {Offset: 3 * s, Shape: []int64{5, 3}, Strides: []int64{0, s}},
		"one element": {Offset: s, Shape: []int64{1 << 10}, Strides: []int64{0}},
		"windows":     {Offset: 0, Shape: []int64{6, 3}, Strides: []int64{s, s}},
		"unaligned":   {Offset: 3, Shape: []int64{5}, Strides: []int64{s + 1}},
		"0-d":         {Offset: 7 * s},
		"empty":       {Offset: 100, Shape: []int64{4, 0, 2}, Strides: []int64{s, 5, -s}},
		"at the end":  {Offset: memoryBytes - 2*s, Shape: []int64{2}, Strides: []int64{s}},
	}
}

// publishAll publishes an array of every dtype and form over memory of its own, and
// returns what a reader must see.
func publishAll(t *testing.T, catalog *ipc.Catalog, allocate func(n int64) arrowbuf.Buffer, options ...ipc.PublishOption) map[string]seen {
	t.Helper()
	want := map[string]seen{}
	for kind, d := range dtypes(t) {
		memory := allocate(memoryBytes)
		_, err := memory.CopyFromHost(memoryFor(d), 0)
		require.NoError(t, err)
		for form, l := range layouts(d.Size()) {
			l.DType = d
			a, err := l.Array(memory)
			require.NoError(t, err, "%s of %s", form, kind)
			name := form + " of " + kind
			require.NoError(t, ndarray.Publish(catalog, name, a, options...))
			s, err := look(a)
			require.NoError(t, err)
			s.Writeable = false
			if a.Size() == 0 {
				s.Device = arrowbuf.CPU().Type().String()
			}
			want[name] = s
			a.Release() // the catalog keeps the memory
		}
		memory.Release()
	}
	return want
}

// assertSeen compares arrays. A shape or strides of no axes may be nil.
func assertSeen(t *testing.T, want, got map[string]seen) {
	t.Helper()
	assert.Len(t, got, len(want))
	for name, w := range want {
		g, ok := got[name]
		require.True(t, ok, name)
		assert.Equal(t, normal(w), normal(g), name)
	}
}

func normal(s seen) seen {
	s.Shape, s.Strides, s.Bytes = append([]int64{}, s.Shape...), append([]int64{}, s.Strides...), append([]byte{}, s.Bytes...)
	return s
}

func shortContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
