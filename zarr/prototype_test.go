package zarr_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadersProduceMemoryOfThePrototype(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := store.NewMemory()
		meta := ints([]int64{3, 2}, []int64{2, 2})
		meta.FillValue = []byte{9, 0, 0, 0}
		a := create(t, s, "a", meta)
		require.NoError(t, a.Write(ctx, values(t, ndview.Int32, []int32{1, 2, 3, 4, 5, 6}, 3, 2), 1))
		// The same array, read to both places in turn: a prototype is no setting.
		for _, to := range []ndview.Prototype{{}, ndview.PrototypeOn(dev), {}, ndview.PrototypeOn(dev)} {
			for _, c := range []struct {
				name string
				read func() (element.Values, error)
				want []int32
			}{
				{"all", func() (element.Values, error) { return a.Read(ctx, to, 2) }, []int32{1, 2, 3, 4, 5, 6}},
				{"rows", func() (element.Values, error) { return a.ReadRows(ctx, to, 1, 3, 2) }, []int32{3, 4, 5, 6}},
				{"no rows", func() (element.Values, error) { return a.ReadRows(ctx, to, 1, 1, 2) }, []int32{}},
				{"a chunk", func() (element.Values, error) { return a.ReadChunk(ctx, to, []int64{0, 0}) }, []int32{1, 2, 3, 4}},
				{"the last chunk", func() (element.Values, error) { return a.ReadChunk(ctx, to, []int64{1, 0}) }, []int32{5, 6, 9, 9}},
				{"no chunk", func() (element.Values, error) { return a.ReadChunk(ctx, to, []int64{7, 7}) }, []int32{9, 9, 9, 9}},
			} {
				v, err := c.read()
				require.NoError(t, err, "%s to %s", c.name, to)
				nd := v.(*ndview.NDBuffer)
				assert.Equal(t, to, ndview.PrototypeOn(nd.Device()), c.name)
				assert.Equal(t, c.want, host[int32](t, nd), "%s to %s", c.name, to)
				v.Release()
			}
		}
	})
}

func TestStringsAreReadToTheHostWhateverThePrototype(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "", &zarr.ArrayMetadata{Shape: []int64{2}, DataType: element.String, ChunkShape: []int64{2}, Codecs: zarr.DefaultCodecs(element.String)})
		v, err := element.Strings([]string{"a", "né"}, 2)
		require.NoError(t, err)
		require.NoError(t, a.Write(ctx, v, 1))
		got, err := a.Read(ctx, ndview.PrototypeOn(dev), 1)
		require.NoError(t, err)
		assert.Equal(t, [][]byte{[]byte("a"), []byte("né")}, got.(*element.VLen).Elements())
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestReadersNameTheArrayThatAPrototypeHasNoMemoryFor(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "delays", ints([]int64{1 << 58}, []int64{1 << 20}))
		for _, to := range []ndview.Prototype{{}, ndview.PrototypeOn(dev)} {
			_, err := a.Read(ctx, to, 1)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, to)
			assert.ErrorContains(t, err, `"delays"`, to)
		}
	})
}
