package element_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// v2Types are dtypes of Zarr v2 and what they mean.
var v2Types = []struct {
	text  string
	of    element.Type
	order ndview.ByteOrder
}{
	{`"|b1"`, element.Of(ndview.Bool), dtype.NoOrder}, {`"|i1"`, element.Of(ndview.Int8), dtype.NoOrder}, {`"|u1"`, element.Of(ndview.Uint8), dtype.NoOrder},
	{`"<i2"`, element.Of(ndview.Int16), dtype.LittleEndian}, {`">i8"`, element.Of(ndview.Int64), dtype.BigEndian}, {`">u4"`, element.Of(ndview.Uint32), dtype.BigEndian},
	{`"<f2"`, element.Of(ndview.Float16), dtype.LittleEndian}, {`">f8"`, element.Of(ndview.Float64), dtype.BigEndian},
	{`"<c8"`, element.Of(ndview.Complex64), dtype.LittleEndian}, {`">c16"`, element.Of(ndview.Complex128), dtype.BigEndian},
	{`"<M8[ns]"`, element.Of(ndview.Datetime64("ns", 1)), dtype.LittleEndian}, {`">m8[10us]"`, element.Of(ndview.Timedelta64("us", 10)), dtype.BigEndian},
	{`"<M8"`, element.Of(ndview.Datetime64("generic", 1)), dtype.LittleEndian},
	{`"<U5"`, element.UTF32(5), dtype.LittleEndian}, {`">U5"`, element.UTF32(5), dtype.BigEndian}, {`"|S5"`, element.NullTerminated(5), dtype.NoOrder},
	{`"|V4"`, element.Of(ndview.Bytes(4)), dtype.NoOrder}, {`"bfloat16"`, element.Of(ndview.BFloat16), dtype.LittleEndian},
	{`"int4"`, element.Int4, dtype.NoOrder}, {`"float8_e4m3fn"`, element.Float8E4M3FN, dtype.NoOrder},
	{`[["a","|u1"],["b","<M8[s]"],["c","<c8"]]`, pair, dtype.LittleEndian},
	{`[["a",">i4"],["b",">f8",[2,3]],["c",[["d","|u1"],["t",">U2"]]]]`, structOf(
		element.Field{Name: "a", Type: element.Of(ndview.Int32)}, element.Field{Name: "b", Type: element.Of(ndview.Float64), Shape: []int64{2, 3}},
		element.Field{Name: "c", Type: structOf(element.Field{Name: "d", Type: element.Of(ndview.Uint8)}, element.Field{Name: "t", Type: element.UTF32(2)})}), dtype.BigEndian},
	{`[["a","<i4"],["b",">f8",[2]],["c",[["d","|u1"],["e",">c8"]]]]`, mixed, dtype.LittleEndian},
	{`[["x",">i2"],["y",[["a","<i4"],["b",">f8",[2]],["c",[["d","|u1"],["e",">c8"]]]]]]`, structOf(
		element.Field{Name: "x", Type: element.Of(ndview.Int16), BigEndian: true}, element.Field{Name: "y", Type: mixed}), dtype.LittleEndian},
}

// mixed is a struct whose fields have both byte orders.
var mixed = structOf(
	element.Field{Name: "a", Type: element.Of(ndview.Int32)}, element.Field{Name: "b", Type: element.Of(ndview.Float64), Shape: []int64{2}, BigEndian: true},
	element.Field{Name: "c", Type: structOf(element.Field{Name: "d", Type: element.Of(ndview.Uint8)}, element.Field{Name: "e", Type: element.Of(ndview.Complex64)}), BigEndian: true})

func TestFieldsOfBothByteOrders(t *testing.T) {
	stored, elements := make([]byte, 29), make([]byte, 29)
	for i := range stored {
		stored[i] = byte(i)
	}
	copy(elements, stored)
	for _, number := range [][2]int{{4, 12}, {12, 20}, {21, 25}, {25, 29}} {
		slices.Reverse(elements[number[0]:number[1]])
	}
	got := make([]byte, 58)
	mixed.SwapBytes(got, slices.Concat(stored, stored))
	assert.Equal(t, slices.Concat(elements, elements), got)
	text, err := mixed.FormatV2Fill(elements, dtype.LittleEndian)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("%q", base64.StdEncoding.EncodeToString(stored)), string(text))
	fill, err := mixed.ParseV2Fill(text, dtype.LittleEndian)
	require.NoError(t, err)
	assert.Equal(t, elements, fill)
	swapped, err := mixed.IsSwapped(dtype.LittleEndian)
	require.NoError(t, err)
	assert.True(t, swapped)
	_, err = mixed.IsSwapped(dtype.BigEndian)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = mixed.MarshalJSON()
	require.ErrorIs(t, err, errors.ErrUnsupported, "Zarr v3")
	_, err = element.Struct(element.Field{Name: "a", Type: mixed, BigEndian: true})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestV2TypesRoundTrip(t *testing.T) {
	for _, c := range v2Types {
		of, order, err := element.ParseV2([]byte(c.text))
		require.NoError(t, err, c.text)
		assert.True(t, of == c.of, c.text)
		assert.Equal(t, c.order, order, c.text)
		text, err := of.V2(order)
		require.NoError(t, err)
		assert.Equal(t, c.text, string(text))
	}
	for text, want := range map[string]element.Type{`"|a3"`: element.NullTerminated(3), `[[["title","a"],"|i1"]]`: structOf(element.Field{Name: "a", Type: element.Of(ndview.Int8)}), `[["a","|i1",2],["","|V3"]]`: structOf(
		element.Field{Name: "a", Type: element.Of(ndview.Int8), Shape: []int64{2}}, element.Field{Name: "f1", Type: element.Of(ndview.Bytes(3))})} {
		of, _, err := element.ParseV2([]byte(text))
		require.NoError(t, err)
		assert.True(t, of == want, text)
	}
	for _, of := range []element.Type{element.String, element.Bytes} {
		text, err := of.V2(dtype.NoOrder)
		require.NoError(t, err)
		assert.Equal(t, `"|O"`, string(text))
	}
	_, err := element.Complex(element.Float8E5M2).V2(dtype.NoOrder)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestMalformedV2TypesAreErrors(t *testing.T) {
	_, _, err := element.ParseV2([]byte(`"|O"`))
	assert.ErrorIs(t, err, element.ErrObject)
	for text, want := range map[string]string{
		`"<i3"`: "<i3", `"i4"`: "byte order", `""`: "byte order", `"<U"`: "length", `"<U0"`: "length", `"|S2000000"`: "length", `"<U300000"`: "length", `"|V0"`: "length",
		`"<M8[fortnight]"`: "unit", `3`: "list of fields", `null`: "list of fields", `[]`: "no fields", `[["a"]]`: "field 0", `[["a","<i4",[0]]]`: "at most",
		`[["a","|O"]]`: "|O", `[["a","<i4",[1000000000000]]]`: "at most", `[["a","<i4"],["a","<i4"]]`: "duplicate", `[[1,"<i4"]]`: "name", `"string"`: "byte order",
	} {
		_, _, err := element.ParseV2([]byte(text))
		require.Error(t, err, text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestV2FillValues(t *testing.T) {
	be := structOf(element.Field{Name: "a", Type: element.Of(ndview.Int16)}, element.Field{Name: "b", Type: element.Of(ndview.Bool)})
	for _, c := range []struct {
		of    element.Type
		order ndview.ByteOrder
		text  string
		fill  []byte
		write string
	}{
		{element.Of(ndview.Int16), dtype.BigEndian, `258`, []byte{2, 1}, ``},
		{element.Of(ndview.Int16), dtype.BigEndian, `3.0`, []byte{3, 0}, `3`},
		{element.Of(ndview.Bool), dtype.NoOrder, `false`, []byte{0}, ``},
		{element.Of(ndview.Float32), dtype.LittleEndian, `"NaN"`, []byte{0, 0, 0xc0, 0x7f}, ``},
		{element.Of(ndview.Datetime64("s", 1)), dtype.LittleEndian, `"NaT"`, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, ``},
		{element.UTF32(2), dtype.BigEndian, `"é"`, []byte{0xe9, 0, 0, 0, 0, 0, 0, 0}, ``},
		{element.UTF32(2), dtype.BigEndian, `0`, make([]byte, 8), `""`},
		{element.NullTerminated(3), dtype.NoOrder, `"YWI="`, []byte("ab\x00"), ``},
		{element.NullTerminated(3), dtype.NoOrder, `""`, make([]byte, 3), ``},
		{element.Of(ndview.Bytes(2)), dtype.NoOrder, `"AQI="`, []byte{1, 2}, ``},
		{element.Of(ndview.Bytes(2)), dtype.NoOrder, `""`, []byte{0, 0}, `"AAA="`},
		{element.Of(ndview.Complex64), dtype.LittleEndian, `1.5`, []byte{0, 0, 0xc0, 0x3f, 0, 0, 0, 0}, `[1.5,0.0]`},
		{element.String, dtype.NoOrder, `0`, []byte{}, `""`},
		{element.String, dtype.NoOrder, `"x"`, []byte("x"), ``},
		{element.Bytes, dtype.NoOrder, `"AQI="`, []byte{1, 2}, ``},
		{be, dtype.BigEndian, `"AQIB"`, []byte{2, 1, 1}, ``},
		{be, dtype.LittleEndian, `"AQIB"`, []byte{1, 2, 1}, ``},
		{be, dtype.LittleEndian, `"AQIH"`, []byte{1, 2, 1}, `"AQIB"`},
		{be, dtype.BigEndian, `{"a":258,"b":true}`, []byte{2, 1, 1}, `"AQIB"`},
		{be, dtype.LittleEndian, `0`, []byte{0, 0, 0}, `"AAAA"`},
	} {
		fill, err := c.of.ParseV2Fill([]byte(c.text), c.order)
		require.NoError(t, err, "%s %s", c.of, c.text)
		assert.Equal(t, c.fill, fill, "%s %s", c.of, c.text)
		text, err := c.of.FormatV2Fill(fill, c.order)
		require.NoError(t, err)
		if c.write == "" {
			c.write = c.text
		}
		assert.Equal(t, c.write, string(text))
	}
	for text, of := range map[string]element.Type{`{"a":1,"c":2}`: be, `"AQI="`: be, `1`: be, `"*"`: element.NullTerminated(3), `"YWJjZA=="`: element.NullTerminated(3)} {
		_, err := of.ParseV2Fill([]byte(text), dtype.LittleEndian)
		assert.ErrorContains(t, err, "fill_value", text)
	}
}

func FuzzParseV2(f *testing.F) {
	for _, c := range v2Types {
		f.Add(c.text, `"AAAA"`)
	}
	f.Add(`"<i4"`, `0`)
	f.Fuzz(func(t *testing.T, text, fillText string) {
		of, order, err := element.ParseV2([]byte(text))
		if err != nil || !json.Valid([]byte(fillText)) {
			return
		}
		written, err := of.V2(order)
		require.NoError(t, err, text)
		back, backOrder, err := element.ParseV2(written)
		require.NoError(t, err, "%s", written)
		require.True(t, of == back)
		require.Equal(t, order, backOrder)
		fill, err := of.ParseV2Fill([]byte(fillText), order)
		if err != nil {
			return
		}
		again, err := of.FormatV2Fill(fill, order)
		if err != nil {
			return // text that is not Unicode
		}
		same, err := of.ParseV2Fill(again, order)
		require.NoError(t, err)
		require.Equal(t, fill, same)
	})
}
