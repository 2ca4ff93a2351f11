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
	want := []int32{1, 5, 300, 7, -2, 9}
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
		t.Run(fmt.Sprintf("%s %s", c.order, c.filters), func(t *testing.T) {
			of := element.Of(ndview.Int32)
			v2 := codec.V2{Order: "C", Endian: c.order, Filters: json.RawMessage(c.filters)}
			list, err := v2.List(of, 1)
			require.NoError(t, err)
			var raw []byte
			for _, x := range want {
				raw = binary.LittleEndian.AppendUint32(raw, uint32(x))
			}
			enc, dec := throughChain(t, list, of, raw, int64(len(want)))
			assert.Equal(t, raw, dec)
			assert.Equal(t, c.encoded, hex.EncodeToString(enc))
			back, err := list.V2(1)
			require.NoError(t, err)
			assert.Equal(t, c.order, back.Endian)
			again, err := back.List(of, 1)
			require.NoError(t, err)
			assert.Equal(t, list, again)
		})
	}
	_, err := codec.V2{Order: "C", Endian: codec.Little, Filters: []byte(`[{"id":"delta","dtype":">i8"}]`)}.List(element.Of(ndview.Int32), 1)
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
