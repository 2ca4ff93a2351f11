package codec_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numcodecs encodes these elements so.
func TestFiltersOfIntegersBoolsAndComplexNumbers(t *testing.T) {
	const complexes, floats = "0000c03f000000c00000000000000000caf249710000803f", "0000803f0000000000002040"
	bools, complex64s, float32s := element.Of(ndview.Bool), element.Of(ndview.Complex64), element.Of(ndview.Float32)
	for _, c := range []struct {
		of        element.Type
		filter    codec.ArrayCodec
		raw, want string
	}{
		{bools, codec.AsType{EncodeDType: "|u1", DecodeDType: "|b1"}, "010001", "010001"},
		{bools, codec.AsType{EncodeDType: "<i4", DecodeDType: "?"}, "010001", "010000000000000001000000"},
		{element.Of(ndview.Uint16), codec.AsType{EncodeDType: "|i1", DecodeDType: "<u2"}, "ffff030080ff", "ff0380"},
		{element.Of(ndview.Int32), codec.AsType{EncodeDType: "<u4", DecodeDType: "<i4"}, "ffffffff0500000000000080", "ffffffff0500000000000080"},
		{bools, codec.AsType{EncodeDType: "<f8", DecodeDType: "|b1"}, "010001", "000000000000f03f0000000000000000000000000000f03f"},
		{bools, codec.AsType{EncodeDType: "<c8", DecodeDType: "|b1"}, "010001", "0000803f0000000000000000000000000000803f00000000"},
		{complex64s, codec.AsType{EncodeDType: "<c16", DecodeDType: "<c8"}, complexes, "000000000000f83f00000000000000c00000000000000000000000000000000000000040593e2946000000000000f03f"},
		{float32s, codec.AsType{EncodeDType: "<c16", DecodeDType: "<f4"}, floats, "000000000000f03f00000000000000000000000000000000000000000000000000000000000004400000000000000000"},
		{complex64s, codec.Delta{DType: "<c8"}, complexes, "0000c03f000000c00000c0bf00000040caf249710000803f"},
		{complex64s, codec.Delta{DType: "<c8", AsType: "<c16"}, complexes, "000000000000f83f00000000000000c0000000000000f8bf000000000000004000000040593e2946000000000000f03f"},
	} {
		raw, err := hex.DecodeString(c.raw)
		require.NoError(t, err)
		enc, dec := throughChain(t, codec.List{c.filter, little}, c.of, raw, 3)
		assert.Equal(t, c.want, hex.EncodeToString(enc), "%+v", c.filter)
		assert.Equal(t, raw, dec, "%+v", c.filter)
	}
}

// numcodecs decodes what other writers may have stored as NumPy casts it.
func TestStoredElementsAreCastAsInNumPy(t *testing.T) {
	for _, c := range []struct {
		of             ndview.DType
		encode, decode string
		stored         any
		want           string
	}{
		{ndview.Bool, "<f4", "|b1", []float32{0, 0.5, float32(math.NaN()), float32(math.Copysign(0, -1))}, "00010100"},
		{ndview.Bool, "<c8", "|b1", []complex64{0, 0.5i, 2}, "000101"},
		{ndview.Bool, "<i4", "|b1", []int32{0, 256, -1}, "000101"},
		{ndview.Int32, "|b1", "<i4", []byte{0, 1, 7}, "000000000100000001000000"},
		{ndview.Int16, "<c8", "<i2", []complex64{3 - 2i, 5.7}, "03000500"},
	} {
		of := element.Of(c.of)
		stored, err := binary.Append(nil, binary.LittleEndian, c.stored)
		require.NoError(t, err)
		want, err := hex.DecodeString(c.want)
		require.NoError(t, err)
		n := int64(len(want)) / of.Size()
		list := codec.List{codec.AsType{EncodeDType: c.encode, DecodeDType: c.decode}, little}
		chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{n}, Fill: of.DefaultFill()})
		require.NoError(t, err)
		got, err := decode(chain, len(want), stored)
		require.NoError(t, err)
		assert.Equal(t, want, got, "%s as %s", c.encode, c.decode)
	}
}

func TestCastsThatLoseDataAreNotEncoded(t *testing.T) {
	for _, c := range []struct {
		of             ndview.DType
		encode, decode string
		elements       any
	}{
		{ndview.Int16, "|b1", "<i2", []int16{0, 1, 2}},
		{ndview.Int16, "|i1", "<i2", []int16{0, -1, 255}},
		{ndview.Int16, "|u1", "<i2", []int16{0, 255, -1}},
		{ndview.Uint16, "|i1", "<u2", []uint16{0, 65535, 255}},
		{ndview.Float32, "|b1", "<f4", []float32{0, 1, 0.5}},
		{ndview.Complex64, "|b1", "<c8", []complex64{0, 1, 1i}},
		{ndview.Complex64, "<f4", "<c8", []complex64{0, 1, 1i}},
	} {
		of := element.Of(c.of)
		raw, err := binary.Append(nil, binary.LittleEndian, c.elements)
		require.NoError(t, err)
		list := codec.List{codec.AsType{EncodeDType: c.encode, DecodeDType: c.decode}, little}
		chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{3}, Fill: of.DefaultFill()})
		require.NoError(t, err)
		s := codec.GetScratch()
		_, err = chain.Encode(s, values(t, of, raw, []int64{3}))
		s.Release()
		assert.ErrorContains(t, err, "element 2", "%s as %s", c.decode, c.encode)
	}
}

func TestFiltersWithoutSuchTypesNameThem(t *testing.T) {
	for name, filter := range map[string]codec.ArrayCodec{
		"delta of bool":         codec.Delta{DType: "|b1"},
		"as complex64":          codec.Delta{DType: "<f4", AsType: "<c8"},
		"fixedscaleoffset: typ": codec.FixedScaleOffset{Offset: "1", Scale: "10", DType: "<c8"},
		"type bool":             codec.FixedScaleOffset{Offset: "1", Scale: "10", DType: "<f4", AsType: "|b1"},
		"want floats":           codec.Quantize{Digits: 1, DType: "<c8"},
	} {
		raw, err := codec.List{filter, little}.V2(1)
		require.NoError(t, err)
		_, err = raw.List(element.Of(ndview.Float32), 1)
		assert.ErrorContains(t, err, name)
		if name != "want floats" {
			assert.ErrorIs(t, err, errors.ErrUnsupported)
		}
	}
}

// NumPy 1 computed with such offsets in a larger type. NumPy 2 only decodes them.
func TestOffsetsOutsideOfTheirTypeAreDecoded(t *testing.T) {
	of := element.Of(ndview.Uint8)
	for offset, want := range map[string][]byte{"-3": {255, 0, 3}, "300": {46, 47, 50}} {
		list := codec.List{codec.FixedScaleOffset{Offset: json.Number(offset), Scale: "2", DType: "|u1", AsType: "<i2"}, little}
		chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{3}, Fill: []byte{0}})
		require.NoError(t, err)
		got, err := decode(chain, 3, []byte{4, 0, 6, 0, 12, 0})
		require.NoError(t, err)
		assert.Equal(t, want, got, offset)
		s := codec.GetScratch()
		_, err = chain.Encode(s, values(t, of, []byte{1, 2, 3}, []int64{3}))
		s.Release()
		assert.ErrorContains(t, err, "offset", offset)
	}
}
