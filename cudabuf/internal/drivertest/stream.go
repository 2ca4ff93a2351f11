package drivertest

import (
	"encoding/binary"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blockStream makes a stream wait until open is called.
func (m *fixture) blockStream(s driver.Stream) (open func()) {
	m.Helper()
	gate := make(chan struct{})
	require.NoError(m, m.api.LaunchHostFunc(s, func() { <-gate }))
	return func() { close(gate) }
}

func (m *fixture) streams() {
	a, b := m.newStream(), m.newStream()
	assert.True(m, must[bool](m)(m.api.StreamQuery(a)))
	assert.Equal(m, m.ctx, must[driver.Context](m)(m.api.StreamGetCtx(a)))
	open := m.blockStream(a)
	assert.False(m, must[bool](m)(m.api.StreamQuery(a)))
	require.NoError(m, m.api.StreamSynchronize(b), "another stream does not wait")
	require.NoError(m, m.api.StreamSynchronize(0), "the null stream does not wait for a non-blocking one")
	p := m.alloc(64)
	require.NoError(m, m.api.MemsetD8Async(p, 1, 64, a))
	require.NoError(m, m.api.MemsetD8Async(p, 2, 32, a))
	open()
	require.NoError(m, m.api.StreamSynchronize(a))
	assert.True(m, must[bool](m)(m.api.StreamQuery(a)))
	got := m.read(p, 64)
	assert.Equal(m, []byte{2, 1}, []byte{got[31], got[32]})

	blocking := must[driver.Stream](m)(m.api.StreamCreateWithPriority(driver.StreamDefault, 0))
	open = m.blockStream(blocking)
	require.NoError(m, m.api.MemsetD8Async(p, 3, 64, 0))
	assert.False(m, must[bool](m)(m.api.StreamQuery(0)), "the null stream waits for a blocking one")
	open()
	require.NoError(m, m.api.StreamSynchronize(0))
	require.NoError(m, m.api.StreamDestroy(blocking))
}

func (m *fixture) priorities() {
	least, greatest, err := m.api.CtxGetStreamPriorityRange()
	require.NoError(m, err)
	require.LessOrEqual(m, greatest, least)
	for ask, want := range map[int]int{least: least, greatest: greatest, greatest - 7: greatest, least + 7: least} {
		s := must[driver.Stream](m)(m.api.StreamCreateWithPriority(driver.StreamNonBlocking, ask))
		assert.Equal(m, want, must[int](m)(m.api.StreamGetPriority(s)))
		require.NoError(m, m.api.StreamDestroy(s))
	}
}

func (m *fixture) hostFunctions() {
	s := m.newStream()
	var order []int
	for i := range 50 {
		require.NoError(m, m.api.LaunchHostFunc(s, func() { order = append(order, i) }))
	}
	require.NoError(m, m.api.StreamSynchronize(s))
	require.Len(m, order, 50)
	for i, got := range order {
		assert.Equal(m, i, got)
	}
}

func (m *fixture) events() {
	s := m.newStream()
	for _, flags := range []uint32{0, driver.EventDisableTiming, driver.EventBlockingSync | driver.EventDisableTiming, driver.EventInterprocess | driver.EventDisableTiming} {
		e := m.newEvent(flags)
		assert.True(m, must[bool](m)(m.api.EventQuery(e)), "never recorded")
		require.NoError(m, m.api.EventSynchronize(e), "never recorded")
		open := m.blockStream(s)
		require.NoError(m, m.api.EventRecord(e, s))
		assert.False(m, must[bool](m)(m.api.EventQuery(e)))
		open()
		require.NoError(m, m.api.EventSynchronize(e))
		assert.True(m, must[bool](m)(m.api.EventQuery(e)))
	}
	_, err := m.api.EventCreate(driver.EventInterprocess)
	m.wantCode(driver.InvalidValue, err, "an interprocess event has no timing")
}

func (m *fixture) timing() {
	s, start, end := m.newStream(), m.newEvent(0), m.newEvent(0)
	_, err := m.api.EventElapsedTime(start, end)
	m.wantCode(driver.InvalidHandle, err, "never recorded")
	require.NoError(m, m.api.EventRecord(start, s))
	require.NoError(m, m.api.LaunchHostFunc(s, func() { time.Sleep(3 * time.Millisecond) }))
	require.NoError(m, m.api.EventRecord(end, s))
	require.NoError(m, m.api.EventSynchronize(end))
	assert.GreaterOrEqual(m, must[float32](m)(m.api.EventElapsedTime(start, end)), float32(3))
	open := m.blockStream(s)
	require.NoError(m, m.api.EventRecord(end, s))
	_, err = m.api.EventElapsedTime(start, end)
	m.wantCode(driver.NotReady, err, "the end is not reached")
	open()
	silent := m.newEvent(driver.EventDisableTiming)
	require.NoError(m, m.api.EventRecord(silent, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	_, err = m.api.EventElapsedTime(start, silent)
	m.wantCode(driver.InvalidHandle, err, "an event without timing")
}

// The streams report their progress by copies, because CUDA may run only one
// host function at a time.
func (m *fixture) eventWaits() {
	a, b, e := m.newStream(), m.newStream(), m.newEvent(driver.EventDisableTiming)
	require.NoError(m, m.api.StreamWaitEvent(b, e), "never recorded")
	require.NoError(m, m.api.StreamSynchronize(b))

	p := m.alloc(64)
	m.write(p, make([]byte, 64))
	seen := m.pinned(1, driver.HostAllocPortable)
	open := m.blockStream(a)
	require.NoError(m, m.api.MemsetD8Async(p, 1, 64, a))
	require.NoError(m, m.api.EventRecord(e, a))
	require.NoError(m, m.api.StreamWaitEvent(b, e))
	later := m.blockStream(a)
	require.NoError(m, m.api.MemsetD8Async(p, 2, 64, a))
	require.NoError(m, m.api.EventRecord(e, a)) // b waits for the first
	require.NoError(m, m.api.MemcpyDtoHAsync(seen, p, b))
	assert.False(m, must[bool](m)(m.api.StreamQuery(b)))
	open()
	require.NoError(m, m.api.StreamSynchronize(b))
	assert.EqualValues(m, 1, seen[0])
	assert.False(m, must[bool](m)(m.api.EventQuery(e)), "the second record")
	later()
	require.NoError(m, m.api.StreamSynchronize(a))
}

func (m *fixture) graphs() {
	s := m.newStream()
	p, q := m.alloc(64), m.alloc(64)
	m.write(p, make([]byte, 64))
	m.write(q, make([]byte, 64))
	require.NoError(m, m.api.StreamBeginCapture(s, driver.CaptureRelaxed))
	require.NoError(m, m.api.MemcpyDtoDAsync(q, p, 64, s))
	other, fork, join := m.newStream(), m.newEvent(driver.EventDisableTiming), m.newEvent(driver.EventDisableTiming)
	require.NoError(m, m.api.EventRecord(fork, s))
	require.NoError(m, m.api.StreamWaitEvent(other, fork)) // other joins the capture
	require.NoError(m, m.api.MemsetD8Async(p, 8, 32, other))
	require.NoError(m, m.api.EventRecord(join, other))
	require.NoError(m, m.api.StreamWaitEvent(s, join))
	graph := must[driver.Graph](m)(m.api.StreamEndCapture(s))
	exec := must[driver.GraphExec](m)(m.api.GraphInstantiate(graph))
	require.NoError(m, m.api.GraphDestroy(graph))
	assert.Equal(m, byte(0), m.read(p, 1)[0], "capturing runs nothing")
	m.write(p, []byte{1, 2, 3})
	require.NoError(m, m.api.GraphLaunch(exec, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Equal(m, []byte{1, 2, 3, 0}, m.read(q, 4), "memory as it is at the launch")
	assert.Equal(m, byte(8), m.read(p, 1)[0])
	require.NoError(m, m.api.GraphLaunch(exec, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Equal(m, byte(8), m.read(q, 1)[0])
	require.NoError(m, m.api.GraphExecDestroy(exec))

	require.NoError(m, m.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
	empty := must[driver.Graph](m)(m.api.StreamEndCapture(s))
	exec = must[driver.GraphExec](m)(m.api.GraphInstantiate(empty))
	require.NoError(m, m.api.GraphLaunch(exec, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	require.NoError(m, m.api.GraphExecDestroy(exec))
	require.NoError(m, m.api.GraphDestroy(empty))
}

func (m *fixture) invalidCaptures() {
	s, other := m.newStream(), m.newStream()
	require.NoError(m, m.api.StreamBeginCapture(s, driver.CaptureRelaxed))
	m.wantCode(900, m.api.StreamSynchronize(s), "waiting for a stream that captures")
	_, err := m.api.StreamEndCapture(s)
	m.wantCode(901, err, "and the capture is invalidated")

	_, err = m.api.StreamEndCapture(s)
	assert.NotEqual(m, driver.Success, resultOf(err), "the stream does not capture")

	e := m.newEvent(driver.EventDisableTiming)
	require.NoError(m, m.api.StreamBeginCapture(s, driver.CaptureRelaxed))
	require.NoError(m, m.api.EventRecord(e, s))
	require.NoError(m, m.api.StreamWaitEvent(other, e))
	require.NoError(m, m.api.MemsetD8Async(m.alloc(8), 1, 8, other))
	_, err = m.api.StreamEndCapture(s)
	m.wantCode(904, err, "a stream that was not joined")
	require.NoError(m, m.api.MemsetD8Async(m.alloc(8), 1, 8, s), "the stream still works")
	require.NoError(m, m.api.StreamSynchronize(s))
}

func (m *fixture) loadKernel() driver.Function {
	m.Helper()
	module := must[driver.Module](m)(m.api.ModuleLoadData(m.Image, m.HostKernels))
	m.cleanup(func() error { return m.api.ModuleUnload(module) })
	return must[driver.Function](m)(m.api.ModuleGetFunction(module, "add_int32"))
}

func (m *fixture) launchAdd(f driver.Function, p uintptr, grid, block driver.Dim3, shared uint32, s driver.Stream) error {
	return m.api.LaunchKernel(&driver.Launch{Function: f, Grid: grid, Block: block, SharedBytes: shared, Stream: s, Args: []driver.Arg{
		{Kind: driver.Pointer, Bits: uint64(p)}, {Kind: driver.Int64, Bits: 2}, {Kind: driver.Int32, Bits: 0xffffffff},
	}})
}

func (m *fixture) kernels() {
	f, s, p := m.loadKernel(), m.newStream(), m.alloc(16)
	m.write(p, make([]byte, 16))
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	for range 3 {
		require.NoError(m, m.launchAdd(f, p, one, driver.Dim3{X: 32, Y: 1, Z: 1}, 0, s))
	}
	require.NoError(m, m.api.StreamSynchronize(s))
	got := m.read(p, 16)
	for i, want := range []int32{-3, -3, 0, 0} {
		assert.Equal(m, want, int32(binary.LittleEndian.Uint32(got[4*i:])))
	}
	m.wantCode(driver.InvalidValue, m.launchAdd(f, p, driver.Dim3{}, one, 0, s), "an empty grid")
	m.wantCode(driver.InvalidValue, m.launchAdd(f, p, one, driver.Dim3{X: 2048, Y: 1, Z: 1}, 0, s), "a block of too many threads")
	m.wantCode(driver.InvalidValue, m.launchAdd(f, p, one, one, 64<<10, s), "too much shared memory")
	require.NoError(m, m.api.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, 64<<10))
	require.NoError(m, m.launchAdd(f, p, one, one, 64<<10, s), "opted in")
	require.NoError(m, m.api.StreamSynchronize(s))
	most := must[int](m)(m.api.DeviceGetAttribute(driver.MaxSharedMemoryPerBlockOptin, m.dev))
	m.wantCode(driver.InvalidValue, m.api.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, most+1), "more than the device has")
}

func (m *fixture) occupancy() {
	f := m.loadKernel()
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

func (m *fixture) invalidImages() {
	module := must[driver.Module](m)(m.api.ModuleLoadData(m.Image, m.HostKernels))
	_, err := m.api.ModuleGetFunction(module, "no_such_kernel")
	m.wantCode(driver.NotFound, err, "no such kernel")
	require.NoError(m, m.api.ModuleUnload(module))
}

func (m *fixture) parameters() {
	f := m.loadKernel()
	want := [][2]int64{{0, 8}, {8, 8}, {16, 4}}
	for i, w := range want {
		offset, size, err := m.api.FuncGetParamInfo(f, i)
		if resultOf(err) == driver.NotSupported {
			m.Skip("the driver is older than CUDA 12.4")
		}
		require.NoError(m, err)
		assert.Equal(m, w, [2]int64{offset, size}, "parameter %d", i)
	}
	_, _, err := m.api.FuncGetParamInfo(f, len(want))
	m.wantCode(driver.InvalidValue, err, "one more than there are")
}
