package arrowzarr_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

const (
	outOfMemory    = cudabuf.Result(2)
	illegalAddress = cudabuf.Result(700)
	launchFailed   = cudabuf.Result(719)
	unknown        = cudabuf.Result(999)
)

// failing makes calls of a driver fail: those of a name, from the n-th on.
type failing struct {
	mu     sync.Mutex
	call   string // none while it is empty
	from   int
	result cudabuf.Result
	seen   map[string]int // calls since arm
}

func (f *failing) arm(call string, from int, result cudabuf.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call, f.from, f.result, f.seen = call, from, result, map[string]int{}
}

func (f *failing) ask(call string, _ int) cudabuf.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[call]++
	if call == f.call && f.seen[call] >= f.from {
		return f.result
	}
	return 0
}

func (f *failing) calls(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[name]
}

// Whatever call of the driver fails, and whenever: the device is blamed, there
// is no output and no debris, and all memory is given back.
func TestFailingDevices(t *testing.T) {
	columns := sampleTable(1, []int{10, 30}, 0.3)
	input := inputFile(t, columns.stream(t))
	options := arrowzarr.Options{ChunkRows: 16, Jobs: 2}
	for call, result := range map[string]cudabuf.Result{
		"cuMemAlloc":          outOfMemory,
		"cuMemHostAlloc":      outOfMemory,
		"cuMemcpyHtoDAsync":   unknown,
		"cuMemcpyDtoHAsync":   illegalAddress,
		"cuMemcpyDtoDAsync":   unknown,
		"cuModuleLoadData":    unknown,
		"cuModuleGetFunction": unknown,
		"cuLaunchKernel":      launchFailed,
		"cuStreamSynchronize": unknown,
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			total := callsOf(t, call, input, options)
			require.Positive(t, total, "the conversion makes no such call, so this tests nothing")
			for _, from := range []int{1, 2, total/2 + 1, total} {
				t.Run(fmt.Sprintf("from %d of %d on", from, total), func(t *testing.T) {
					fail := &failing{}
					fail.arm("", 0, 0)
					dev := softDevice(t, cudatest.Config{Fail: fail.ask})
					fail.arm(call, min(from, total), result)
					defer fail.arm("", 0, 0) // giving memory back works
					options := options
					options.Device = dev
					output := filepath.Join(t.TempDir(), "output.zarr")
					_, err := arrowzarr.Convert(t.Context(), input, output, options)
					if err == nil && fail.calls(call) < min(from, total) {
						requireOnly(t, filepath.Dir(output), "output.zarr")
						return // another order of work had fewer calls
					}
					require.Error(t, err)
					requirePart(t, arrowzarr.PartDevice, err)
					assert.Contains(t, err.Error(), result.Name())
					requireOnly(t, filepath.Dir(output))
				})
			}
		})
	}
}

// callsOf counts the calls that a conversion makes on a device of its own.
func callsOf(t *testing.T, call, input string, options arrowzarr.Options) int {
	t.Helper()
	fail := &failing{}
	fail.arm("", 0, 0)
	options.Device = softDevice(t, cudatest.Config{Fail: fail.ask})
	fail.arm("", 0, 0)
	_, err := arrowzarr.Convert(t.Context(), input, filepath.Join(t.TempDir(), "output.zarr"), options)
	require.NoError(t, err)
	return fail.calls(call)
}

func softDevice(t *testing.T, c cudatest.Config) *cudabuf.Device {
	t.Helper()
	dev, err := cudatest.Start(t, c).Device(0)
	require.NoError(t, err)
	return dev
}

// A device that is smaller than a chunk says so.
func TestSmallDevices(t *testing.T) {
	input := inputFile(t, sampleTable(2, []int{3000}, 0.2).file(t))
	dev := softDevice(t, cudatest.Config{MemoryBytes: 64 << 10})
	output := filepath.Join(t.TempDir(), "output.zarr")
	_, err := arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{Device: dev})
	requirePart(t, arrowzarr.PartDevice, err)
	require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	requireOnly(t, filepath.Dir(output))
}

// Inputs that are refused leave nothing on the device.
func TestRefusedInputsLeaveTheDeviceEmpty(t *testing.T) {
	stream := sampleTable(1, []int{20, 20}, 0.3).stream(t)
	for _, cut := range []int{len(stream) - 9, len(stream) * 2 / 3, len(stream) / 3, 50} {
		cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
			refuse(t, arrowzarr.PartInput, inputFile(t, stream[:cut]), arrowzarr.Options{Device: dev, ChunkRows: 4})
		})
	}
}
