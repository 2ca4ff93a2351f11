package codec_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVLenArrayMatchesNumcodecs(t *testing.T) {
	for _, c := range []struct{ dtype, hex string }{ // numcodecs of [1, 2], [], [3]
		{"<i4", "03000000080000000100000002000000000000000400000003000000"},
		{">i2", "0300000004000000000100020000000002000000 0003"},
		{"|b1", "0300000002000000010200000000010000 0003"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		require.NoError(t, err)
		dtype, _, err := ndview.ParseDType(c.dtype)
		require.NoError(t, err)
		list, err := codec.V2{Order: "C", Filters: json.RawMessage(`[{"id":"vlen-array","dtype":"` + c.dtype + `"}]`)}.List(element.Bytes, 1)
		require.NoError(t, err)
		require.Equal(t, codec.List{codec.VLenArray{DType: c.dtype}}, list)
		chain := compile(t, element.Bytes, []int64{3}, list...)

		v, err := decodeVLen(chain, want)
		require.NoError(t, err)
		items, offsets, err := v.Items(dtype)
		require.NoError(t, err)
		defer items.Release()
		assert.Equal(t, []int64{0, 2, 2, 3}, offsets)
		for i := range int64(3) {
			raw := make([]byte, dtype.Size())
			one, err := items.Slice(0, i, i+1)
			require.NoError(t, err)
			require.NoError(t, one.CopyToHost(raw))
			one.Release()
			assert.Equal(t, byte(i+1), raw[0], "little-endian")
		}
		packed, err := element.PackItems(items, offsets, 3)
		require.NoError(t, err)
		s := codec.GetScratch()
		got, err := chain.Encode(s, packed)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		s.Release()
	}
}

// numcodecs stores the arrays ["a", "bc"] and [] so.
func TestVLenArraysOfText(t *testing.T) {
	const padded = "61000000000000006200000063000000"
	for _, c := range []struct{ dtype, hex, want string }{
		{"<U2", "0200000010000000" + padded + "00000000", padded},
		{">U2", "02000000100000000000006100000000000000620000006300000000", padded},
		{"|S3", "020000000600000061000062630000000000", "610000626300"},
		{"|V3", "020000000600000061000062630000000000", "610000626300"},
	} {
		want, err := hex.DecodeString(c.hex)
		require.NoError(t, err)
		chain := compile(t, element.Bytes, []int64{2}, codec.VLenArray{DType: c.dtype})
		v, err := decodeVLen(chain, want)
		require.NoError(t, err)
		assert.Equal(t, c.want, hex.EncodeToString(v.At(0)), c.dtype)
		assert.Empty(t, v.At(1))
		s := codec.GetScratch()
		got, err := chain.Encode(s, v)
		require.NoError(t, err)
		assert.Equal(t, want, got, c.dtype)
		s.Release()
	}
}

func TestVLenArraysOfHalfItemsAreErrors(t *testing.T) {
	chain := compile(t, element.Bytes, []int64{1}, codec.VLenArray{DType: "<i4"})
	v, err := element.PackVLen([]string{"12345"}, 1)
	require.NoError(t, err)
	s := codec.GetScratch()
	defer s.Release()
	_, err = chain.Encode(s, v)
	assert.ErrorContains(t, err, "5 bytes, want a multiple of 4")
	_, err = decodeVLen(chain, []byte("\x01\x00\x00\x00\x02\x00\x00\x00ab"))
	assert.ErrorContains(t, err, "2 bytes, want a multiple of 4")
	_, _, err = v.Items(ndview.Int16)
	assert.ErrorContains(t, err, "5 bytes, want a multiple of 2")
	for _, dtype := range []string{"|O", "<U0", "[('a', '<i4')]", "x", ""} {
		_, err = codec.List{codec.VLenArray{DType: dtype}}.Compile(codec.ChunkSpec{Type: element.Bytes, Shape: []int64{1}})
		assert.ErrorContains(t, err, "vlen-array", dtype)
	}
	items, err := ndview.Empty(arrowbuf.CPU(), ndview.Int32, 2)
	require.NoError(t, err)
	defer items.Release()
	_, err = element.PackItems(items, []int64{0, 3}, 1)
	assert.ErrorContains(t, err, "offset 1 is 3")
	_, err = element.PackItems(items, []int64{0, 1}, 2)
	assert.Error(t, err)
}

func decodeVLen(chain *codec.Chain, enc []byte) (*element.VLen, error) {
	s := codec.GetScratch()
	defer s.Release()
	return chain.DecodeVLen(s, enc)
}
