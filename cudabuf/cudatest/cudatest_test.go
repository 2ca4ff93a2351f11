package cudatest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// recorder is a testing.TB that keeps what a test reports, and runs clean-ups
// when it is told.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func TestNewDeviceFailsATestThatLeaks(t *testing.T) {
	for name, tt := range map[string]struct {
		use  func(t *testing.T, dev *cudabuf.Device)
		want string
	}{
		"nothing": {func(*testing.T, *cudabuf.Device) {}, ""},
		"all given back": {func(t *testing.T, dev *cudabuf.Device) {
			b, err := dev.Alloc(10)
			require.NoError(t, err)
			b.Release()
			dev.HostAllocator().Free(dev.HostAllocator().Allocate(10))
		}, ""},
		"a buffer": {func(t *testing.T, dev *cudabuf.Device) {
			_, err := dev.Alloc(10)
			require.NoError(t, err)
		}, "512 bytes of device memory, 0 bytes of pinned memory"},
		"pinned memory": {func(t *testing.T, dev *cudabuf.Device) {
			dev.HostAllocator().Allocate(10)
		}, "0 bytes of device memory, 512 bytes of pinned memory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			tt.use(t, cudatest.NewDevice(r))
			r.end()
			if tt.want == "" {
				assert.Empty(t, r.failures)
			} else if assert.Len(t, r.failures, 1) {
				assert.Contains(t, r.failures[0], tt.want)
			}
		})
	}
}

func ExampleConfig_fail() {
	driver := cudatest.New(cudatest.Config{
		Fail: func(call string, n int) cudabuf.Result {
			if call == "cuMemAlloc" {
				return 2 // CUDA_ERROR_OUT_OF_MEMORY
			}
			return 0
		},
	})
	defer func() { _ = driver.Close() }()
	gpu, _ := driver.Device(0)
	_, err := gpu.Alloc(100)
	fmt.Println(err)
	// Output: cuda:0: allocating 100 bytes: 512 bytes wanted, 0 in use, 0 held: cuda:0: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory (injected at call 3)
}

func TestForEachDeviceRunsOnTheSoftDevice(t *testing.T) {
	var ran []string
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		ran = append(ran, t.Name())
		assert.Equal(t, arrowbuf.DeviceCUDA, dev.Type())
	})
	assert.Contains(t, ran, t.Name()+"/soft")
	assert.Equal(t, cudatest.OnGPU(), len(ran) == 2)
}
