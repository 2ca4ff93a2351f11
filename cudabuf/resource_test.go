package cudabuf_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// countingResource counts the calls of another resource, and checks the sizes of frees.
type countingResource struct {
	cudabuf.MemoryResource
	allocated, freed atomic.Int64 // bytes
}

func (c *countingResource) Allocate(n int64, s *cudabuf.Stream) (uintptr, error) {
	address, err := c.MemoryResource.Allocate(n, s)
	if err == nil {
		c.allocated.Add(n)
	}
	return address, err
}

func (c *countingResource) Deallocate(address uintptr, n int64, s *cudabuf.Stream) error {
	c.freed.Add(n)
	return c.MemoryResource.Deallocate(address, n, s)
}

func TestDeviceAllocatesFromAResource(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		counted := &countingResource{MemoryResource: newPool(t, dev, cudabuf.PoolOptions{})}
		p := newPool(t, dev, cudabuf.PoolOptions{Resource: counted})
		require.NoError(t, dev.SetPool(p))
		defer func() { require.NoError(t, dev.SetPool(nil)) }()
		data := bytes.Repeat([]byte("resource"), 1000)
		for range 3 {
			b, err := dev.FromHost(data)
			require.NoError(t, err)
			assertBytes(t, data, download(t, b))
			b.Release()
		}
		assert.Equal(t, int64(3*8192), counted.allocated.Load(), "each buffer, in multiples of 512 bytes")
		assert.Equal(t, counted.allocated.Load(), counted.freed.Load())
	})
}

func TestResourceIsBoundedByWrapping(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		limited, err := cudabuf.LimitMemory(newPool(t, dev, cudabuf.PoolOptions{}), 1<<20)
		require.NoError(t, err)
		p := newPool(t, dev, cudabuf.PoolOptions{Resource: limited})
		b := alloc(t, p, 1<<20, nil)
		_, err = p.Alloc(1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorContains(t, err, "1048576 of at most 1048576 in use")
		b.Release()
		alloc(t, p, 1<<20, nil).Release()
	})
	_, err := cudabuf.LimitMemory(nil, 1)
	assert.ErrorIs(t, err, cudabuf.ErrNil)
}

func TestPoolAsResourceRefusesForeignMemory(t *testing.T) {
	dev := cudatest.NewDevice(t)
	p := newPool(t, dev, cudabuf.PoolOptions{})
	s, err := dev.DefaultStream()
	require.NoError(t, err)
	at, err := p.Allocate(100, s)
	require.NoError(t, err)
	assert.ErrorIs(t, p.Deallocate(at+1, 100, s), arrowbuf.ErrReleased)
	require.NoError(t, p.Deallocate(at, 100, s))
	assert.ErrorIs(t, p.Deallocate(at, 100, s), arrowbuf.ErrReleased)
	_, err = p.Allocate(0, s)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	other := cudatest.NewDevice(t)
	foreign, err := other.DefaultStream()
	require.NoError(t, err)
	_, err = p.Allocate(100, foreign)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
}
