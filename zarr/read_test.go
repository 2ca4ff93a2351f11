package zarr_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// geometry is the shape of an array, of its chunks, and of inner chunks if sharded.
type geometry struct{ shape, chunk, inner []int64 }

var geometries = []geometry{
	{[]int64{}, []int64{}, []int64{}},
	{[]int64{0}, []int64{4}, []int64{2}},
	{[]int64{1}, []int64{1}, []int64{1}},
	{[]int64{23}, []int64{6}, []int64{3}},
	{[]int64{24}, []int64{24}, []int64{4}},
	{[]int64{5}, []int64{8}, []int64{2}},
	{[]int64{3, 0}, []int64{2, 2}, []int64{1, 2}},
	{[]int64{7, 5}, []int64{4, 2}, []int64{2, 1}},
	{[]int64{6, 5}, []int64{2, 5}, []int64{1, 5}},
	{[]int64{4, 7, 3}, []int64{2, 4, 3}, []int64{1, 2, 3}},
	{[]int64{2, 1, 3, 2}, []int64{1, 1, 2, 2}, []int64{1, 1, 1, 1}},
}

// fixedTypes are types of every layout.
var fixedTypes = func() []element.Type {
	types := []element.Type{element.Int2, element.Uint4, element.Float6E3M2FN, element.Float8E5M2, element.Complex(element.Of(ndview.BFloat16)),
		element.Complex(element.Float4E2M1FN), element.RawBytes(5), element.UTF32(3), element.NullTerminated(3)}
	for _, t := range []ndview.DType{ndview.Bool, ndview.Int8, ndview.Uint16, ndview.Float16, ndview.BFloat16, ndview.Int32,
		ndview.Float64, ndview.Complex64, ndview.Complex128, ndview.Datetime64("ms", 25), ndview.Timedelta64("D", 1), ndview.Bytes(3)} {
		types = append(types, element.Of(t))
	}
	inner, err := element.Struct(element.Field{Name: "flag", Type: element.Of(ndview.Bool)}, element.Field{Name: "z", Type: element.Of(ndview.Complex64)})
	if err != nil {
		panic(err)
	}
	outer, err := element.Struct(element.Field{Name: "nibble", Type: element.Int4}, element.Field{Name: "inner", Type: inner},
		element.Field{Name: "text", Type: element.UTF32(2)}, element.Field{Name: "n", Type: element.Of(ndview.Uint16)})
	if err != nil {
		panic(err)
	}
	return append(types, inner, outer)
}()

// someFill returns a fill value that metadata can hold, with few zeros.
func someFill(t *testing.T, of element.Type) []byte {
	t.Helper()
	if of.IsStruct() {
		var fill []byte
		for _, f := range of.Fields() {
			fill = append(fill, someFill(t, f.Type)...)
		}
		return fill
	}
	if of.String() == "fixed_length_utf32" {
		return bytes.Repeat([]byte{1, 1, 0, 0}, int(of.Size()/4))
	}
	return bytes.Repeat([]byte{1}, int(of.Size()))
}

// chains returns codec lists for any element type; first is its array-to-bytes codec.
func chains(first codec.Codec, g geometry) map[string]codec.List {
	reversed := make([]int, len(g.shape))
	for i := range reversed {
		reversed[i] = len(reversed) - 1 - i
	}
	rotated := append(slices.Clone(reversed[min(1, len(reversed)):]), reversed[:min(1, len(reversed))]...)
	ones := slices.Repeat([]int64{1}, len(g.shape))
	shard := codec.Sharding{ChunkShape: g.inner, Codecs: codec.List{first, codec.Zstd{Level: 1}}}
	atStart := shard
	atStart.IndexLocation = codec.Start
	nested := codec.Sharding{ChunkShape: g.inner, IndexLocation: codec.Start, IndexCodecs: codec.List{codec.Bytes{Endian: codec.Big}},
		Codecs: codec.List{codec.Sharding{ChunkShape: ones, Codecs: codec.List{first, codec.CRC32C{}}}}}
	moved := shard
	moved.Codecs = codec.List{codec.Transpose{Order: reversed}, first, codec.Gzip{Level: 1}}
	return map[string]codec.List{
		"plain":               {first},
		"zstd":                {first, codec.Zstd{Level: 3, Checksum: true}},
		"gzip":                {first, codec.Gzip{Level: 6}},
		"crc32c":              {first, codec.CRC32C{}},
		"zstd, gzip, crc32c":  {first, codec.Zstd{Level: -5}, codec.Gzip{}, codec.CRC32C{}},
		"crc32c, zstd":        {first, codec.CRC32C{}, codec.Zstd{Level: 1}},
		"transpose":           {codec.Transpose{Order: reversed}, first},
		"transpose twice":     {codec.Transpose{Order: rotated}, codec.Transpose{Order: reversed}, first, codec.Zstd{}},
		"sharded":             {shard},
		"index at the start":  {atStart},
		"nested shards":       {nested},
		"transpose in shards": {moved},
		"shards, then gzip":   {shard, codec.Gzip{Level: 1}},
	}
}

func TestArraysOfEveryTypeRoundTrip(t *testing.T) {
	for _, g := range geometries {
		for _, of := range fixedTypes {
			for _, endian := range []codec.Endian{codec.Little, codec.Big} {
				codecs := codec.List{codec.Bytes{Endian: endian}, codec.Zstd{Level: 1}}
				t.Run(fmt.Sprintf("%v %s %s", g.shape, of, endian), func(t *testing.T) {
					roundTrip(t, arrowbuf.CPU(), of, g, codecs)
				})
			}
		}
	}
}

func TestArraysOfEveryCodecRoundTrip(t *testing.T) {
	for _, g := range geometries {
		for name, codecs := range chains(codec.Bytes{Endian: codec.Little}, g) {
			t.Run(fmt.Sprintf("%v %s", g.shape, name), func(t *testing.T) {
				roundTrip(t, arrowbuf.CPU(), element.Of(ndview.Int32), g, codecs)
			})
		}
	}
}

func TestDeviceArraysRoundTrip(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, g := range geometries {
			for name, codecs := range chains(codec.Bytes{Endian: codec.Little}, g) {
				t.Run(fmt.Sprintf("%v %s", g.shape, name), func(t *testing.T) {
					roundTrip(t, dev, element.Of(ndview.Int32), g, codecs)
				})
			}
		}
	})
}

// roundTrip writes an array of random elements, some chunks of which equal the fill
// value. It opens the array again and compares everything that can be read.
func roundTrip(t *testing.T, dev arrowbuf.Device, of element.Type, g geometry, codecs codec.List) {
	t.Helper()
	dtype, _ := of.DType()
	shape := g.shape
	s := store.NewMemory()
	meta := &zarr.ArrayMetadata{Shape: shape, DataType: of, ChunkShape: g.chunk, Codecs: codecs, FillValue: someFill(t, of)}
	a, err := zarr.Create(ctx, s, "group/array", meta)
	require.NoError(t, err)
	want := randomElements(shape, g.chunk, meta.FillValue)
	of.Normalize(want)
	v := onDevice(t, dev, dtype, want, shape)
	require.NoError(t, a.Write(ctx, v, 3))

	a, err = zarr.Open(ctx, s, "group/array")
	require.NoError(t, err)
	got, err := a.Read(ctx, zarr.PrototypeOn(dev), 3)
	require.NoError(t, err)
	defer got.Release()
	assert.Equal(t, shape, got.Shape())
	assert.Equal(t, dev, got.(*ndview.NDBuffer).Device())
	assert.Equal(t, want, bytesOf(t, got))
	if len(shape) == 0 {
		return
	}
	row := int64(len(want)) / max(shape[0], 1)
	for start := range shape[0] + 1 {
		for stop := start; stop <= shape[0]; stop += 2 {
			rows, err := a.ReadRows(ctx, zarr.PrototypeOn(dev), start, stop, 2)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want[start*row:stop*row], bytesOf(t, rows)), "rows %d to %d", start, stop)
			rows.Release()
		}
	}
}

func TestArraysOfStringsRoundTrip(t *testing.T) {
	for _, g := range geometries {
		for name, codecs := range chains(codec.VLenUTF8{}, g) {
			t.Run(fmt.Sprintf("%v %s", g.shape, name), func(t *testing.T) { roundTripStrings(t, g, codecs) })
		}
	}
}

func roundTripStrings(t *testing.T, g geometry, codecs codec.List) {
	t.Helper()
	s := store.NewMemory()
	a, err := zarr.Create(ctx, s, "", &zarr.ArrayMetadata{Shape: g.shape, DataType: element.String, ChunkShape: g.chunk,
		Codecs: codecs, FillValue: []byte("né")})
	require.NoError(t, err)
	want := []string{}
	for i, e := range randomElements(g.shape, g.chunk, []byte{1}) {
		want = append(want, []string{"", "né", fmt.Sprint("string ", i)}[e])
	}
	v, err := element.PackVLen(want, g.shape...)
	require.NoError(t, err)
	// The same strings with 64-bit offsets that do not begin at 0.
	narrow, _ := v.Offsets()
	moved := make([]int64, len(narrow))
	for i, o := range narrow {
		moved[i] = int64(o) + 5
	}
	wide, err := element.NewVLen(moved, append([]byte("12345"), v.Data()...), g.shape...)
	require.NoError(t, err)

	for _, v := range []*element.VLen{v, wide} {
		require.NoError(t, a.Write(ctx, v, 2))
		assert.Equal(t, want, readAs(t, a, want))
		if len(g.shape) > 0 && g.shape[0] > 2 {
			rows, err := a.ReadRows(ctx, zarr.Prototype{}, 1, 3, 1)
			require.NoError(t, err)
			row := int64(len(want)) / g.shape[0]
			got := []string{}
			for _, e := range rows.(*element.VLen).Elements() {
				got = append(got, string(e))
			}
			assert.Equal(t, want[row:3*row], got)
		}
	}
}

func TestReadAllocatesFromPrototype(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := store.NewMemory()
		meta := ints([]int64{3, 2}, []int64{2, 2})
		meta.FillValue = []byte{9, 0, 0, 0}
		a := create(t, s, "a", meta)
		require.NoError(t, a.Write(ctx, values(t, ndview.Int32, []int32{1, 2, 3, 4, 5, 6}, 3, 2), 1))
		// Alternating prototypes must not affect each other.
		for _, to := range []zarr.Prototype{{}, zarr.PrototypeOn(dev), {}, zarr.PrototypeOn(dev)} {
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
				assert.Equal(t, to, zarr.PrototypeOn(nd.Device()), c.name)
				assert.Equal(t, c.want, host[int32](t, nd), "%s to %s", c.name, to)
				v.Release()
			}
		}
	})
}

func TestStringsAreReadToHostForAnyPrototype(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "", &zarr.ArrayMetadata{Shape: []int64{2}, DataType: element.String, ChunkShape: []int64{2}, Codecs: zarr.DefaultCodecs(element.String)})
		v, err := element.PackVLen([]string{"a", "né"}, 2)
		require.NoError(t, err)
		require.NoError(t, a.Write(ctx, v, 1))
		got, err := a.Read(ctx, zarr.PrototypeOn(dev), 1)
		require.NoError(t, err)
		assert.Equal(t, [][]byte{[]byte("a"), []byte("né")}, got.(*element.VLen).Elements())
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestReadOutOfMemoryNamesArray(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "delays", ints([]int64{1 << 58}, []int64{1 << 20}))
		for _, to := range []zarr.Prototype{{}, zarr.PrototypeOn(dev)} {
			_, err := a.Read(ctx, to, 1)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, to)
			assert.ErrorContains(t, err, `"delays"`, to)
		}
	})
}

// Metadata can claim more than any memory holds. Opening or reading such an array must
// return an error.
func TestOversizedChunksInMetadataAreErrors(t *testing.T) {
	const array = `{"zarr_format":3,"node_type":"array","shape":[%d],"data_type":%q,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[%d]}},
		"chunk_key_encoding":{"name":"default"},"fill_value":%s,"codecs":[%s],"attributes":{}}`
	const bytes, text = `{"name":"bytes","configuration":{"endian":"little"}}`, `{"name":"vlen-utf8"}`
	shard := func(inner int64, codecs, index string) string {
		return fmt.Sprintf(`{"name":"sharding_indexed","configuration":{"chunk_shape":[%d],"codecs":[%s],"index_codecs":[%s],"index_location":"end"}}`, inner, codecs, index)
	}
	inside := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte("abcd"), 0), 4)
	for name, c := range map[string]struct {
		metadata string
		chunk    []byte
	}{
		"a chunk":                  {fmt.Sprintf(array, 10, "int64", int64(1)<<40, "0", bytes), make([]byte, 80)},
		"a larger chunk":           {fmt.Sprintf(array, 10, "int64", int64(1)<<59, "0", bytes), make([]byte, 80)},
		"a shard of many":          {fmt.Sprintf(array, 10, "int64", int64(1)<<40, "0", shard(1, bytes, bytes)), make([]byte, 100)},
		"a shard of more":          {fmt.Sprintf(array, 10, "int64", int64(1)<<58, "0", shard(1, bytes, bytes)), make([]byte, 100)},
		"an array of text":         {fmt.Sprintf(array, int64(1)<<40, "string", 10, `""`, text), nil},
		"a larger array of text":   {fmt.Sprintf(array, int64(1)<<58, "string", 10, `""`, text), nil},
		"a shard of text in one":   {fmt.Sprintf(array, 10, "string", int64(1)<<50, `""`, shard(1<<50, shard(1<<30, text, bytes), bytes)), inside},
		"a shard of text, checked": {fmt.Sprintf(array, 10, "string", int64(1)<<58, `""`, shard(1<<30, text, bytes)+`,{"name":"crc32c"}`), make([]byte, 100)},
	} {
		s := store.NewMemory()
		require.NoError(t, s.Set(t.Context(), "zarr.json", []byte(c.metadata)))
		if c.chunk != nil {
			require.NoError(t, s.Set(t.Context(), "c/0", c.chunk))
		}
		a, err := zarr.Open(t.Context(), s, "")
		if err == nil {
			_, err = a.Read(t.Context(), zarr.Prototype{}, 2)
		}
		assert.Error(t, err, name)
	}
}

func TestDeviceArraysOfEveryTypeRoundTrip(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		g := geometry{[]int64{7, 5}, []int64{4, 2}, []int64{2, 1}}
		for _, of := range fixedTypes {
			t.Run(of.String(), func(t *testing.T) {
				roundTrip(t, dev, of, g, codec.List{codec.Bytes{Endian: codec.Big}, codec.Zstd{Level: 1}})
			})
		}
	})
}
