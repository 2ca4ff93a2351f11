package cudatest

import (
	"os"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// Environment is the variable that, when it is "cuda", runs tests on the GPU
// of the machine too. A GPU that is missing then fails them.
const Environment = "QUIVER_TEST_DEVICE"

// ForEachDevice runs a test on each kind of device: subtest "soft" always,
// subtest "cuda" where the environment asks for it. Each run gets a device of
// its own, and fails when it leaks.
func ForEachDevice(t *testing.T, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) { test(t, first(t, d)) })
}

// ForEachDriver is ForEachDevice for tests that need several devices. A machine
// with too few GPUs skips "cuda".
func ForEachDriver(t *testing.T, devices int, test func(t *testing.T, d *cudabuf.Driver)) {
	t.Helper()
	t.Run("soft", func(t *testing.T) {
		err := CatchTouch(func() { test(t, Start(t, Config{Devices: devices})) })
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

// warm keeps the first GPU's context alive between tests: making it anew takes
// longer than most of them.
var warm = sync.OnceValue(func() error {
	d, err := cudabuf.Open()
	if err == nil {
		_, err = d.Device(0)
	}
	return err
})

func openGPU(t testing.TB) *cudabuf.Driver {
	t.Helper()
	if err := warm(); err != nil {
		t.Fatalf("%s=cuda: %v", Environment, err)
	}
	d, err := cudabuf.Open()
	if err != nil {
		t.Fatal(err)
	}
	checkLeaks(t, d)
	return d
}
