package cudatest

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/simulated"
)

// Config describes the simulated devices. The zero Config is one device of 1
// GiB.
type Config struct {
	// Devices is the number of GPUs. 0 means 1.
	Devices int
	// MemoryBytes is the memory of each device. 0 means 1 GiB. Used device
	// memory needs the same amount of host memory. Allocations count in
	// multiples of 512 bytes, after cudabuf has rounded them up to their size
	// class.
	MemoryBytes int64
	// ComputeCapability is the compute capability, major and minor. {0, 0}
	// means {9, 0}. Host kernels run on each.
	ComputeCapability [2]int
	// PeerAccess reports whether device dev can access the memory of device
	// peer, directly or shared. If it is nil, all devices can access each
	// other. Copies between devices always work, as on GPUs, which copy through
	// the host if necessary.
	PeerAccess func(dev, peer int) bool
	// CopyLatency is the time that a copy waits on its stream before it runs.
	CopyLatency time.Duration
	// Fail, if not nil, is called at each driver call. It receives the name of
	// the function without version ("cuMemAlloc") and the number of its calls,
	// counted from 1. If it returns a result other than 0, the call fails with
	// it. A result that loses the device in CUDA, such as LaunchFailed, loses
	// it here. Fail is called from many goroutines. FailNth and similar
	// functions return such functions.
	Fail func(call string, n int) cudabuf.Result
}

// New returns a driver with simulated devices. Like httptest.NewServer, it
// panics on failure. Config.Fail is called from the first driver call after New
// on; see [Open]. The caller must close the driver.
func New(c Config) *cudabuf.Driver {
	var opened atomic.Bool
	if fail := c.Fail; fail != nil {
		c.Fail = func(call string, n int) cudabuf.Result {
			if !opened.Load() {
				return 0
			}
			return fail(call, n)
		}
	}
	d, err := Open(c)
	if err != nil {
		panic(err)
	}
	opened.Store(true)
	return d
}

// Open is [New] with errors: Config.Fail is also called at the driver calls that
// open a driver, such as cuInit, and their errors are those of cudabuf.Open.
func Open(c Config) (*cudabuf.Driver, error) {
	if c.Devices == 0 {
		c.Devices = 1
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 1 << 30
	}
	config := simulated.Config{Devices: c.Devices, MemoryBytes: c.MemoryBytes, ComputeCapability: c.ComputeCapability, PeerAccess: c.PeerAccess, CopyLatency: c.CopyLatency}
	if c.Fail != nil {
		config.Fail = func(call string, n int) driver.Result { return driver.Result(c.Fail(call, n)) }
	}
	api, err := simulated.Open(config)
	if err != nil {
		return nil, fmt.Errorf("cudatest.Open: %w", err)
	}
	d, err := driver.NewDriver(api, true)
	if err != nil {
		return nil, fmt.Errorf("cudatest.Open: %w", err)
	}
	return d.(*cudabuf.Driver), nil
}

// NewDevice returns a simulated device with its own driver. The test fails if
// it ends before all buffers and all pinned memory are released.
func NewDevice(t testing.TB) *cudabuf.Device {
	t.Helper()
	return firstDevice(t, Start(t, Config{}))
}

// Start returns a driver that is closed when the test ends. The test fails if
// it leaks, as cudabuf.Driver.Close defines. The error contains the size and
// the allocating stack of each leaked buffer of the device's own pool.
func Start(t testing.TB, c Config) *cudabuf.Driver {
	t.Helper()
	d := New(c)
	checkLeaks(t, d)
	return d
}

func checkLeaks(t testing.TB, d *cudabuf.Driver) {
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("the test leaks: %v", err)
		}
	})
}

func firstDevice(t testing.TB, d *cudabuf.Driver) *cudabuf.Device {
	t.Helper()
	dev, err := d.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// Environment is the variable that, if it is "cuda", also runs tests on the GPU
// of the machine. They fail without a GPU.
const Environment = "QUIVER_TEST_DEVICE"

// ForEachDevice runs a test on each kind of device: subtest "simulated" always on a
// simulated device, and subtest "cuda" on a GPU if the environment asks for it.
// Each run has its own device, and fails if it leaks.
func ForEachDevice(t *testing.T, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) { test(t, firstDevice(t, d)) })
}

// ForEachArrowDevice runs a test on the CPU device, subtest "cpu", and on the devices of
// ForEachDevice.
func ForEachArrowDevice(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { test(t, arrowbuf.CPU()) })
	ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// ForEachDriver is like ForEachDevice for tests that need several devices.
// Subtest "cuda" is skipped on a machine with too few GPUs.
func ForEachDriver(t *testing.T, devices int, test func(t *testing.T, d *cudabuf.Driver)) {
	t.Helper()
	t.Run("simulated", func(t *testing.T) {
		err := CatchHostAccess(func() { test(t, Start(t, Config{Devices: devices})) })
		if err != nil {
			t.Error(err)
		}
	})
	if !OnGPU() {
		return
	}
	t.Run("cuda", func(t *testing.T) {
		d := openGPU(t)
		if d.Count() < devices {
			t.Skipf("the test needs %d GPUs, this machine has %d", devices, d.Count())
		}
		test(t, d)
	})
}

// OnGPU reports whether tests also run on the GPU of the machine.
func OnGPU() bool { return os.Getenv(Environment) == "cuda" }

// keepContext keeps the context of the first GPU alive between tests, because
// creating it takes longer than most of them.
var keepContext = sync.OnceValue(func() error {
	d, err := cudabuf.Open()
	if err == nil {
		_, err = d.Device(0)
	}
	return err
})

func openGPU(t testing.TB) *cudabuf.Driver {
	t.Helper()
	if err := keepContext(); err != nil {
		t.Fatalf("%s=cuda: %v", Environment, err)
	}
	d, err := cudabuf.Open()
	if err != nil {
		t.Fatal(err)
	}
	checkLeaks(t, d)
	return d
}

// CatchHostAccess runs f, and returns an error if f accesses memory of a
// simulated device on this goroutine. The error names the device, the
// allocation and the offset, and contains the stack. Other panics continue.
//
// Otherwise such an access ends the process with "unexpected fault address", as
// an access to GPU memory does.
func CatchHostAccess(f func()) (err error) {
	if f == nil {
		return fmt.Errorf("cudatest.CatchHostAccess: nil function: %w", cudabuf.ErrNil)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		fault, ok := p.(interface {
			runtime.Error
			Addr() uintptr
		})
		if ok {
			if where, known := simulated.Describe(fault.Addr()); known {
				err = fmt.Errorf("the host accesses device memory: %s\n%s", where, debug.Stack())
				return
			}
		}
		panic(p)
	}()
	f()
	return nil
}

// Results for faults. All except OutOfMemory lose the device.
const (
	OutOfMemory    cudabuf.Result = 2   // CUDA_ERROR_OUT_OF_MEMORY
	ECCError       cudabuf.Result = 214 // CUDA_ERROR_ECC_UNCORRECTABLE
	IllegalAddress cudabuf.Result = 700 // CUDA_ERROR_ILLEGAL_ADDRESS
	LaunchFailed   cudabuf.Result = 719 // CUDA_ERROR_LAUNCH_FAILED
	NotPermitted   cudabuf.Result = 800 // CUDA_ERROR_NOT_PERMITTED: loses nothing, and is never tried again
)

// FailNth returns a Config.Fail with which the n-th call of a function fails,
// counted from 1 over the life of the driver.
func FailNth(call string, n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	return func(c string, i int) cudabuf.Result {
		if c == call && i == n {
			return r
		}
		return 0
	}
}

// FailFrom returns a Config.Fail with which the n-th call of a function and
// every later one fail.
func FailFrom(call string, n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	return func(c string, i int) cudabuf.Result {
		if c == call && i >= n {
			return r
		}
		return 0
	}
}

// FailAt returns a Config.Fail with which the n-th driver call of any function
// fails, counted from 1, for New from the first call after it. A test that
// increments n until it passes without a fault has failed each call once: see the
// example. The function counts calls, so it serves one driver.
func FailAt(n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	var calls atomic.Int64
	return func(string, int) cudabuf.Result {
		if calls.Add(1) == int64(n) {
			return r
		}
		return 0
	}
}

// Faults combines several functions for Config.Fail. It calls them in order
// until one returns a result other than 0. It skips nil functions.
func Faults(all ...func(call string, n int) cudabuf.Result) func(string, int) cudabuf.Result {
	return func(call string, n int) cudabuf.Result {
		for _, fail := range all {
			if fail == nil {
				continue
			}
			if r := fail(call, n); r != 0 {
				return r
			}
		}
		return 0
	}
}
