package element_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStoredBytesAreNormalized(t *testing.T) {
	for _, c := range []struct {
		of         element.Type
		raw, clean []byte
	}{
		{element.Of(ndview.Bool), []byte{0, 1, 2, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128}, []byte{0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
		{element.Int4, []byte{0x0e, 0xfe, 0x77, 0x08}, []byte{0xfe, 0xfe, 7, 0xf8}},
		{element.Int2, []byte{0x02, 0x01, 0xfd}, []byte{0xfe, 1, 1}},
		{element.Uint4, []byte{0xfe, 0x1f}, []byte{0x0e, 0x0f}},
		{element.Uint2, []byte{0xff}, []byte{3}},
		{element.Float6E2M3FN, []byte{0xff}, []byte{0x3f}},
		{element.Complex(element.Float4E2M1FN), []byte{0xf1, 0x2f}, []byte{1, 0xf}},
		{element.Float8E4M3, []byte{0xff}, []byte{0xff}},
		{element.Of(ndview.Int8), []byte{0xff, 2}, []byte{0xff, 2}},
		{nested, append(make([]byte, 25), 0x0e, 2), append(make([]byte, 25), 0xfe, 1)},
	} {
		raw := append([]byte{}, c.raw...)
		c.of.Normalize(raw)
		assert.Equal(t, c.clean, raw, c.of.String())
		assert.NoError(t, c.of.CheckElements(raw))
		c.of.Normalize(raw)
		assert.Equal(t, c.clean, raw, "twice")
	}
	assert.ErrorContains(t, element.Int4.CheckElements([]byte{7, 8}), "element 1")
	assert.ErrorContains(t, element.Float4E2M1FN.CheckElements([]byte{0x10}), "element 0")
	assert.ErrorContains(t, nested.CheckElements(append(make([]byte, 27+25), 9, 0)), "element 1")
}

func TestSwapBytesSwapsEachNumber(t *testing.T) {
	for _, c := range []struct {
		of       element.Type
		in, want []byte
	}{
		{element.Of(ndview.Uint16), []byte{1, 2, 3, 4}, []byte{2, 1, 4, 3}},
		{element.Of(ndview.Complex64), []byte{1, 2, 3, 4, 5, 6, 7, 8}, []byte{4, 3, 2, 1, 8, 7, 6, 5}},
		{element.Of(ndview.Datetime64("s", 1)), []byte{1, 2, 3, 4, 5, 6, 7, 8}, []byte{8, 7, 6, 5, 4, 3, 2, 1}},
		{element.Complex(element.Of(ndview.Float16)), []byte{1, 2, 3, 4}, []byte{2, 1, 4, 3}},
		{element.Complex(element.Float8E5M2), []byte{1, 2}, []byte{1, 2}},
		{element.UTF32(2), []byte{1, 2, 3, 4, 5, 6, 7, 8}, []byte{4, 3, 2, 1, 8, 7, 6, 5}},
		{element.NullTerminated(4), []byte{1, 2, 3, 4}, []byte{1, 2, 3, 4}},
		{structOf(element.Field{Name: "a", Type: element.Of(ndview.Uint8)}, element.Field{Name: "b", Type: element.Of(ndview.Int16), Shape: []int64{2}},
			element.Field{Name: "c", Type: element.Of(ndview.Int32)}), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19},
			[]byte{1, 3, 2, 5, 4, 9, 8, 7, 6, 11, 13, 12, 15, 14, 19, 18, 17, 16}},
	} {
		out := make([]byte, len(c.in))
		c.of.SwapBytes(out, c.in)
		assert.Equal(t, c.want, out, c.of.String())
		c.of.SwapBytes(out, out)
		assert.Equal(t, c.in, out, "in place: %s", c.of)
	}
	assert.False(t, element.RawBytes(4).HasByteOrder())
	assert.False(t, element.Complex(element.Float8E5M2).HasByteOrder())
	assert.True(t, element.UTF32(1).HasByteOrder())
	assert.True(t, nested.HasByteOrder())
	assert.False(t, element.String.HasByteOrder())
}

func TestPartsOfElementsAreIgnored(t *testing.T) {
	for _, of := range types {
		for _, n := range []int64{0, 1, of.Size() - 1, of.Size() + 1} {
			raw := make([]byte, max(n, 0))
			of.Normalize(raw)
			of.SwapBytes(raw, raw)
			of.SwapBytes(raw, make([]byte, len(raw)/2))
			of.SwapBytes(raw[:len(raw)/2], raw)
			assert.NoError(t, of.CheckElements(raw))
		}
	}
}

func TestStructsAreRecords(t *testing.T) {
	dtype, ok := pair.DType()
	require.True(t, ok)
	assert.Equal(t, "b", dtype.Fields()[1].Name)
	assert.EqualValues(t, 1, dtype.Fields()[1].Offset)
	assert.EqualValues(t, 17, pair.Size())
	assert.True(t, element.Of(dtype) == pair, "a record without gaps is the struct of its fields")
	gap, err := ndview.Record(9, ndview.Field{Name: "x", DType: ndview.Int8, Offset: 3})
	require.NoError(t, err)
	_, err = json.Marshal(element.Of(gap))
	assert.Error(t, err)
	_, err = json.Marshal(structOf(element.Field{Name: "a", Type: element.Int2, Shape: []int64{2}}))
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestLegacyStructuresAreRead(t *testing.T) {
	var got element.Type
	require.NoError(t, json.Unmarshal([]byte(`{"name":"structured","configuration":{"fields":[["a","uint8"],
		["b",{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}}],["c","complex64"]]}}`), &got))
	assert.True(t, got == pair)
}

// A short document must not claim much memory.
func TestClaimedSizesAreBounded(t *testing.T) {
	deep := `"int8"`
	for range 40 {
		deep = `{"name":"struct","configuration":{"fields":[{"name":"a","data_type":` + deep + `}]}}`
	}
	var got element.Type
	assert.ErrorContains(t, json.Unmarshal([]byte(deep), &got), "deeper")
	for _, f := range [][]element.Field{
		{{Name: "a", Type: element.UTF32(1 << 18)}, {Name: "b", Type: element.Int2}},
		{{Name: "a", Type: pair, Shape: []int64{50_000}}},
		{{Name: "a", Type: element.Int2, Shape: []int64{1 << 40}}},
		{{Name: "a", Type: element.Int2, Shape: []int64{0}}},
		{{Name: "a", Type: element.String}}, {{Name: "", Type: element.Int2}}, {{Name: "a"}}, {},
	} {
		_, err := element.Struct(f...)
		assert.Error(t, err, "%v", f)
	}
	assert.Equal(t, element.Type{}, element.UTF32(1<<18+1))
	assert.Equal(t, element.Type{}, element.RawBytes(0))
	assert.Equal(t, element.Type{}, element.Complex(element.Int2))
	assert.Equal(t, element.Type{}, element.Complex(element.Of(ndview.Complex64)))
}

func FuzzParseType(f *testing.F) {
	for text := range types {
		f.Add(text)
	}
	f.Add(`{"name":"structured","configuration":{"fields":[["a","int8"]]}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		var of element.Type
		if json.Unmarshal([]byte(raw), &of) != nil {
			return
		}
		text, err := json.Marshal(of)
		require.NoError(t, err)
		var back element.Type
		require.NoError(t, json.Unmarshal(text, &back))
		require.True(t, of == back)
		require.NoError(t, of.CheckFill(of.DefaultFill()))
		of.HasByteOrder()
	})
}
