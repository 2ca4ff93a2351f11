package zarr_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/require"
)

// benchmarkRows is 256 MiB of int64, in chunks of 1 Mi elements.
const benchmarkRows, benchmarkChunk = 32 << 20, 1 << 20

// benchmarkValues returns values of about 14 bits of entropy, like counts and delays.
func benchmarkValues(b *testing.B) *ndview.NDBuffer {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]int64, benchmarkRows)
	for i := range data {
		data[i] = int64(random.Uint32() % 20000)
	}
	nd, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int64, data, benchmarkRows)
	require.NoError(b, err)
	b.Cleanup(nd.Release)
	return nd
}

func BenchmarkWriteAndRead(b *testing.B) {
	nd, of := benchmarkValues(b), element.Of(ndview.Int64)
	for name, then := range map[string]codec.List{"none": nil, "zstd1": {codec.Zstd{Level: 1}}, "gzip1": {codec.Gzip{Level: 1}}} {
		s := store.NewLocal(b.TempDir(), store.InPlace())
		a, err := zarr.Create(ctx, s, "a", &zarr.ArrayMetadata{Shape: []int64{benchmarkRows}, DataType: of,
			ChunkShape: []int64{benchmarkChunk}, Codecs: zarr.DefaultCodecs(of, then...)})
		require.NoError(b, err)
		b.Run(fmt.Sprint("write ", name), func(b *testing.B) {
			b.SetBytes(nd.NBytes())
			for b.Loop() {
				require.NoError(b, a.Write(ctx, nd, 0))
			}
		})
		b.Run(fmt.Sprint("read ", name), func(b *testing.B) {
			b.SetBytes(nd.NBytes())
			for b.Loop() {
				v, err := a.Read(ctx, zarr.Prototype{}, 0)
				require.NoError(b, err)
				v.Release()
			}
		})
	}
}
