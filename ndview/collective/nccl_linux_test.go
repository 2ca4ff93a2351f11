package collective

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// fakeNCCL is the library of testdata/fake.c, on which ranks of simulated devices run the
// calls of NCCL during a test.
type fakeNCCL struct{ handle uintptr }

// buildFake compiles the fake library.
func buildFake(t *testing.T, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build the fake libnccl with")
	}
	path := filepath.Join(t.TempDir(), "libnccl.so.2")
	out, err := exec.Command(cc, append(flags, "-shared", "-fPIC", "-o", path, "testdata/fake.c")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// useLibrary makes a library the NCCL of the process during a test, also for simulated
// devices.
func useLibrary(t *testing.T, path string) {
	t.Helper()
	t.Setenv(Override, path)
	original := usesNCCL
	usesNCCL = func(*cudabuf.Device) bool { return true }
	nccl.Forget()
	t.Cleanup(func() { usesNCCL = original; nccl.Forget() })
}

func useFake(t *testing.T) *fakeNCCL {
	t.Helper()
	path := buildFake(t)
	useLibrary(t, path)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	return &fakeNCCL{handle}
}

func (f *fakeNCCL) at(name string) unsafe.Pointer {
	address, err := purego.Dlsym(f.handle, name)
	if err != nil {
		panic(err)
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func (f *fakeNCCL) set(name string, v int32) { *(*int32)(f.at(name)) = v }
func (f *fakeNCCL) live() int32              { return *(*int32)(f.at("fake_live")) }

// calls returns the calls since the last time, and forgets them.
func (f *fakeNCCL) calls() string {
	log := unsafe.Slice((*byte)(f.at("fake_log")), 1<<16)
	text, _, _ := strings.Cut(string(log), "\x00")
	log[0] = 0
	return text
}

// fakeRanks returns communicators of two simulated devices on the fake library.
func fakeRanks(t *testing.T, o Options) (*fakeNCCL, []*Comm) {
	t.Helper()
	f := useFake(t)
	devices := make([]arrowbuf.Device, 2)
	d := cudatest.Start(t, cudatest.Config{Devices: len(devices)})
	for i := range devices {
		dev, err := d.Device(i)
		require.NoError(t, err)
		devices[i] = dev
	}
	comms, err := NewAll(devices, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, c := range comms {
			_ = c.Close()
		}
		assert.Zero(t, f.live(), "every communicator is destroyed or aborted")
	})
	return f, comms
}

// array returns an array that the test releases.
func array(t *testing.T, c *Comm, dtype ndview.DType, n int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.Zeros(c.Device(), dtype, n)
	require.NoError(t, err)
	t.Cleanup(a.Release)
	return a
}

func TestNCCLIsCalledAsDocumented(t *testing.T) {
	f, comms := fakeRanks(t, Options{})
	start := strings.Split(strings.TrimSpace(f.calls()), "\n")
	slices.Sort(start)
	assert.Equal(t, []string{
		"init rank 0 of 2 blocking 0 share 1", "init rank 1 of 2 blocking 0 share 1",
		"split rank 0 of 2 blocking 1 share 1", "split rank 1 of 2 blocking 1 share 1",
	}, start)
	c := comms[1]
	for _, one := range []struct {
		name string
		run  func() error
		want string
	}{
		{"AllReduce", func() error {
			a := array(t, c, ndview.Float32, 10)
			return c.AllReduceInto(a, a, Max)
		}, "1: all-reduce 10 type 7 op 2 in place 1\n"},
		{"int16 as int32", func() error {
			a := array(t, c, ndview.Int16, 10)
			return c.AllReduceInto(a, a, Min)
		}, "1: all-reduce 10 type 2 op 3 in place 0\n"},
		{"bool as uint8", func() error {
			a := array(t, c, ndview.Bool, 10)
			return c.AllReduceInto(a, a, Prod)
		}, "1: all-reduce 10 type 1 op 3 in place 1\n"},
		{"complex as floats", func() error {
			a := array(t, c, ndview.Complex128, 10)
			return c.AllReduceInto(a, a, Avg)
		}, "1: all-reduce 20 type 8 op 4 in place 1\n"},
		{"complex product", func() error {
			a := array(t, c, ndview.Complex64, 10)
			return c.AllReduceInto(a, a, Prod)
		}, ""},
		{"Reduce", func() error { return c.ReduceInto(nil, array(t, c, ndview.BFloat16, 3), Sum, 0) }, "1: reduce 3 type 9 op 0 root 0 to none\n"},
		{"ReduceScatter", func() error {
			return c.ReduceScatterInto(array(t, c, ndview.Int64, 3), array(t, c, ndview.Int64, 6), Prod)
		}, "1: reduce-scatter 3 type 4 op 1\n"},
		{"Broadcast", func() error { return c.Broadcast(array(t, c, ndview.Int64, 3), 0) }, "1: broadcast 24 type 1 root 0 in place 1\n"},
		{"AllGather in place", func() error {
			all := array(t, c, ndview.Float16, 10)
			half, err := all.Slice(0, 5, 10)
			require.NoError(t, err)
			defer half.Release()
			return c.AllGatherInto(all, half)
		}, "1: all-gather 10 type 1 at 10\n"},
		{"AllToAll", func() error {
			return c.AllToAllInto(array(t, c, ndview.Int8, 6), array(t, c, ndview.Int8, 6))
		}, "group\n1: send 3 type 1 to 0\n1: receive 3 type 1 from 0\n1: send 3 type 1 to 1\n1: receive 3 type 1 from 1\nend\n"},
		{"Gather", func() error { return c.GatherInto(nil, array(t, c, ndview.Int8, 6), 0) }, "group\n1: send 6 type 1 to 0\nend\n"},
		{"Gather at the root", func() error { return c.GatherInto(array(t, c, ndview.Int8, 12), array(t, c, ndview.Int8, 6), 1) },
			"group\n1: receive 6 type 1 from 0\n1: receive 6 type 1 from 1\n1: send 6 type 1 to 1\nend\n"},
		{"Scatter at the root", func() error { return c.ScatterInto(array(t, c, ndview.Int8, 6), array(t, c, ndview.Int8, 12), 1) },
			"group\n1: send 6 type 1 to 0\n1: send 6 type 1 to 1\n1: receive 6 type 1 from 1\nend\n"},
		{"no elements", func() error { return c.Broadcast(array(t, c, ndview.Int8, 0), 1) }, ""},
	} {
		require.NoError(t, one.run(), one.name)
		got := f.calls()
		if one.name == "complex product" {
			assert.Contains(t, got, "1: all-gather 80 type 1", one.name)
			continue
		}
		assert.Equal(t, one.want, got, one.name)
	}

	var g Group
	a, b := array(t, comms[0], ndview.Int32, 4), array(t, comms[1], ndview.Int32, 4)
	require.NoError(t, errors.Join(g.Comm(comms[0]).AllReduceInto(a, a, Sum), g.Comm(comms[1]).AllReduceInto(b, b, Sum), g.Run()))
	assert.Equal(t, "group\n0: all-reduce 4 type 2 op 0 in place 1\n1: all-reduce 4 type 2 op 0 in place 1\nend\n", f.calls())

	for _, c := range comms {
		require.NoError(t, c.Close())
	}
	assert.Equal(t, strings.Repeat("destroy main\ndestroy parent\n", 2), f.calls())
}

// An error that NCCL reports later ends the communicator at all ranks.
func TestAsynchronousErrorsOfNCCLEndTheCommunicator(t *testing.T) {
	f, comms := fakeRanks(t, Options{})
	a := array(t, comms[0], ndview.Float32, 10)
	f.set("fake_error", int32(RemoteError))
	require.NoError(t, comms[0].AllReduceInto(a, a, Sum))
	for _, c := range comms {
		eventually(t, func() bool { return c.Err() != nil })
		assert.ErrorIs(t, c.Err(), ErrPeer)
		assert.ErrorContains(t, c.Err(), "ncclCommGetAsyncError: ncclRemoteError (6): the detail")
	}
	var failed *Error
	require.ErrorAs(t, comms[0].Err(), &failed)
	assert.Equal(t, RemoteError, failed.Code)
	eventually(t, func() bool { return f.live() == 0 })
	f.calls()
	assert.ErrorIs(t, comms[0].AllReduceInto(a, a, Sum), ErrPeer, "later calls return the error")
	assert.Empty(t, f.calls(), "and do not reach NCCL")
}

// A call of NCCL that fails ends the communicator.
func TestFailedCallsOfNCCLEndTheCommunicator(t *testing.T) {
	f, comms := fakeRanks(t, Options{})
	a := array(t, comms[0], ndview.Float32, 10)
	f.set("fake_refuse", int32(InvalidArgument))
	err := comms[0].AllReduceInto(a, a, Sum)
	var failed *Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, "ncclAllReduce: ncclInvalidArgument (4): the detail", failed.Error())
	eventually(t, func() bool { return comms[1].Err() != nil && f.live() == 0 })
}

// A call that waits for a dead rank returns after an abort, which frees the communicator only
// when no call uses it.
func TestCallsThatWaitInNCCLTimeOut(t *testing.T) {
	f, comms := fakeRanks(t, Options{Timeout: time.Second})
	f.calls()
	f.set("fake_block", 1)
	a := array(t, comms[0], ndview.Float32, 10)
	assert.ErrorIs(t, comms[0].AllReduceInto(a, a, Sum), ErrTimeout)
	eventually(t, func() bool { return f.live() == 0 })
	assert.Contains(t, f.calls(), "abort parent\nabort main\n")
	assert.ErrorIs(t, comms[1].Err(), ErrTimeout)
}

// The watcher counts a call of a group too.
func TestGroupsThatWaitInNCCLAreAborted(t *testing.T) {
	f, comms := fakeRanks(t, Options{})
	f.set("fake_block", 1)
	done := make(chan error)
	a := array(t, comms[0], ndview.Float32, 10)
	go func() {
		var g Group
		done <- errors.Join(g.Comm(comms[0]).Send(a, 1), g.Comm(comms[0]).Recv(a, 1), g.Run())
	}()
	eventually(t, func() bool { return strings.Contains(f.peek(), "send 40") })
	comms[1].Abort()
	assert.Error(t, <-done)
	assert.ErrorIs(t, comms[0].Err(), ErrAborted)
	eventually(t, func() bool { return f.live() == 0 })
}

// peek returns the calls without forgetting them.
func (f *fakeNCCL) peek() string {
	text, _, _ := strings.Cut(string(unsafe.Slice((*byte)(f.at("fake_log")), 1<<16)), "\x00")
	return text
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, time.Millisecond)
}

func TestMissingNCCLIsNamed(t *testing.T) {
	useLibrary(t, "/nowhere/libnccl.so.2")
	id, err := NewID("unix")
	require.NoError(t, err)
	_, err = New(cudatest.NewDevice(t), id, 0, 1, Options{})
	assert.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, `QUIVER_LIBNCCL is "/nowhere/libnccl.so.2"`)
	t.Setenv(Override, "")
	t.Setenv("LD_LIBRARY_PATH", "")
	if err := nccl.Open(func(string) (missing, err error) { return errors.New("absent"), nil }); assert.ErrorIs(t, err, ErrNotFound) {
		assert.ErrorContains(t, err, "nvidia-nccl-cu13")
		assert.ErrorContains(t, err, Override)
	}
}

func TestUnusableNCCLIsNamed(t *testing.T) {
	path := buildFake(t, "-DBROKEN")
	useLibrary(t, path)
	_, err := nccl.Get()
	assert.ErrorContains(t, err, path+" lacks ncclCommSplit: not NCCL, or older than 2.23")
	path = buildFake(t, "-DOLD")
	t.Setenv(Override, path)
	_, err = nccl.Get()
	assert.ErrorContains(t, err, path+": got version 22200, want at least 22300")
	assert.ErrorIs(t, err, ErrNotFound)
}

// Ranks with one GPU, and ranks of different backends, do not fit together.
func TestIncompatibleEndpointsAreNamed(t *testing.T) {
	gpu := func(version int, uuid string) member {
		return member{Endpoint: endpoint{Backend: "nccl", Version: version, GPU: uuid, Device: "cuda:0"}}
	}
	host := member{Endpoint: endpoint{Backend: "host", Device: "cpu"}}
	assert.Empty(t, incompatible([]member{gpu(1, "a"), gpu(1, "b")}))
	assert.Empty(t, incompatible([]member{host, host}))
	assert.Contains(t, incompatible([]member{gpu(1, "a"), gpu(1, "b"), gpu(1, "a")}), "ranks 0 and 2 have the same GPU a")
	assert.Contains(t, incompatible([]member{gpu(1, "a"), host}), "rank 1 communicates by host (cpu), rank 0 by nccl (cuda:0)")
	assert.Contains(t, incompatible([]member{gpu(22809, "a"), gpu(23203, "b")}), "rank 1 has version 23203 of NCCL, rank 0 has 22809")
}
