//go:build linux

package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestClientReadsTheServersTable(t *testing.T) {
	devices := []arrowbuf.Device{arrowbuf.CPU()}
	if cudatest.OnGPU() {
		gpu, err := cudabuf.OpenDevice("cuda")
		require.NoError(t, err)
		devices = append(devices, gpu)
	}
	for _, device := range devices {
		ctx, stop := context.WithCancel(context.Background())
		socket := filepath.Join(t.TempDir(), "socket")
		served := make(chan error, 1)
		go func() { served <- serve(ctx, device, "../../testdata/flights.arrow", socket) }()
		assert.Eventually(t, func() bool { return mean(ctx, device, "dep_delay", socket) == nil }, time.Minute, 10*time.Millisecond)
		assert.ErrorContains(t, mean(ctx, device, "no such column", socket), "no such column")
		stop()
		require.NoError(t, <-served)
		assert.Error(t, mean(context.Background(), device, "dep_delay", socket), "no server")
	}
}

func TestServeRefusesOtherFiles(t *testing.T) {
	assert.Error(t, serve(context.Background(), arrowbuf.CPU(), "../../testdata/make.py", filepath.Join(t.TempDir(), "socket")))
}
