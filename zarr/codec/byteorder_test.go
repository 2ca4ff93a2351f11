package codec_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// zarr-python 3.4 stores [1, 5, 300, 7, -2, 9] as these chunks of Zarr v2.
func TestFiltersReinterpretElementsOfAnotherByteOrder(t *testing.T) {
	for _, c := range []struct {
		order            codec.Endian
		filters, encoded string
	}{
		{codec.Little, `[{"id":"delta","dtype":">i4"}]`, "010000000400000027010000daff0000f7ffffff0a000001"},
		{codec.Little, `[{"id":"delta","dtype":"<i4","astype":">i4"}]`, "000000010000000400000127fffffedbfffffff70000000b"},
		{codec.Little, `[{"id":"delta","dtype":">i4","astype":"<i4"}]`, "0000000100000004000001270000ffdafffffff70100000a"},
		{codec.Big, `[{"id":"delta","dtype":"<i4"}]`, "0000000100000004000001270000ffdafffffff70100000a"},
		{codec.Little, `[{"id":"astype","encode_dtype":">i8","decode_dtype":"<i4"}]`, "00000000000000010000000000000005000000000000012c0000000000000007fffffffffffffffe0000000000000009"},
		{codec.Big, `[{"id":"delta","dtype":"|u1"}]`, "00000001ff000005fb00012bd4000007f80000ff02000009"},
		{codec.Big, `[{"id":"delta","dtype":"<i8"}]`, "00000001000000050000012b00000002fffffed200000002"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.order, c.filters), func(t *testing.T) { checkFilters(t, c.order, c.filters, c.encoded) })
	}
}

// numcodecs stores the same elements so.
func TestFiltersOfNumbersTakeBytesForElements(t *testing.T) {
	for _, c := range []struct {
		order            codec.Endian
		filters, encoded string
	}{
		{codec.Little, `[{"id":"shuffle","elementsize":4},{"id":"delta","dtype":"<i4","astype":"<i4"}]`,
			"01052c07fd04d4f803f6fe00ffff00ffff00000001fffe00"},
		{codec.Little, `[{"id":"shuffle","elementsize":4},{"id":"delta","dtype":">i2","astype":">i2"}]`,
			"01052b02d20201f70100fe0001000000ff0001000000ff00"},
		{codec.Little, `[{"id":"shuffle","elementsize":4},{"id":"delta","dtype":">i4","astype":"<i8"}]`,
			"072c050100000000f9d303fdffffffff00fff702000000000001fffeffffffff000000ffffffffff00ff000100000000"},
		{codec.Big, `[{"id":"shuffle","elementsize":4},{"id":"astype","encode_dtype":">i8","decode_dtype":"<u2"}]`,
			"0000000000000000000000000000000000000000000000ff0000000000000000000000000000000000000000000000ff0000000000000000000000000000000100000000000000ff0000000000000501000000000000072c00000000000009fe"},
		{codec.Big, `[{"id":"adler32"},{"id":"fixedscaleoffset","scale":1,"offset":1,"dtype":"|u1","astype":"<i2"}]`,
			"3e000300f4001b00ff00ff00ff000000ff00ff00ff000400ff00ff0000002b00ff00ff00ff000600fe00fe00fe00fd00ff00ff00ff000800"},
		{codec.Little, `[{"id":"delta","dtype":"<i4","astype":"<i4"},{"id":"crc32"},{"id":"delta","dtype":"|u1","astype":"|u1"},{"id":"shuffle","elementsize":2},{"id":"delta","dtype":"<i4","astype":"<i4"}]`,
			"4bf80200b90724ffd701d10131fe6260f300a19fdbff26ff2effd100"},
		{codec.Little, `[{"id":"delta","dtype":">i8","astype":">i8"}]`,
			"01000000050000002b01000002000000d2feffff02000000"},
		{codec.Big, `[{"id":"astype","encode_dtype":">i4","decode_dtype":"<i2"},{"id":"delta","dtype":"<i8","astype":"<i8"}]`,
			"000000000000010000000000000004000000000000002701000000000000dbfefffffffffffff7ff0100000000000a00"},
		{codec.Little, `[{"id":"astype","encode_dtype":"<f4","decode_dtype":"<i4"},{"id":"shuffle","elementsize":4},{"id":"fixedscaleoffset","scale":1,"offset":0,"dtype":"|u1","astype":"<f2"}]`,
			"00000000000000000000000000000000000000000000000000580059b058005b0000004ce053005430540054005a1054"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.order, c.filters), func(t *testing.T) { checkFilters(t, c.order, c.filters, c.encoded) })
	}
}

// checkFilters checks that [1, 5, 300, 7, -2, 9] as int32 has an encoding.
func checkFilters(t *testing.T, order codec.Endian, filters, encoded string) {
	t.Helper()
	of := element.Of(ndview.Int32)
	list, err := codec.V2{Order: "C", Endian: order, Filters: json.RawMessage(filters)}.List(of, 1)
	require.NoError(t, err)
	var raw []byte
	for _, x := range []int32{1, 5, 300, 7, -2, 9} {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(x))
	}
	enc, dec := throughChain(t, list, of, raw, 6)
	assert.Equal(t, raw, dec)
	assert.Equal(t, encoded, hex.EncodeToString(enc))
	back, err := list.V2(1)
	require.NoError(t, err)
	assert.Equal(t, order, back.Endian)
	again, err := back.List(of, 1)
	require.NoError(t, err)
	assert.Equal(t, list, again)
}

// numcodecs takes the bytes of such elements for one number, which has another byte order.
func TestFiltersReinterpretComplexNumbersAndText(t *testing.T) {
	for _, c := range []struct {
		of                    element.Type
		order                 codec.Endian
		dtype, native, stored string
	}{
		{element.Of(ndview.Complex64), codec.Little, ">i8", "0000803f0000004000004040000080bf", "0000803f00000040ffffc0010000807f"},
		{element.Of(ndview.Complex64), codec.Big, "<i8", "0000803f0000004000004040000080bf", "3f8000004000000001c0ffff7e800000"},
		{element.NullTerminated(4), "", ">i4", "616200006162636478000000", "6162000000006364169d9c9c"},
		{element.UTF32(2), codec.Little, ">u8", "6100000062000000e9000000e5650000", "61000000620000008800000083650000"},
		{element.UTF32(1), codec.Big, "<i4", "62000000e5650000", "0000006200006583"},
	} {
		list, err := codec.V2{Order: "C", Endian: c.order, Filters: json.RawMessage(`[{"id":"delta","dtype":"` + c.dtype + `"}]`)}.List(c.of, 1)
		require.NoError(t, err)
		raw, err := hex.DecodeString(c.native)
		require.NoError(t, err)
		enc, dec := throughChain(t, list, c.of, raw, int64(len(raw))/c.of.Size())
		assert.Equal(t, c.stored, hex.EncodeToString(enc), "%s %s", c.of, c.dtype)
		assert.Equal(t, raw, dec, "%s %s", c.of, c.dtype)
	}
}

func TestFiltersOfNumbersRefuseOtherBytes(t *testing.T) {
	of := element.Of(ndview.Int32)
	list, err := codec.V2{Order: "C", Endian: codec.Little, Filters: []byte(`[{"id":"shuffle","elementsize":4},{"id":"delta","dtype":"<i4","astype":"<i8"}]`)}.List(of, 1)
	require.NoError(t, err)
	back, err := list.V2(1)
	require.NoError(t, err)
	assert.Empty(t, back.Compressor, "a filter is no compressor")
	chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{2}, Fill: of.DefaultFill()})
	require.NoError(t, err)
	for _, n := range []int{0, 8, 15, 17, 24} {
		_, err := decode(chain, 8, make([]byte, n))
		assert.Error(t, err, "%d bytes", n)
	}
	odd, err := codec.V2{Order: "C", Endian: codec.Little, Filters: []byte(`[{"id":"crc32"},{"id":"delta","dtype":"<i8"}]`)}.List(of, 1)
	require.NoError(t, err)
	chain, err = odd.Compile(codec.ChunkSpec{Type: of, Shape: []int64{2}, Fill: of.DefaultFill()})
	require.NoError(t, err)
	_, err = chain.Encode(new(codec.Scratch), values(t, of, []byte{1, 2, 3, 4, 5, 6, 7, 8}, []int64{2}))
	assert.ErrorContains(t, err, "12 bytes are no elements of int64")
	_, err = list.V3(codec.ChunkSpec{Type: of, Shape: []int64{2}, Fill: of.DefaultFill()})
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = json.Marshal(list)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}

// throughChain encodes and decodes a chunk.
func throughChain(t *testing.T, list codec.List, of element.Type, raw []byte, shape ...int64) (encoded, decoded []byte) {
	t.Helper()
	chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: shape, Fill: of.DefaultFill()})
	require.NoError(t, err)
	encoded = encodeKept(t, chain, values(t, of, raw, shape))
	decoded, err = decode(chain, len(raw), encoded)
	require.NoError(t, err)
	return encoded, decoded
}

func TestByteOrdersOfFiltersInZarrV3(t *testing.T) {
	var list codec.List
	require.NoError(t, json.Unmarshal([]byte(`[{"name":"numcodecs.delta","configuration":{"dtype":"<i4","astype":">i4"}},{"name":"bytes","configuration":{"endian":"little"}}]`), &list))
	raw := []byte{1, 0, 0, 0, 5, 0, 0, 0}
	enc, dec := throughChain(t, list, element.Of(ndview.Int32), raw, 2)
	assert.Equal(t, []byte{1, 0, 0, 0, 4, 0, 0, 0}, enc, "zarr-python stores the order of codec bytes")
	assert.Equal(t, raw, dec)
	err := json.Unmarshal([]byte(`[{"name":"numcodecs.delta","configuration":{"dtype":">i4"}}]`), &list)
	assert.ErrorIs(t, err, errors.ErrUnsupported)

	reordered, err := codec.V2{Order: "C", Endian: codec.Little, Filters: []byte(`[{"id":"delta","dtype":">i4"}]`)}.List(element.Of(ndview.Int32), 1)
	require.NoError(t, err)
	_, err = json.Marshal(reordered)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}

// zarr-python 3.4 reads other elements, or none, from arrays of Zarr v3 with other filters.
func TestOnlyFiltersOfTheirElementsAreOfZarrV3(t *testing.T) {
	for _, c := range []struct {
		of     ndview.DType
		filter string
		ok     bool
	}{
		{ndview.Int32, `{"id":"delta","dtype":"<i4"}`, true}, {ndview.Int32, `{"id":"delta","dtype":"<u4","astype":"|i1"}`, true}, {ndview.Datetime64(ndview.Second, 1), `{"id":"delta","dtype":"<i8"}`, true},
		{ndview.Bool, `{"id":"packbits"},{"id":"delta","dtype":"|u1"}`, true}, {ndview.Float64, `{"id":"astype","encode_dtype":"<f4","decode_dtype":"<f8"},{"id":"delta","dtype":"<f4"}`, true},
		{ndview.Int32, `{"id":"delta","dtype":"<i2"}`, false}, {ndview.Float32, `{"id":"delta","dtype":"<u4"}`, false}, {ndview.Complex64, `{"id":"delta","dtype":"<i8"}`, false},
		{ndview.Int32, `{"id":"delta","dtype":"<f4"}`, false}, {ndview.Bool, `{"id":"delta","dtype":"|u1"}`, false}, {ndview.Bytes(4), `{"id":"delta","dtype":"<u4"}`, false},
		{ndview.Float64, `{"id":"astype","encode_dtype":"<f4","decode_dtype":"<f8"},{"id":"delta","dtype":"<i4"}`, false},
	} {
		of := element.Of(c.of)
		list, err := codec.V2{Order: "C", Endian: codec.Little, Filters: json.RawMessage("[" + c.filter + "]")}.List(of, 1)
		require.NoError(t, err)
		_, err = list.V3(codec.ChunkSpec{Type: of, Shape: []int64{4}, Fill: of.DefaultFill()})
		assert.Equal(t, c.ok, err == nil, "%s of %s: %v", c.filter, of, err)
		if !c.ok {
			assert.ErrorIs(t, err, errors.ErrUnsupported)
		}
	}
}
