package drivertest_test

import (
	_ "embed"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/drivertest"
	"github.com/quiver-gpu/quiver/cudabuf/internal/simulated"
)

//go:embed testdata/add.ptx
var image []byte

var hostKernels = map[string]driver.HostKernel{"add_int32": func(l *driver.HostLaunch) {
	values := driver.Elements[int32](l, l.Pointer(0), l.Int64(1))
	for i := range values {
		values[i] += l.Int32(2)
	}
}}

func openSimulated() (driver.API, error) {
	return simulated.Open(simulated.Config{Devices: 2, MemoryBytes: 1 << 28})
}

var drivers = map[string]func() (driver.API, error){"simulated": openSimulated, "gpu": openGPU}

func TestMain(m *testing.M) {
	drivertest.Child(drivers)
	os.Exit(m.Run())
}

func runSuite(t *testing.T, name string) {
	drivertest.Suite{
		Open: func(t *testing.T) driver.API {
			api, err := drivers[name]()
			require.NoError(t, err)
			return api
		},
		Image:       image,
		HostKernels: hostKernels,
		Child:       name,
	}.Run(t)
}

func TestSimulated(t *testing.T) { runSuite(t, "simulated") }

func TestGPU(t *testing.T) {
	if os.Getenv("QUIVER_TEST_DEVICE") != "cuda" {
		t.Skip("set QUIVER_TEST_DEVICE=cuda on a machine with a GPU")
	}
	runSuite(t, "gpu")
}
