package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// askew moves the buffers of an array so many bytes behind where memory begins.
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
	made := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		made.SetDictionary(askew(t, dev, dictionary, by))
	}
	t.Cleanup(made.Release)
	return made
}

// Buffers of other libraries may lie anywhere.
func TestBuffersLieAnywhere(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		if dev == arrowbuf.CPU() {
			return // arrow-go wants them aligned
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
