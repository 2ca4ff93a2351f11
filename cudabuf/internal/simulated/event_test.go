//go:build linux

package simulated

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEventFlags(t *testing.T) {
	d, _ := openMachine(t, Config{})
	for flags, ok := range map[uint32]bool{
		0:                         true,
		driver.EventBlockingSync:  true,
		driver.EventDisableTiming: true,
		driver.EventInterprocess:  false,
		driver.EventInterprocess | driver.EventDisableTiming: true,
		8: false,
	} {
		_, err := d.EventCreate(flags)
		if ok {
			assert.NoError(t, err, "flags %d", flags)
		} else {
			wantCode(t, driver.InvalidValue, err)
		}
	}
}

func TestUnrecordedEventIsDone(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s, e := newStreamOf(t, d, driver.StreamNonBlocking), newEvent(t, d, 0)
	assert.True(t, must[bool](t)(d.EventQuery(e)))
	require.NoError(t, d.EventSynchronize(e))
	require.NoError(t, d.StreamWaitEvent(s, e))
	require.NoError(t, d.StreamSynchronize(s))
}

func TestWaitIsForLastRecordAtTimeOfCall(t *testing.T) {
	d, _ := openMachine(t, Config{})
	a, b := newStreamOf(t, d, driver.StreamNonBlocking), newStreamOf(t, d, driver.StreamNonBlocking)
	e := newEvent(t, d, driver.EventDisableTiming)
	first := blockStream(t, d, a)
	require.NoError(t, d.EventRecord(e, a))
	require.NoError(t, d.StreamWaitEvent(b, e))
	second := blockStream(t, d, a)
	require.NoError(t, d.EventRecord(e, a))
	var passed atomic.Bool
	require.NoError(t, d.LaunchHostFunc(b, func() { passed.Store(true) }))
	assert.False(t, must[bool](t)(d.StreamQuery(b)))
	first()
	require.NoError(t, d.StreamSynchronize(b))
	assert.True(t, passed.Load())
	assert.False(t, must[bool](t)(d.EventQuery(e)))
	require.NoError(t, d.EventDestroy(e), "while it is pending")
	wantCode(t, driver.InvalidHandle, d.EventSynchronize(e))
	second()
	require.NoError(t, d.StreamSynchronize(a))
}

func TestEventElapsedTime(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreamOf(t, d, driver.StreamNonBlocking)
	start, end, silent := newEvent(t, d, 0), newEvent(t, d, 0), newEvent(t, d, driver.EventDisableTiming)
	elapsed := func(from, to driver.Event) (float32, error) { return d.EventElapsedTime(from, to) }

	_, err := elapsed(start, end)
	wantCode(t, driver.InvalidHandle, err) // never recorded
	require.NoError(t, d.EventRecord(start, s))
	require.NoError(t, d.EventRecord(silent, s))
	_, err = elapsed(start, end)
	wantCode(t, driver.InvalidHandle, err) // the end never recorded
	require.NoError(t, d.LaunchHostFunc(s, func() { time.Sleep(2 * time.Millisecond) }))
	open := blockStream(t, d, s)
	require.NoError(t, d.EventRecord(end, s))
	_, err = elapsed(start, end)
	wantCode(t, driver.NotReady, err)
	_, err = elapsed(silent, end)
	wantCode(t, driver.InvalidHandle, err) // no time is kept
	open()
	require.NoError(t, d.EventSynchronize(end))
	assert.GreaterOrEqual(t, must[float32](t)(elapsed(start, end)), float32(2))
	assert.LessOrEqual(t, must[float32](t)(elapsed(end, start)), float32(-2))
	assert.Zero(t, must[float32](t)(elapsed(end, end)))
}

func TestEventOnNullStreamWaitsForBlockingStreams(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s, e := newStreamOf(t, d, driver.StreamDefault), newEvent(t, d, 0)
	open := blockStream(t, d, s)
	require.NoError(t, d.EventRecord(e, 0))
	assert.False(t, must[bool](t)(d.EventQuery(e)))
	open()
	require.NoError(t, d.EventSynchronize(e))
}
