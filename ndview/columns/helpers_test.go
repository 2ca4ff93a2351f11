package columns_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// onDevices runs a test on the CPU and on each kind of CUDA device, where it
// fails if it leaves memory behind.
func onDevices(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { test(t, arrowbuf.CPU()) })
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// on copies an array to a device as it is: buffer by buffer, with its offset and
// its children's.
func on(t testing.TB, dev arrowbuf.Device, arr arrow.Array) arrow.Array {
	t.Helper()
	moved := arrowbuf.NewArray(copied(t, dev, arr.Data()))
	t.Cleanup(moved.Release)
	return moved
}

// copied is the data of an array on a device, without a look at what is in it.
func copied(t testing.TB, dev arrowbuf.Device, data arrow.ArrayData) *array.Data {
	t.Helper()
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, b := range data.Buffers() {
		if b == nil {
			continue
		}
		moved, err := dev.Alloc(int64(b.Len()))
		require.NoError(t, err)
		_, err = moved.CopyFromHost(b.Bytes(), 0)
		require.NoError(t, err)
		buffers[i] = moved.Arrow()
		moved.Release()
	}
	children := make([]arrow.ArrayData, len(data.Children()))
	for i, child := range data.Children() {
		children[i] = copied(t, dev, child)
	}
	made := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		made.SetDictionary(copied(t, dev, dictionary))
	}
	t.Cleanup(made.Release)
	return made
}

// toHost checks a result, which it releases at the end, and brings it to the host.
func toHost(t testing.TB, dev arrowbuf.Device, got arrow.Array, err error) arrow.Array {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(got.Release)
	require.Contains(t, []arrowbuf.Device{dev, arrowbuf.CPU()}, arrowbuf.DeviceOf(got)) // the CPU: without buffers
	host, err := arrowbuf.CopyArrayTo(got, arrowbuf.CPU())
	require.NoError(t, err)
	t.Cleanup(host.Release)
	if t, ok := host.DataType().(*arrow.FixedSizeBinaryType); ok && t.ByteWidth == 0 {
		return host // which arrow-go takes for invalid
	}
	require.NoError(t, array.ValidateFull(host), "%s: %v", host.DataType(), host)
	return host
}

// requireElements checks that element j of an array is element from[j] of
// another, or null for -1.
func requireElements(t testing.TB, want arrow.Array, from []int, got arrow.Array) {
	t.Helper()
	require.True(t, arrow.TypeEqual(want.DataType(), got.DataType()), "%s, not %s", got.DataType(), want.DataType())
	require.Equal(t, len(from), got.Len())
	requireElementsAt(t, want, from, got, 0)
}

// requireElementsAt is requireElements of those of an array from one on.
func requireElementsAt(t testing.TB, want arrow.Array, from []int, got arrow.Array, at int) {
	t.Helper()
	for j, i := range from {
		j += at
		if i < 0 || want.DataType().ID() == arrow.NULL { // of which arrow-go counts no slice's nulls
			require.True(t, isNull(got, j), "element %d of %s", j, want.DataType())
			continue
		}
		if !same(want, i, got, j) {
			require.Failf(t, "elements differ", "element %d of %s: want %s, got %s", j, want.DataType(), want.ValueStr(i), got.ValueStr(j))
		}
	}
}

// same tells whether two elements are equal. arrow-go compares dictionaries
// whole: elements that have them are compared as they print.
func same(a arrow.Array, i int, b arrow.Array, j int) bool {
	if strings.Contains(a.DataType().String(), "dictionary<") {
		return a.IsNull(i) == b.IsNull(j) && reflect.DeepEqual(a.GetOneForMarshal(i), b.GetOneForMarshal(j))
	}
	return array.SliceEqual(a, int64(i), int64(i+1), b, int64(j), int64(j+1))
}

// isNull tells whether an element is null, be it by a child.
func isNull(arr arrow.Array, i int) bool {
	switch a := arr.(type) {
	case array.Union:
		at := i
		if dense, ok := a.(*array.DenseUnion); ok {
			at = int(dense.ValueOffset(i))
		}
		return isNull(a.Field(a.ChildID(i)), at)
	case *array.RunEndEncoded:
		return isNull(a.Values(), a.GetPhysicalIndex(i))
	case array.ExtensionArray:
		return isNull(a.Storage(), i)
	default:
		return arr.IsNull(i) || arr.DataType().ID() == arrow.NULL
	}
}

// upTo is 0, 1, 2, ... n-1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
