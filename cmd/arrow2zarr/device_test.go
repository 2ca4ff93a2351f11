package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// withDriver makes the command find a driver, or none.
func withDriver(t *testing.T, open func() (*cudabuf.Driver, error)) {
	t.Helper()
	before := openDriver
	openDriver = open
	t.Cleanup(func() { openDriver = before })
}

// softDriver is a machine with two GPUs in software. The command closes it, and
// closing fails where memory leaks.
func softDriver() (*cudabuf.Driver, error) { return cudatest.New(cudatest.Config{Devices: 2}), nil }

func TestDevicesAreThoseAskedFor(t *testing.T) {
	withDriver(t, softDriver)
	input := inputFile(t, stream(t, weather(), weather()))
	for name, want := range map[string]string{"auto": "cuda:0", "cuda": "cuda:0", "cuda:1": "cuda:1", "cpu": "cpu"} {
		output := place(t)
		e := succeed(t, "convert", input, output, "--device", name, "-v")
		assert.Contains(t, e.stdout, " on "+want+"\n", name)
		requireWeather(t, output, 2)
		if want != "cpu" {
			for _, stage := range []string{"h2d", "d2h"} {
				assert.Regexp(t, `(?m)^  `+stage+` `, e.stdout)
			}
		}
	}
}

func TestAutoSaysWhyThereIsNoGPU(t *testing.T) {
	withDriver(t, func() (*cudabuf.Driver, error) { return nil, cudabuf.ErrNoDriver })
	input := inputFile(t, stream(t, weather()))
	e := succeed(t, "convert", input, place(t), "-v")
	assert.Contains(t, e.stderr, "device cpu (no GPU: ")
	assert.Contains(t, e.stderr, cudabuf.ErrNoDriver.Error())
	assert.Contains(t, e.stdout, " on cpu\n")
	e = succeed(t, "convert", input, place(t))
	assert.Empty(t, e.stderr)
}

// A driver that is there but fails is no reason to take the CPU in silence.
func TestAutoDoesNotHideABrokenDriver(t *testing.T) {
	broken := &cudabuf.Error{Call: "cuInit", Code: 999}
	withDriver(t, func() (*cudabuf.Driver, error) { return nil, broken })
	output := place(t)
	e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output)
	assert.Equal(t, exitDevice, e.code)
	assert.Contains(t, e.stderr, "cuInit")
	requireNothing(t, output)
}

func TestDevicesThatAreNotThere(t *testing.T) {
	withDriver(t, softDriver)
	output := place(t)
	e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output, "--device", "cuda:2")
	assert.Equal(t, exitDevice, e.code)
	assert.Contains(t, e.stderr, "cuda:2")
	assert.Contains(t, e.stderr, "the driver has 2")
	requireNothing(t, output)
}

func TestMachinesWithoutDriver(t *testing.T) {
	if d, err := cudabuf.Open(); !errors.Is(err, cudabuf.ErrNoDriver) {
		if err == nil {
			assert.NoError(t, d.Close())
		}
		t.Skip("this machine has a driver")
	}
	output := place(t)
	for _, device := range []string{"cuda", "cuda:0"} {
		e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output, "--device", device)
		assert.Equal(t, exitDevice, e.code)
		assert.Contains(t, e.stderr, "libcuda.so.1")
		assert.Contains(t, e.stderr, "/usr/lib", "where it was looked for")
		requireNothing(t, output)
	}
}

func TestDevicesThatFail(t *testing.T) {
	withDriver(t, func() (*cudabuf.Driver, error) {
		return cudatest.New(cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
			if call == "cuMemcpyHtoDAsync" {
				return 700
			}
			return 0
		}}), nil
	})
	output := place(t)
	e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output, "--device", "cuda")
	assert.Equal(t, exitDevice, e.code)
	assert.Contains(t, e.stderr, "CUDA_ERROR_ILLEGAL_ADDRESS")
	requireNothing(t, output)
}
