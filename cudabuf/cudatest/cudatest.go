package cudatest

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/simulated"
)

// Config says what the machine has. The zero Config is one device of 1 GiB.
type Config struct {
	// Devices is how many GPUs there are, 1 where it is 0.
	Devices int
	// MemoryBytes is the memory of each, 1 GiB where it is 0. The host
	// spends what is in use. Allocations count in multiples of 512 bytes,
	// after cudabuf has rounded them up to their size class.
	MemoryBytes int64
	// ComputeCapability is the architecture's version, major and minor, {9, 0}
	// where both are 0. Twins run on every one.
	ComputeCapability [2]int
	// PeerAccess tells whether device dev reaches the memory of device peer,
	// for peer access and for what is shared. Where it is nil all devices reach
	// each other. Copies work all the same, as on GPUs, which then go by way
	// of the host.
	PeerAccess func(dev, peer int) bool
	// CopyLatency is how long a copy waits on its stream before it runs.
	CopyLatency time.Duration
	// Fail, where it is not nil, is asked at each driver call, with the
	// function's name without a version ("cuMemAlloc") and how many times it
	// has been called, from 1. The call fails with what it returns unless
	// that is 0. A result that loses the device in CUDA, such as LaunchFailed,
	// loses it here. It is called from many goroutines. FailNth and its like
	// make such functions.
	Fail func(call string, n int) cudabuf.Result
}

// New makes a machine. It panics where it cannot, as httptest.NewServer does.
// The caller closes the result.
func New(c Config) *cudabuf.Driver {
	if c.Devices == 0 {
		c.Devices = 1
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 1 << 30
	}
	api, err := simulated.Open(simulated.Config(c))
	if err != nil {
		panic(fmt.Errorf("cudatest: %w", err))
	}
	d, err := cudabuf.New(api, true)
	if err != nil {
		panic(fmt.Errorf("cudatest: %w", err))
	}
	return d
}

// NewDevice returns a soft device of a machine of its own. When the test ends
// without having released every buffer and all pinned memory, it fails.
func NewDevice(t testing.TB) *cudabuf.Device {
	t.Helper()
	return firstDevice(t, Start(t, Config{}))
}

// Start makes a machine that is closed, and checked for leaks, when the test
// ends. cudabuf.Driver.Close says what a leak is; here it also says of each
// buffer of a device's own pool how large it is and who allocated it.
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

// Environment is the variable that, when it is "cuda", runs tests on the GPU
// of the machine too. A GPU that is missing then fails them.
const Environment = "QUIVER_TEST_DEVICE"

// ForEachDevice runs a test on each kind of device: subtest "soft" always,
// subtest "cuda" where the environment asks for it. Each run gets a device of
// its own, and fails when it leaks.
func ForEachDevice(t *testing.T, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) { test(t, firstDevice(t, d)) })
}

// ForEachDriver is ForEachDevice for tests that need several devices. A machine
// with too few GPUs skips "cuda".
func ForEachDriver(t *testing.T, devices int, test func(t *testing.T, d *cudabuf.Driver)) {
	t.Helper()
	t.Run("soft", func(t *testing.T) {
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

// OnGPU tells whether tests run on the GPU of the machine too.
func OnGPU() bool { return os.Getenv(Environment) == "cuda" }

// keepContext keeps the first GPU's context alive between tests: making it anew takes
// longer than most of them.
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

// CatchHostAccess runs f and tells where it, on this goroutine, touched memory of a
// soft device: the error names device, allocation and offset, and ends with the
// stack. It is nil where f touched none; other panics go on.
//
// A touch that nobody catches ends the process: it is a fault ("unexpected
// fault address"), and Go prints the stack of the goroutine. A GPU's memory
// faults at the host just so.
func CatchHostAccess(f func()) (err error) {
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
				err = fmt.Errorf("the host touches device memory: %s\n%s", where, debug.Stack())
				return
			}
		}
		panic(p)
	}()
	f()
	return nil
}
