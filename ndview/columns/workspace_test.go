package columns_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Fails each driver call that allocates, copies or launches once. The simulated device
// checks that nothing leaks.
func TestDriverFailuresLeakNothing(t *testing.T) {
	var left atomic.Int64
	driver := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		moves := []string{"cuLaunchKernel", "cuMemsetD8Async", "cuMemAlloc", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync"}
		if slices.Contains(moves, call) && left.Add(-1) == 0 {
			return cudatest.OutOfMemory
		}
		return 0
	}})
	dev, err := driver.Device(0)
	require.NoError(t, err)
	for _, dtype := range types {
		m := newMaker(t, 3, true)
		a, b := on(t, dev, m.array(dtype, 40, true)), on(t, dev, m.array(dtype, 30, true))
		mask := m.array(arrow.FixedWidthTypes.Boolean, 40, true)
		for name, call := range map[string]func() (arrow.Array, error){
			"take":        func() (arrow.Array, error) { return columns.Take(a, columns.Indices(3, 9, 1)) },
			"filter":      func() (arrow.Array, error) { return columns.Filter(a, mask) },
			"concatenate": func() (arrow.Array, error) { return columns.Concatenate(a, b) },
			"flatten":     func() (arrow.Array, error) { return columns.Flatten(a) },
			"decode":      func() (arrow.Array, error) { return columns.Decode(a) },
		} {
			for n := int64(1); ; n++ {
				left.Store(n)
				result, err := call()
				done := left.Swap(0) > 0
				if err == nil {
					result.Release()
				}
				if done {
					break
				}
				require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "%s of %s: call %d", name, dtype, n)
			}
		}
	}
}

// askew returns data whose buffers begin `by` bytes after an allocation.
func askew(t *testing.T, dev arrowbuf.Device, data arrow.ArrayData, by int64) *array.Data {
	t.Helper()
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, b := range data.Buffers() {
		if b == nil {
			continue
		}
		whole, err := dev.Alloc(int64(b.Len()) + by)
		require.NoError(t, err)
		_, err = whole.CopyFromHost(b.Bytes(), by)
		require.NoError(t, err)
		part, err := whole.Slice(by, int64(b.Len()))
		require.NoError(t, err)
		buffers[i] = part.Arrow()
		t.Cleanup(buffers[i].Release)
		part.Release()
		whole.Release()
	}
	var children []arrow.ArrayData
	for _, child := range data.Children() {
		children = append(children, askew(t, dev, child, by))
	}
	result := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		result.SetDictionary(askew(t, dev, dictionary, by))
	}
	t.Cleanup(result.Release)
	return result
}

// Buffers of other libraries need not be aligned.
func TestUnalignedBuffersAreAccepted(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		if dev == arrowbuf.CPU() {
			return // arrow-go requires alignment
		}
		for _, dtype := range types {
			host := newMaker(t, 6, true).array(dtype, 90, true)
			for _, by := range []int64{1, 2, 3, 4, 8} {
				arr := arrowbuf.NewArray(askew(t, dev, host.Data(), by))
				t.Cleanup(arr.Release)
				got, err := columns.Take(arr, columns.Indices(80, 3, 3, 7))
				requireElements(t, host, []int{80, 3, 3, 7}, toHost(t, dev, got, err))
				got, err = columns.Concatenate(arr, arr)
				requireJoined(t, []arrow.Array{host, host}, toHost(t, dev, got, err))
			}
		}
	})
}

func TestNilArgumentsAreInvalid(t *testing.T) {
	one := columns.Indices(0)
	defer one.Release()
	rows := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 3)
	for name, call := range map[string]func() error{
		"Take":               func() error { _, err := columns.Take(nil, one); return err },
		"Take, nil indices":  func() error { _, err := columns.Take(one, nil); return err },
		"Filter":             func() error { _, err := columns.Filter(one, nil); return err },
		"Concatenate":        func() error { _, err := columns.Concatenate(one, nil); return err },
		"Decode":             func() error { _, err := columns.Decode(nil); return err },
		"Flatten":            func() error { _, err := columns.Flatten(nil); return err },
		"CastIndices":        func() error { _, err := columns.CastIndices(one, nil); return err },
		"CastOffsets":        func() error { _, err := columns.CastOffsets(nil, arrow.BinaryTypes.String); return err },
		"TakeBatch":          func() error { _, err := columns.TakeBatch(rows, nil); return err },
		"FilterBatch":        func() error { _, err := columns.FilterBatch(nil, one); return err },
		"ConcatenateBatches": func() error { _, err := columns.ConcatenateBatches(rows, nil); return err },
	} {
		assert.ErrorIs(t, call(), arrow.ErrInvalid, name)
	}
}
