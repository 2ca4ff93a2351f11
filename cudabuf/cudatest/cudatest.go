package cudatest

import (
	"fmt"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/soft"
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
	api, err := soft.Open(soft.Config(c))
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
	return first(t, Start(t, Config{}))
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

func first(t testing.TB, d *cudabuf.Driver) *cudabuf.Device {
	t.Helper()
	dev, err := d.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	return dev
}
