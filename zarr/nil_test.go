package zarr_test

import (
	"log/slog"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/codec/pcodec"
	"github.com/quiver-gpu/quiver/zarr/codec/zfpy"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
	"github.com/quiver-gpu/quiver/zarr/store/httpstore"
)

// Each exported function of the public packages below zarr takes nil without a panic, and
// returns an error for it.
func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	for folder, zeros := range map[string]func(*testing.T) apitest.Zeros{
		".": zerosOfZarr, "element": zerosOfElement, "codec": zerosOfCodec, "store": zerosOfStore,
		"codec/pcodec": func(*testing.T) apitest.Zeros {
			return apitest.Zeros{Functions: map[string]any{"Default": nil}, Values: map[string]any{"Codec": pcodec.Default()}}
		},
		"codec/zfpy": func(*testing.T) apitest.Zeros {
			return apitest.Zeros{Functions: map[string]any{"Lossless": nil}, Values: map[string]any{"Codec": zfpy.Lossless(), "ZFP": zfpy.ZFP{Mode: zfpy.ModeReversible}}}
		},
		"store/blobstore": func(t *testing.T) apitest.Zeros {
			s, err := blobstore.New(memblob.OpenBucket(nil), "mem://", blobstore.Native{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return apitest.Zeros{
				Functions: map[string]any{"New": blobstore.New, "Open": blobstore.Open},
				Values:    map[string]any{"Store": s}, Skip: []string{"Close"}, Optional: []string{"Open"}, // without requests of its own
				Args: []any{&url.URL{Scheme: "mem"}},
			}
		},
		"store/httpstore": func(t *testing.T) apitest.Zeros {
			server := httptest.NewServer(nil)
			t.Cleanup(server.Close)
			s, err := httpstore.New(server.URL, httpstore.Options{})
			require.NoError(t, err)
			return apitest.Zeros{Functions: map[string]any{"New": httpstore.New}, Values: map[string]any{"Store": s}}
		},
		"store/storetest": func(*testing.T) apitest.Zeros {
			// These are tests, and fail with the test that calls them.
			return apitest.Zeros{Functions: map[string]any{"Test": nil, "TestModel": nil, "TestReadOnly": nil}}
		},
	} {
		t.Run(folder, func(t *testing.T) { zeros(t).Run(t, filepath.FromSlash(folder)) })
	}
}

func zerosOfZarr(t *testing.T) apitest.Zeros {
	s := store.NewMemory()
	array := create(t, s, "array", sharded([]int64{4}, []int64{4}, []int64{2}))
	group, err := zarr.CreateGroup(ctx, s, "group", &zarr.GroupMetadata{})
	require.NoError(t, err)
	view, err := array.View(zarr.Select())
	require.NoError(t, err)
	shard, err := array.NewShardWriter(ctx, []int64{0})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, shard.Abort()) })
	info, err := array.Info(ctx)
	require.NoError(t, err)
	groupInfo, err := group.Info(ctx)
	require.NoError(t, err)
	buffer, err := zarr.BufferFromBytes(arrowbuf.CPU(), []byte("live"))
	require.NoError(t, err)
	t.Cleanup(buffer.Release)
	return apitest.Zeros{
		Functions: map[string]any{
			"At": zarr.At, "AutoChunks": zarr.AutoChunks, "AutoShards": zarr.AutoShards, "AutoShardsOf": zarr.AutoShardsOf, "Blocks": zarr.Blocks, "BufferFromBytes": zarr.BufferFromBytes,
			"BufferFromArray": zarr.BufferFromArray, "BufferFromMemory": zarr.BufferFromMemory, "CheckName": zarr.CheckName, "Create": zarr.Create, "CreateGroup": zarr.CreateGroup,
			"CreateHierarchy": zarr.CreateHierarchy, "DefaultCodecs": zarr.DefaultCodecs, "List": zarr.List, "Mask": zarr.Mask, "MigrateToV3": zarr.MigrateToV3, "New": zarr.New,
			"Open": zarr.Open, "OpenGroup": zarr.OpenGroup, "OpenGroupMode": zarr.OpenGroupMode, "OpenMode": zarr.OpenMode, "ParseArray": zarr.ParseArray,
			"ParseGroup": zarr.ParseGroup, "ParseNode": zarr.ParseNode, "ParseSelection": zarr.ParseSelection, "Points": zarr.Points,
			"PrototypeOn": zarr.PrototypeOn, "ReadNode": zarr.ReadNode, "RemoveMetadata": zarr.RemoveMetadata, "Select": zarr.Select, "Span": zarr.Span, "SpanStep": zarr.SpanStep, "Where": zarr.Where, "WriteChunks": nil, "WriteNode": zarr.WriteNode,
		},
		Values: map[string]any{
			"Array": array, "ArrayMetadata": ints([]int64{4}, []int64{2}), "Buffer": buffer, "ChunkKeyEncoding": &zarr.ChunkKeyEncoding{}, "Group": group,
			"GroupInfo": groupInfo, "GroupMetadata": &zarr.GroupMetadata{}, "Info": info, "Prototype": zarr.Prototype{}, "Selection": zarr.Select(), "ShardWriter": shard,
			"UnreadableNode": &zarr.UnreadableNode{}, "View": view,
		},
		Args:     []any{s, values(t, ndview.Int32, []int32{1, 2}, 2), arrowbuf.CPU(), "x"},
		Optional: []string{"CreateGroup", "Group.CreateGroup", "OpenGroupMode"}, // nil metadata is empty
		Skip:     []string{"Retain", "Release", "Close", "Abort", "Memory"},     // Memory returns no reference
		Panics:   arrowbuf.ErrReleased,
	}
}

func zerosOfElement(t *testing.T) apitest.Zeros {
	text, err := element.PackVLen([]string{"live"})
	require.NoError(t, err)
	t.Cleanup(text.Release)
	return apitest.Zeros{
		Functions: map[string]any{
			"Complex": element.Complex, "NewVLen": element.NewVLen[int32], "NullTerminated": element.NullTerminated, "Of": element.Of,
			"PackItems": element.PackItems, "PackVLen": element.PackVLen[string], "ParseV2": element.ParseV2, "RawBytes": element.RawBytes, "Slice": element.Slice, "SliceBox": element.SliceBox,
			"Struct": element.Struct, "Transpose": element.Transpose, "UTF32": element.UTF32,
		},
		Values: map[string]any{"Type": element.Of(ndview.Int32), "VLen": text},
		Skip:   []string{"Retain", "Release"},
		Panics: arrowbuf.ErrReleased,
	}
}

func zerosOfCodec(t *testing.T) apitest.Zeros {
	of := element.Of(ndview.Int32)
	chain, err := codec.List{codec.Sharding{ChunkShape: []int64{2}, Codecs: zarr.DefaultCodecs(of)}}.Compile(codec.ChunkSpec{Type: of, Shape: []int64{4}, Fill: make([]byte, 4)})
	require.NoError(t, err)
	layout, ok := chain.ShardLayout()
	require.True(t, ok)
	return apitest.Zeros{
		Functions: map[string]any{"DecodeBatch": codec.DecodeBatch, "EncodeBatch": nil, "GetScratch": nil, "Register": codec.Register, "V2ObjectType": codec.V2ObjectType, "ZstdImplementation": nil},
		Values: map[string]any{
			"Adler32": codec.Adler32{}, "AsType": codec.AsType{}, "BZ2": codec.BZ2{}, "Base64": codec.Base64{}, "BitRound": codec.BitRound{}, "Blosc": codec.Blosc{},
			"Bytes": codec.Bytes{}, "CRC32": codec.CRC32{}, "CRC32C": codec.CRC32C{}, "CastValue": codec.CastValue{}, "Categorize": codec.Categorize{},
			"Chain": chain, "Delta": codec.Delta{}, "FixedScaleOffset": codec.FixedScaleOffset{}, "Fletcher32": codec.Fletcher32{}, "Gzip": codec.Gzip{}, "HostPieces": &codec.HostPieces{},
			"JSON2": codec.JSON2{}, "JenkinsLookup3": codec.JenkinsLookup3{}, "LZ4": codec.LZ4{}, "LZMA": codec.LZMA{}, "LZMAFilter": codec.LZMAFilter{}, "List": &codec.List{},
			"MsgPack2": codec.MsgPack2{}, "NumcodecsPackBits": codec.NumcodecsPackBits{}, "PackBits": codec.PackBits{}, "Quantize": codec.Quantize{},
			"Reshape": codec.Reshape{}, "ReshapeExtent": codec.ReshapeExtent{}, "ScaleOffset": codec.ScaleOffset{}, "Scratch": new(codec.Scratch),
			"ShardIndex": layout.NewIndex(), "ShardLayout": layout, "Sharding": codec.Sharding{}, "Shuffle": codec.Shuffle{}, "Squeeze": codec.Squeeze{}, "Stats": new(codec.Stats), "Transpose": codec.Transpose{},
			"V2": codec.V2{}, "VLenArray": codec.VLenArray{}, "VLenBytes": codec.VLenBytes{}, "VLenUTF8": codec.VLenUTF8{}, "Zlib": codec.Zlib{}, "Zstd": codec.Zstd{},
		},
		Args: []any{values(t, ndview.Int32, []int32{1, 2, 3, 4}, 4), "x"},
		Skip: []string{"Release", "Delete", "Get", "Set"}, // a ShardIndex is indexed like a slice
	}
}

func zerosOfStore(t *testing.T) apitest.Zeros {
	memory := store.NewMemory()
	cache, err := store.NewCache(memory, store.CacheOptions{MaxBytes: 1 << 20})
	require.NoError(t, err)
	device, err := store.NewDeviceMemory(arrowbuf.CPU())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	zip, err := store.OpenZip(filepath.Join(t.TempDir(), "x.zip"), store.ZipWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, zip.Close()) })
	return apitest.Zeros{
		Functions: map[string]any{
			"AsRangeReader": store.AsRangeReader, "TakesRoundTrips": store.TakesRoundTrips, "Between": store.Between, "CheckKey": store.CheckKey, "CheckPrefix": store.CheckPrefix, "Close": store.Close,
			"Copy": store.Copy, "Create": store.Create, "DeleteAll": store.DeleteAll, "Exists": store.Exists, "From": store.From, "GetRanges": store.GetRanges, "GetRangesVersion": store.GetRangesVersion,
			"InPlace": nil, "IsEmpty": store.IsEmpty, "Last": store.Last, "ListDir": store.ListDir, "Move": store.Move, "NewCache": store.NewCache,
			"NewDeviceMemory": store.NewDeviceMemory, "NewLocal": store.NewLocal, "NewLogging": store.NewLogging, "NewMemory": nil, "Open": store.Open,
			"OpenValue": store.OpenValue, "OpenZip": store.OpenZip, "ReadOnly": store.ReadOnly, "Register": nil, // panics, as database/sql's does
			"SetIfNotExists": store.SetIfNotExists, "Size": store.Size, "Sync": nil, "TotalSize": store.TotalSize, "Under": store.Under,
		},
		Values: map[string]any{
			"Cache": cache, "DeviceMemory": device, "Local": store.NewLocal(t.TempDir()), "Logging": store.NewLogging(memory, slog.Default()),
			"Memory": memory, "Range": store.Range{}, "Zip": zip,
		},
		Args:     []any{memory, "x"},
		Skip:     []string{"Close"},
		Optional: []string{"Close"}, // of nil does nothing
	}
}

func TestWrappersOfNilStoresReturnErrors(t *testing.T) {
	for _, s := range []store.Store{store.ReadOnly(nil), store.NewLogging(nil, nil)} {
		_, err := s.Get(ctx, "x", store.Range{})
		require.ErrorContains(t, err, "nil store")
		_, err = s.List(ctx, "")
		require.ErrorContains(t, err, "nil store")
		require.Error(t, s.Set(ctx, "x", nil))
		require.Error(t, s.Delete(ctx, "x"))
		_, err = zarr.Open(ctx, s, "x")
		require.ErrorContains(t, err, "nil store")
		require.NoError(t, store.Close(s))
	}
}
