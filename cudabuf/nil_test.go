package cudabuf_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

// documentedPanics are methods without an error to return, which panic with
// arrowbuf.ErrReleased or an error of memory.
var documentedPanics = []string{
	"Buffer.Retain", "Buffer.Release", "Buffer.Arrow", "HostBuffer.Retain", "HostBuffer.Release", "HostBuffer.Arrow",
	"PinnedAllocator.Allocate", "PinnedAllocator.Reallocate", "PinnedAllocator.Free",
}

// TestNilAndZeroArgumentsNeverPanic calls every exported function, and every method of a
// live value of every type, with zero arguments: nil pointers, nil interfaces, nil
// functions, 0. A method on a nil value panics, as in Go's standard library.
func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	functions := map[string]any{
		"LimitMemory": cudabuf.LimitMemory, "CheckDeviceName": cudabuf.CheckDeviceName, "CloseDevices": cudabuf.CloseDevices, "FromArrow": cudabuf.FromArrow,
		"In": cudabuf.In, "InOut": cudabuf.InOut, "NewBufferReader": cudabuf.NewBufferReader, "NewBufferWriter": cudabuf.NewBufferWriter,
		"OpenDevice": cudabuf.OpenDevice, "ParsePyArrow": cudabuf.ParsePyArrow, "ParseUUID": cudabuf.ParseUUID,
		"Open":     nil, // without arguments
		"Elements": nil, // needs the launch that a host kernel is given
	}
	values := valuesOfEachType(t)
	names, err := apitest.Functions(".")
	require.NoError(t, err)
	for _, name := range names {
		kind, method, isMethod := strings.Cut(name, ".")
		f := reflect.ValueOf(functions[name])
		if isMethod {
			value, ok := values[kind]
			require.True(t, ok, "no value of %s", kind)
			if value == nil || slices.Contains([]string{"Retain", "Release", "Close"}, method) {
				continue // the others need the value
			}
			f = reflect.ValueOf(value).MethodByName(method)
		} else {
			_, ok := functions[name]
			require.True(t, ok, "no call of %s", name)
		}
		if f.IsValid() { // the build may lack it
			t.Run(name, func(t *testing.T) { _ = callWithZeros(t, name, f) })
		}
	}
}

func returnsError(f reflect.Value) bool {
	n := f.Type().NumOut()
	return n > 0 && f.Type().Out(n-1) == reflect.TypeFor[error]()
}

// callWithZeros calls f with zero arguments and returns its error, if it has one to
// return. A panic fails the test, unless it is documented.
func callWithZeros(t *testing.T, name string, f reflect.Value) (err error) {
	t.Helper()
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		if f.Type().IsVariadic() && i == f.Type().NumIn()-1 {
			break
		}
		args = append(args, reflect.Zero(f.Type().In(i)))
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		failure, isError := p.(error)
		documented := isError && slices.Contains(documentedPanics, name) && errors.Is(failure, arrowbuf.ErrReleased)
		assert.True(t, documented, "panic: %v", p)
		err = fmt.Errorf("%v", p)
	}()
	out := f.Call(args)
	if returnsError(f) {
		err, _ = out[len(out)-1].Interface().(error)
	}
	release(out)
	return err
}

// release releases and closes what a call has made.
func release(out []reflect.Value) {
	for _, v := range out {
		if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
			continue
		}
		switch made := v.Interface().(type) {
		case interface{ Release() }:
			made.Release()
		case *cudabuf.Device, *cudabuf.Driver, *cudabuf.Pool:
		case interface{ Close() error }:
			_ = made.Close()
		case func():
			made()
		}
	}
}

// valuesOfEachType returns a live value of each exported type that has methods, or nil
// where only the driver or another process makes them.
func valuesOfEachType(t *testing.T) map[string]any {
	d := cudatest.Start(t, cudatest.Config{})
	must := func(v any, err error) any { require.NoError(t, err); return v }
	dev := must(d.Device(0)).(*cudabuf.Device)
	buffer := must(dev.FromHost([]byte("live"))).(*cudabuf.Buffer)
	host := must(dev.NewHostBuffer(8, cudabuf.HostOptions{})).(*cudabuf.HostBuffer)
	shared := must(dev.NewSharedPool()).(*cudabuf.SharedPool)
	stream := must(dev.NewStream(cudabuf.StreamOptions{})).(*cudabuf.Stream)
	event := must(dev.NewEvent(cudabuf.EventOptions{})).(*cudabuf.Event)
	graph := must(dev.Capture(func(*cudabuf.Stream) error { return nil })).(*cudabuf.Graph)
	pool := must(dev.NewPool(cudabuf.PoolOptions{})).(*cudabuf.Pool)
	k := kernel(t, dev, "add_int32")
	reader, writer := must(cudabuf.NewBufferReader(buffer)).(*cudabuf.BufferReader), must(cudabuf.NewBufferWriter(buffer)).(*cudabuf.BufferWriter)
	t.Cleanup(func() {
		require.NoError(t, reader.Close())
		require.NoError(t, writer.Close())
		buffer.Release()
		host.Release()
		for _, c := range []interface{ Close() error }{shared, stream, event, graph, pool} {
			require.NoError(t, c.Close())
		}
	})
	return map[string]any{
		"Buffer": buffer, "BufferReader": reader, "BufferWriter": writer,
		"Device": dev, "Driver": d, "Error": new(cudabuf.Error), "Event": event, "Graph": graph, "HostBuffer": host, "Kernel": k,
		"Leak": cudabuf.Leak{}, "MemHandle": cudabuf.MemHandle{}, "Module": must(dev.LoadModule([]byte("image"), nil)),
		"PinnedAllocator": dev.HostAllocator(), "Pool": pool, "PoolKind": cudabuf.PoolKind(99), "Region": cudabuf.Region{}, "Result": cudabuf.Result(0),
		"SharedPool": shared, "Stream": stream, "UUID": cudabuf.UUID{}, "memoryView": nil,
		"HostLaunch": nil, "PeerPool": nil, "PoolHandle": cudabuf.PoolHandle{}, "EventHandle": cudabuf.EventHandle{}, "hostDevice": nil, "ipcPool": nil,
	}
}

func TestNilKernelArgumentsAreErrors(t *testing.T) {
	k := kernel(t, cudatest.NewDevice(t), "add_int32")
	for _, arg := range []any{nil, (*cudabuf.Buffer)(nil), (*cudabuf.HostBuffer)(nil), cudabuf.In(nil, 0), cudabuf.InOut(nil, 0)} {
		assert.ErrorContains(t, k.LaunchN(1, arg, int64(1), int32(1)), "nil", "%T", arg)
	}
}
