package codec_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPackBitsStoresLowestBitFirst(t *testing.T) {
	bools := element.Of(ndview.Bool)
	for _, c := range []struct {
		config   string
		of       element.Type
		raw, enc []byte
	}{
		{`{}`, bools, []byte{0, 1, 0, 1, 0, 1, 0, 1, 1}, []byte{0xaa, 1}},
		{`{"padding_encoding":"first_byte"}`, bools, []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 1}, []byte{6, 1, 3}},
		{`{"padding_encoding":"last_byte","first_bit":null,"last_bit":null}`, bools, []byte{1, 1, 1}, []byte{7, 5}},
		{`{"padding_encoding":"none"}`, element.Int4, []byte{0xfe, 7, 0xff}, []byte{0x7e, 0x0f}},
		{`{}`, element.Uint2, []byte{3, 0, 1, 2, 3}, []byte{0b10010011, 3}},
		{`{}`, element.Float6E2M3FN, []byte{0x3f, 0, 1}, []byte{0x3f, 0x10, 0}},
		{`{"first_bit":4,"last_bit":11}`, element.Of(ndview.Int16), []byte{0x20, 0x08, 0xf0, 0xff}, []byte{0x82, 0xff}},
		{`{}`, element.Of(ndview.Int16), []byte{1, 2, 3, 4}, []byte{1, 2, 3, 4}},
		{`{"last_bit":3}`, element.Of(ndview.Uint64), []byte{9, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}, []byte{0x59}},
	} {
		want := c.raw
		switch {
		case c.config == `{"first_bit":4,"last_bit":11}`:
			want = []byte{0x20, 0xf8, 0xf0, 0xff} // extends the sign
		}
		enc, dec, err := roundTrip(t, `[{"name":"packbits","configuration":`+c.config+`}]`, c.of, c.of.DefaultFill(), c.raw, int64(len(c.raw))/c.of.Size())
		require.NoError(t, err)
		assert.Equal(t, c.enc, enc, "%s %s", c.of, c.config)
		assert.Equal(t, want, dec, "%s %s", c.of, c.config)
	}
}

func TestPackBitsRoundTripsAllWidths(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for width := 1; width <= 64; width++ {
		for _, n := range []int64{1, 2, 7, 64, 65} {
			raw := make([]byte, 8*n)
			for i := range n {
				x := random.Uint64() >> (64 - width)
				for b := range 8 {
					raw[8*i+int64(b)] = byte(x >> (8 * b))
				}
			}
			enc, dec, err := roundTrip(t, fmt.Sprintf(`[{"name":"packbits","configuration":{"last_bit":%d}}]`, width-1), element.Of(ndview.Uint64), make([]byte, 8), raw, n)
			require.NoError(t, err)
			require.EqualValues(t, (int64(width)*n+7)/8, len(enc))
			require.Equal(t, raw, dec, "%d bits", width)
		}
	}
	raw := make([]byte, 48)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	_, dec, err := roundTrip(t, `["packbits"]`, element.Of(ndview.Complex128), make([]byte, 16), raw, 3)
	require.NoError(t, err)
	assert.Equal(t, raw, dec)
}

func TestPackBitsReadsWholeElementsOfZarrsWithoutTheByteOfPadding(t *testing.T) {
	for _, at := range []codec.PaddingEncoding{codec.PaddingFirstByte, codec.PaddingLastByte} {
		chain := compile(t, element.Of(ndview.Int16), []int64{2}, codec.PackBits{PaddingEncoding: at})
		raw := []byte{1, 2, 3, 0x84}
		dec, err := decode(chain, 4, raw)
		require.NoError(t, err)
		assert.Equal(t, raw, dec)
		for _, bad := range [][]byte{raw[:3], {1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 0}} {
			_, err := decode(chain, 4, bad)
			assert.Error(t, err, bad)
		}
	}
}

func TestPackBitsRejectsOtherChunksAndConfigurations(t *testing.T) {
	for _, config := range []string{`{"padding_encoding":"x"}`, `{"padding_encoding":""}`, `{"first_bit":-1}`, `{"first_bit":3,"last_bit":2}`, `{"last_bit":1.5}`, `{"x":1}`} {
		assert.Error(t, json.Unmarshal([]byte(`[{"name":"packbits","configuration":`+config+`}]`), new(codec.List)), config)
	}
	for _, of := range []element.Type{element.Of(ndview.Bytes(3)), element.String} {
		_, err := codec.List{codec.PackBits{}}.Compile(codec.ChunkSpec{Type: of, Shape: []int64{1}, Fill: of.DefaultFill()})
		assert.ErrorContains(t, err, "cannot pack")
	}
	high := 8
	for _, c := range []codec.PackBits{{LastBit: &high}, {FirstBit: 8}} {
		_, err := codec.List{c}.Compile(codec.ChunkSpec{Type: int8s, Shape: []int64{1}, Fill: []byte{0}})
		assert.Error(t, err)
	}
	chain := compile(t, element.Of(ndview.Bool), []int64{10}, codec.PackBits{PaddingEncoding: codec.PaddingFirstByte})
	for _, bad := range [][]byte{nil, {6, 1}, {6, 1, 2, 3}, {5, 1, 2}} {
		_, err := decode(chain, 10, bad)
		assert.Error(t, err, bad)
	}
}

func TestReshapeKeepsCOrder(t *testing.T) {
	raw := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for _, c := range []struct {
		config string
		out    []int64
	}{
		{`[12]`, []int64{12}}, {`[-1]`, []int64{12}}, {`[3,-1]`, []int64{3, 4}}, {`[[0,1],[2]]`, []int64{6, 2}},
		{`[[0],6]`, []int64{2, 6}}, {`[2,1,[1],-1]`, []int64{2, 1, 3, 2}}, {`[[0,1,2]]`, []int64{12}},
	} {
		var list codec.List
		require.NoError(t, json.Unmarshal([]byte(`[{"name":"reshape","configuration":{"shape":`+c.config+`}},"bytes"]`), &list))
		transform, err := list[0].(codec.Reshape).Transform(codec.ChunkSpec{Type: int8s, Shape: []int64{2, 3, 2}, Fill: []byte{0}})
		require.NoError(t, err, c.config)
		assert.Equal(t, c.out, transform.Out.Shape, c.config)
		enc, dec, err := roundTrip(t, `[{"name":"reshape","configuration":{"shape":`+c.config+`}},"bytes"]`, int8s, []byte{0}, raw, 2, 3, 2)
		require.NoError(t, err)
		assert.Equal(t, raw, enc)
		assert.Equal(t, raw, dec)
	}
	for _, config := range []string{`[11]`, `[5,-1]`, `[[1],[2],2]`, `[[3]]`, `[2,[0],3]`, `[]`, `[4611686018427387904,4611686018427387904]`} {
		_, _, err := roundTrip(t, `[{"name":"reshape","configuration":{"shape":`+config+`}},"bytes"]`, int8s, []byte{0}, raw, 2, 3, 2)
		assert.Error(t, err, config)
	}
	for _, config := range []string{`{}`, `{"shape":3}`, `{"shape":[-1,-1]}`, `{"shape":[0]}`, `{"shape":[-2]}`, `{"shape":[[1],[0]]}`, `{"shape":[[1,0]]}`, `{"shape":[[-1]]}`, `{"shape":[null]}`} {
		assert.Error(t, json.Unmarshal([]byte(`[{"name":"reshape","configuration":`+config+`}]`), new(codec.List)), config)
	}
}

func TestSqueezeDropsAxesOfOneElement(t *testing.T) {
	for _, c := range []struct{ in, out []int64 }{
		{[]int64{2, 1, 3}, []int64{2, 3}}, {[]int64{1, 5, 1}, []int64{5}}, {[]int64{4}, []int64{4}}, {[]int64{1, 1}, []int64{1}}, {[]int64{}, []int64{1}},
	} {
		transform, err := codec.Squeeze{}.Transform(codec.ChunkSpec{Type: int8s, Shape: c.in, Fill: []byte{0}})
		require.NoError(t, err)
		assert.Equal(t, c.out, transform.Out.Shape, "%v", c.in)
	}
	const list = `[{"name":"zarrs.squeeze","configuration":{}},{"name":"transpose","configuration":{"order":[1,0]}},"bytes"]`
	enc, dec, err := roundTrip(t, list, int8s, []byte{0}, []byte{1, 2, 3, 4, 5, 6}, 2, 1, 3)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 4, 2, 5, 3, 6}, enc)
	assert.Equal(t, []byte{1, 2, 3, 4, 5, 6}, dec)
	assert.Error(t, json.Unmarshal([]byte(`[{"name":"zarrs.squeeze","configuration":{"axes":[0]}}]`), new(codec.List)))
}
