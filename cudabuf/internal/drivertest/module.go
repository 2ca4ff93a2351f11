package drivertest

import (
	"encoding/binary"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (m *machine) kernel() driver.Function {
	m.Helper()
	module := must[driver.Module](m)(m.api.ModuleLoadData(m.Image, m.Twins))
	m.after(func() error { return m.api.ModuleUnload(module) })
	return must[driver.Function](m)(m.api.ModuleGetFunction(module, "add_int32"))
}

func (m *machine) add(f driver.Function, p uintptr, grid, block driver.Dim3, shared uint32, s driver.Stream) error {
	return m.api.LaunchKernel(&driver.Launch{Function: f, Grid: grid, Block: block, SharedBytes: shared, Stream: s, Args: []driver.Arg{
		{Kind: driver.Pointer, Bits: uint64(p)}, {Kind: driver.Int64, Bits: 2}, {Kind: driver.Int32, Bits: 0xffffffff},
	}})
}

func (m *machine) kernels() {
	f, s, p := m.kernel(), m.stream(), m.alloc(16)
	m.write(p, make([]byte, 16))
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	for range 3 {
		require.NoError(m, m.add(f, p, one, driver.Dim3{X: 32, Y: 1, Z: 1}, 0, s))
	}
	require.NoError(m, m.api.StreamSynchronize(s))
	got := m.read(p, 16)
	for i, want := range []int32{-3, -3, 0, 0} {
		assert.Equal(m, want, int32(binary.LittleEndian.Uint32(got[4*i:])))
	}
	m.fails(driver.InvalidValue, m.add(f, p, driver.Dim3{}, one, 0, s), "an empty grid")
	m.fails(driver.InvalidValue, m.add(f, p, one, driver.Dim3{X: 2048, Y: 1, Z: 1}, 0, s), "a block of too many threads")
	m.fails(driver.InvalidValue, m.add(f, p, one, one, 64<<10, s), "too much shared memory")
	require.NoError(m, m.api.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, 64<<10))
	require.NoError(m, m.add(f, p, one, one, 64<<10, s), "opted in")
	require.NoError(m, m.api.StreamSynchronize(s))
	most := must[int](m)(m.api.DeviceGetAttribute(driver.MaxSharedMemoryPerBlockOptin, m.dev))
	m.fails(driver.InvalidValue, m.api.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, most+1), "more than there is")
}

func (m *machine) occupancy() {
	f := m.kernel()
	assert.Equal(m, 1024, must[int](m)(m.api.FuncGetAttribute(driver.FuncMaxThreadsPerBlock, f)))
	assert.Positive(m, must[int](m)(m.api.FuncGetAttribute(driver.FuncRegisters, f)))
	assert.Zero(m, must[int](m)(m.api.FuncGetAttribute(driver.FuncSharedBytes, f)))
	assert.Zero(m, must[int](m)(m.api.FuncGetAttribute(driver.FuncLocalBytes, f)))
	small := must[int](m)(m.api.OccupancyMaxActiveBlocksPerMultiprocessor(f, 128, 0))
	large := must[int](m)(m.api.OccupancyMaxActiveBlocksPerMultiprocessor(f, 1024, 0))
	assert.Greater(m, small, large)
	assert.Positive(m, large)
	blocks, threads, err := m.api.OccupancyMaxPotentialBlockSize(f, 0, 0)
	require.NoError(m, err)
	assert.Positive(m, blocks)
	assert.Zero(m, threads%32)
	_, threads, err = m.api.OccupancyMaxPotentialBlockSize(f, 0, 64)
	require.NoError(m, err)
	assert.LessOrEqual(m, threads, 64)
}

func (m *machine) badImages() {
	module := must[driver.Module](m)(m.api.ModuleLoadData(m.Image, m.Twins))
	_, err := m.api.ModuleGetFunction(module, "no_such_kernel")
	m.fails(driver.NotFound, err, "no such kernel")
	require.NoError(m, m.api.ModuleUnload(module))
}
