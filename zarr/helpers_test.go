package zarr_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/require"
)

var ctx = context.Background()

// ints returns the metadata of an int32 array.
func ints(shape, chunk []int64, then ...codec.Codec) *zarr.ArrayMetadata {
	t := element.Of(ndview.Int32)
	return &zarr.ArrayMetadata{Shape: shape, DataType: t, ChunkShape: chunk, Codecs: zarr.DefaultCodecs(t, then...)}
}

// sharded returns the metadata of a sharded int32 array.
func sharded(shape, shard, chunk []int64) *zarr.ArrayMetadata {
	m := ints(shape, shard)
	m.Codecs = codec.List{codec.Sharding{ChunkShape: chunk, Codecs: m.Codecs}}
	return m
}

func values[T ndview.Element](t *testing.T, dtype ndview.DType, data []T, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	nd, err := ndview.FromHost(arrowbuf.CPU(), dtype, data, shape...)
	require.NoError(t, err)
	t.Cleanup(nd.Release)
	return nd
}

func create(t *testing.T, s store.Store, path string, meta *zarr.ArrayMetadata) *zarr.Array {
	t.Helper()
	a, err := zarr.Create(ctx, s, path, meta)
	require.NoError(t, err)
	return a
}

func keysOf(t *testing.T, s store.Store) []string {
	t.Helper()
	keys, err := s.List(ctx, "")
	require.NoError(t, err)
	return keys
}

// randomElements returns random elements in C order. All elements of the first chunk,
// and some others, equal the fill value.
func randomElements(shape, chunk []int64, fill []byte) []byte {
	random := rand.New(rand.NewPCG(1, uint64(len(shape))))
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	out := make([]byte, 0, n*int64(len(fill)))
	for i := range n {
		empty, rest := true, i
		for axis := len(shape) - 1; axis >= 0; axis-- {
			empty = empty && rest%shape[axis] < chunk[axis]
			rest /= shape[axis]
		}
		for _, b := range fill {
			if !empty {
				b = byte(random.Uint32() % 3)
			}
			out = append(out, b)
		}
	}
	return out
}

func onDevice(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, raw []byte, shape []int64) *ndview.NDBuffer {
	t.Helper()
	nd, err := ndview.Empty(dev, dtype, shape...)
	require.NoError(t, err)
	t.Cleanup(nd.Release)
	require.NoError(t, nd.CopyFromHost(raw))
	return nd
}

func bytesOf(t testing.TB, v element.Values) []byte {
	t.Helper()
	nd := v.(*ndview.NDBuffer)
	raw := make([]byte, nd.NBytes())
	require.NoError(t, nd.CopyToHost(raw))
	return raw
}

// readAs reads an array into a slice of the type of like.
func readAs(t *testing.T, a *zarr.Array, like any) any {
	t.Helper()
	v, err := a.Read(context.Background(), zarr.Prototype{}, 2)
	require.NoError(t, err)
	defer v.Release()
	require.Equal(t, a.Metadata().Shape, v.Shape())
	if _, ok := like.([]string); ok {
		text, ok := v.(*element.VLen)
		if !ok { // of a fixed length
			text, err = a.Metadata().DataType.ToVLen(v.(*ndview.NDBuffer))
			require.NoError(t, err)
		}
		out := []string{}
		for _, e := range text.Elements() {
			out = append(out, string(e))
		}
		return out
	}
	nd := v.(*ndview.NDBuffer)
	if nd.DType() == ndview.Float16 {
		wide, err := nd.AsType(ndview.Float32, ndview.OrderC, ndview.CastUnsafe)
		require.NoError(t, err)
		defer wide.Release()
		nd = wide
	}
	switch like.(type) {
	case []bool:
		return host[bool](t, nd)
	case []uint8:
		return host[uint8](t, nd)
	case []int16:
		return host[int16](t, nd)
	case []int32:
		return host[int32](t, nd)
	case []float32: // also of float16
		wide, err := nd.AsType(ndview.Float32, ndview.OrderC, ndview.CastSafe)
		require.NoError(t, err)
		defer wide.Release()
		return host[float32](t, wide)
	default:
		return host[float64](t, nd)
	}
}

func host[T ndview.Element](t *testing.T, nd *ndview.NDBuffer) []T {
	t.Helper()
	out, err := ndview.ToHost[T](nd)
	require.NoError(t, err)
	return out
}

// sharedData returns a folder of files that other implementations wrote. It skips the
// test if the folder is missing, except in CI.
func sharedData(t *testing.T, path ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{"..", "..", "shared", "data"}, path...)...)
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return dir
}
