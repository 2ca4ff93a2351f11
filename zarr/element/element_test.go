package element_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var types = map[string]element.Type{
	`"bool"`: element.Of(ndview.Bool), `"int8"`: element.Of(ndview.Int8), `"int16"`: element.Of(ndview.Int16),
	`"int32"`: element.Of(ndview.Int32), `"int64"`: element.Of(ndview.Int64), `"uint8"`: element.Of(ndview.Uint8),
	`"uint16"`: element.Of(ndview.Uint16), `"uint32"`: element.Of(ndview.Uint32), `"uint64"`: element.Of(ndview.Uint64),
	`"float16"`: element.Of(ndview.Float16), `"float32"`: element.Of(ndview.Float32), `"float64"`: element.Of(ndview.Float64),
	`"bfloat16"`: element.Of(ndview.BFloat16), `"complex64"`: element.Of(ndview.Complex64), `"complex128"`: element.Of(ndview.Complex128),
	`"r8"`: element.Of(ndview.Bytes(1)), `"r24"`: element.Of(ndview.Bytes(3)), `"string"`: element.String, `"bytes"`: element.Bytes,
	`{"name":"numpy.datetime64","configuration":{"unit":"us","scale_factor":10}}`: element.Of(ndview.Datetime64("us", 10)),
	`{"name":"numpy.timedelta64","configuration":{"unit":"D","scale_factor":1}}`:  element.Of(ndview.Timedelta64("D", 1)),

	`"int2"`: element.Int2, `"int4"`: element.Int4, `"uint2"`: element.Uint2, `"uint4"`: element.Uint4,
	`"float4_e2m1fn"`: element.Float4E2M1FN, `"float6_e2m3fn"`: element.Float6E2M3FN, `"float6_e3m2fn"`: element.Float6E3M2FN,
	`"float8_e3m4"`: element.Float8E3M4, `"float8_e4m3"`: element.Float8E4M3, `"float8_e4m3fn"`: element.Float8E4M3FN,
	`"float8_e4m3b11fnuz"`: element.Float8E4M3B11FNUZ, `"float8_e4m3fnuz"`: element.Float8E4M3FNUZ, `"float8_e5m2"`: element.Float8E5M2,
	`"float8_e5m2fnuz"`: element.Float8E5M2FNUZ, `"float8_e8m0fnu"`: element.Float8E8M0FNU,
	`"complex_float16"`: element.Complex(element.Of(ndview.Float16)), `"complex_bfloat16"`: element.Complex(element.Of(ndview.BFloat16)),
	`"complex_float8_e5m2"`: element.Complex(element.Float8E5M2), `"complex_float4_e2m1fn"`: element.Complex(element.Float4E2M1FN),
	`{"name":"raw_bytes","configuration":{"length_bytes":3}}`:             element.RawBytes(3),
	`{"name":"fixed_length_utf32","configuration":{"length_bytes":20}}`:   element.UTF32(5),
	`{"name":"null_terminated_bytes","configuration":{"length_bytes":5}}`: element.NullTerminated(5),
	`{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"uint8"},{"name":"b","data_type":{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}}},{"name":"c","data_type":"complex64"}]}}`:                                                                                                                                                                                                                                    pair,
	`{"name":"struct","configuration":{"fields":[{"name":"p","data_type":{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"uint8"},{"name":"b","data_type":{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}}},{"name":"c","data_type":"complex64"}]}}},{"name":"t","data_type":{"name":"fixed_length_utf32","configuration":{"length_bytes":8}}},{"name":"i","data_type":"int4"},{"name":"ok","data_type":"bool"}]}}`: nested,
}

var (
	pair   = structOf(element.Field{Name: "a", Type: element.Of(ndview.Uint8)}, element.Field{Name: "b", Type: element.Of(ndview.Datetime64("s", 1))}, element.Field{Name: "c", Type: element.Of(ndview.Complex64)})
	nested = structOf(element.Field{Name: "p", Type: pair}, element.Field{Name: "t", Type: element.UTF32(2)}, element.Field{Name: "i", Type: element.Int4}, element.Field{Name: "ok", Type: element.Of(ndview.Bool)})
)

func structOf(fields ...element.Field) element.Type {
	t, err := element.Struct(fields...)
	if err != nil {
		panic(err)
	}
	return t
}

func TestTypesRoundTripThroughJSON(t *testing.T) {
	for text, want := range types {
		got, err := json.Marshal(want)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(got))
		var back element.Type
		require.NoError(t, json.Unmarshal(got, &back))
		assert.True(t, want == back, "%s", text)
		assert.NoError(t, back.CheckFill(back.DefaultFill()))
	}
	_, err := json.Marshal(element.Type{})
	assert.Error(t, err)
	var none element.Type
	assert.ErrorIs(t, json.Unmarshal([]byte(`"zarrs.optional"`), &none), errors.ErrUnsupported)
}

func TestFillValuesParseAndFormat(t *testing.T) {
	datetime := element.Of(ndview.Datetime64("s", 1))
	for _, c := range []struct {
		of    element.Type
		text  string
		fill  []byte
		write string // the formatted value, if it differs from text
	}{
		{element.Of(ndview.Bool), `true`, []byte{1}, ``},
		{element.Of(ndview.Int8), `-128`, []byte{0x80}, ``},
		{element.Of(ndview.Int16), `-2`, []byte{0xfe, 0xff}, ``},
		{element.Of(ndview.Int64), `-9223372036854775808`, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, ``},
		{element.Of(ndview.Uint64), `18446744073709551615`, []byte{255, 255, 255, 255, 255, 255, 255, 255}, ``},
		{element.Of(ndview.Uint16), `258`, []byte{2, 1}, ``},
		{element.Of(ndview.Float16), `"NaN"`, []byte{0x00, 0x7e}, ``},
		{element.Of(ndview.Float16), `65504.0`, []byte{0xff, 0x7b}, ``},
		{element.Of(ndview.Float16), `1e-8`, []byte{0, 0}, `0.0`},
		{element.Of(ndview.Float16), `"0x0001"`, []byte{1, 0}, `5.9604645e-08`},
		{element.Of(ndview.Float16), `"0x7d00"`, []byte{0x00, 0x7d}, ``},
		{element.Of(ndview.BFloat16), `"NaN"`, []byte{0xc0, 0x7f}, ``},
		{element.Of(ndview.BFloat16), `1.0`, []byte{0x80, 0x3f}, ``},
		{element.Of(ndview.Float32), `"NaN"`, []byte{0, 0, 0xc0, 0x7f}, ``},
		{element.Of(ndview.Float32), `"0xffc00001"`, []byte{1, 0, 0xc0, 0xff}, ``},
		{element.Of(ndview.Float32), `"-Infinity"`, []byte{0, 0, 0x80, 0xff}, ``},
		{element.Of(ndview.Float32), `0.1`, []byte{0xcd, 0xcc, 0xcc, 0x3d}, ``},
		{element.Of(ndview.Float32), `-0.0`, []byte{0, 0, 0, 0x80}, ``},
		{element.Of(ndview.Float32), `3`, []byte{0, 0, 0x40, 0x40}, `3.0`},
		{element.Of(ndview.Float32), `16777217`, []byte{0, 0, 0x80, 0x4b}, `1.6777216e+07`},
		{element.Of(ndview.Float32), `-1e39`, []byte{0, 0, 0x80, 0xff}, `"-Infinity"`}, // rounds to an infinity
		{element.Of(ndview.Float16), `65520`, []byte{0x00, 0x7c}, `"Infinity"`},
		{element.Of(ndview.Float64), `1e309`, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}, `"Infinity"`},
		{element.Of(ndview.Float64), `"Infinity"`, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}, ``},
		{element.Of(ndview.Float64), `"0x7ff8000000000000"`, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, `"NaN"`},
		{element.Of(ndview.Complex64), `[1.0,"NaN"]`, []byte{0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f}, ``},
		{element.Of(ndview.Bytes(3)), `[1,2,255]`, []byte{1, 2, 255}, ``},
		{element.Of(ndview.Bytes(2)), `"AQI="`, []byte{1, 2}, `[1,2]`},
		{element.Int4, `-8`, []byte{0xf8}, ``},
		{element.Int2, `1`, []byte{1}, ``},
		{element.Uint2, `3`, []byte{3}, ``},
		{element.Uint4, `15.0`, []byte{15}, `15`},
		{element.Float8E3M4, `"NaN"`, []byte{0x78}, ``},
		{element.Float8E4M3, `"NaN"`, []byte{0x7c}, ``},
		{element.Float8E4M3, `"-Infinity"`, []byte{0xf8}, ``},
		{element.Float8E5M2, `"NaN"`, []byte{0x7e}, ``},
		{element.Float8E5M2, `"0xff"`, []byte{0xff}, ``},
		{element.Float8E4M3FN, `"NaN"`, []byte{0x7f}, ``},
		{element.Float8E4M3FN, `448`, []byte{0x7e}, `448.0`},
		{element.Float8E4M3B11FNUZ, `"NaN"`, []byte{0x80}, ``},
		{element.Float8E4M3FNUZ, `-0.0`, []byte{0}, `0.0`},
		{element.Float8E5M2FNUZ, `"0x80"`, []byte{0x80}, `"NaN"`},
		{element.Float8E8M0FNU, `"NaN"`, []byte{0xff}, ``},
		{element.Float8E8M0FNU, `0.0`, []byte{0}, `5.877472e-39`},
		{element.Float8E8M0FNU, `4`, []byte{0x81}, `4.0`},
		{element.Float6E2M3FN, `7.5`, []byte{0x1f}, ``},
		{element.Float6E3M2FN, `-28.0`, []byte{0x3f}, ``},
		{element.Float4E2M1FN, `"0x0f"`, []byte{0xf}, `-6.0`},
		{element.Complex(element.Float8E5M2), `["NaN",-1.0]`, []byte{0x7e, 0xbc}, ``},
		{element.Complex(element.Of(ndview.Float16)), `[1.0,"Infinity"]`, []byte{0, 0x3c, 0, 0x7c}, ``},
		{element.RawBytes(2), `"AQI="`, []byte{1, 2}, ``},
		{element.RawBytes(2), `[1,2]`, []byte{1, 2}, `"AQI="`},
		{element.UTF32(3), `"é🚀"`, []byte{0xe9, 0, 0, 0, 0x80, 0xf6, 1, 0, 0, 0, 0, 0}, ``},
		{element.NullTerminated(4), `"YWI="`, []byte("ab\x00\x00"), ``},
		{pair, `{"a":1,"b":"NaT","c":[1.0,0.0]}`, append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0x80}, 0, 0, 0x80, 0x3f, 0, 0, 0, 0), ``},
		{pair, `"AQAAAAAAAACAAACAPwAAAAA="`, append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0x80}, 0, 0, 0x80, 0x3f, 0, 0, 0, 0), `{"a":1,"b":"NaT","c":[1.0,0.0]}`},
		{element.String, `"h<é>"`, []byte("h<é>"), ``},
		{element.Bytes, `[1,2,3]`, []byte{1, 2, 3}, `"AQID"`},
		{element.Bytes, `""`, []byte{}, ``},
		{datetime, `"NaT"`, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, ``},
		{datetime, `-9223372036854775808`, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, `"NaT"`},
		{datetime, `12345`, []byte{0x39, 0x30, 0, 0, 0, 0, 0, 0}, ``},
	} {
		t.Run(fmt.Sprintf("%s %s", c.of, c.text), func(t *testing.T) {
			fill, err := c.of.ParseFill([]byte(c.text))
			require.NoError(t, err)
			assert.Equal(t, c.fill, fill)
			text, err := c.of.FormatFill(fill)
			require.NoError(t, err)
			if c.write == "" {
				c.write = c.text
			}
			assert.Equal(t, c.write, string(text))
		})
	}
}

func TestStructsAreZeroByDefault(t *testing.T) {
	assert.Equal(t, make([]byte, nested.Size()), nested.DefaultFill(), "times are not NaT, as in zarr-python")
	fill, err := pair.ParseFill([]byte(`{"a":1}`))
	require.NoError(t, err)
	want, err := pair.ParseFill([]byte(`{"a":1,"b":"NaT","c":[0,0]}`))
	require.NoError(t, err)
	assert.Equal(t, want, fill, "absent fields have their default")
	_, err = pair.ParseFill([]byte(`{"a":1,"d":0}`))
	assert.Error(t, err)
}

// Formats and parses every value of the 16-bit formats.
func TestAllHalfFloatsRoundTrip(t *testing.T) {
	for _, dtype := range []ndview.DType{ndview.Float16, ndview.BFloat16} {
		of := element.Of(dtype)
		for bits := range 1 << 16 {
			fill := []byte{byte(bits), byte(bits >> 8)}
			text, err := of.FormatFill(fill)
			require.NoError(t, err)
			require.True(t, json.Valid(text), "%s", text)
			back, err := of.ParseFill(text)
			require.NoError(t, err, "%s", text)
			require.Equal(t, fill, back, "%s", text)
		}
	}
}

func TestHalfFloatsRoundToEven(t *testing.T) {
	for text, want := range map[string]uint16{
		"2049": 0x6800, "2051": 0x6802, "65519.9": 0x7bff, "1.00048828125": 0x3c00, "1.0004882813": 0x3c01,
		"2.98023223876953125e-8": 0, "2.9802323e-8": 1, "6.1035156e-5": 0x0400, "6.1005e-5": 0x03ff,
	} {
		fill, err := element.Of(ndview.Float16).ParseFill([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, []byte{byte(want), byte(want >> 8)}, fill, text)
	}
}

func TestNewVLenValidatesOffsets(t *testing.T) {
	data := []byte("abcdef")
	for _, c := range []struct {
		offsets []int32
		shape   []int64
	}{
		{[]int32{0, 2, 1}, []int64{2}}, {[]int32{0, 7}, []int64{1}}, {[]int32{-1, 2}, []int64{1}},
		{[]int32{0, 1}, []int64{2}}, {nil, []int64{1}}, {[]int32{0, 1, 2}, []int64{1}},
		{[]int32{0}, []int64{-1}}, {[]int32{0}, []int64{math.MaxInt64, math.MaxInt64}},
	} {
		_, err := element.NewVLen(c.offsets, data, c.shape...)
		assert.Error(t, err, c)
	}
	v, err := element.NewVLen[int64](nil, nil, 3, 0)
	require.NoError(t, err)
	assert.Empty(t, v.Elements())
}

func TestVLenSlicesAndTransposes(t *testing.T) {
	narrow, err := element.NewVLen([]int32{1, 2, 2, 4, 5, 5, 6}, []byte("_abcde_"), 2, 3)
	require.NoError(t, err)
	wide, err := element.NewVLen([]int64{1, 2, 2, 4, 5, 5, 6}, []byte("_abcde_"), 2, 3)
	require.NoError(t, err)
	for _, v := range []*element.VLen{narrow, wide} {
		assert.Equal(t, []string{"a", "", "bc", "d", "", "e"}, stringsOf(v))
		assert.EqualValues(t, 5, v.NBytes())
		row, err := v.Slice(0, 1, 2)
		require.NoError(t, err)
		assert.Equal(t, []string{"d", "", "e"}, stringsOf(row))
		assert.EqualValues(t, 2, row.NBytes())
		column, err := v.Slice(1, 2, 3)
		require.NoError(t, err)
		assert.Equal(t, []string{"bc", "e"}, stringsOf(column))
		assert.Equal(t, []int64{2, 1}, column.Shape())
		moved, err := element.Transpose(v, []int{1, 0})
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "d", "", "", "bc", "e"}, stringsOf(moved.(*element.VLen)))
		assert.Equal(t, []int64{3, 2}, moved.Shape())
		for _, bad := range [][3]int64{{2, 0, 1}, {-1, 0, 1}, {0, -1, 1}, {0, 1, 3}, {0, 1, 0}} {
			_, err := v.Slice(int(bad[0]), bad[1], bad[2])
			assert.Error(t, err, bad)
		}
	}
}

func stringsOf(v *element.VLen) []string {
	var out []string
	for _, e := range v.Elements() {
		out = append(out, string(e))
	}
	return out
}

func FuzzParseFill(f *testing.F) {
	for _, seed := range []string{`0`, `-1`, `1.5`, `"NaN"`, `"0x7fc00001"`, `[1,2]`, `["NaN",0]`, `"AQID"`, `true`, `"NaT"`, `null`, `1e999`, `"é"`,
		`{"a":1,"b":"NaT","c":[1,0]}`, `{"p":{"a":1,"b":0,"c":["NaN",0]},"t":"x","i":-8,"ok":1}`,
		`"0AA0AAAbAAAbA00000AAAbA0A00000AAAbA0"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			return
		}
		for _, of := range types {
			fill, err := of.ParseFill([]byte(raw))
			if err != nil {
				continue
			}
			require.NoError(t, of.CheckFill(fill))
			text, err := of.FormatFill(fill)
			if err != nil {
				continue // text that is not UTF-8 or not Unicode
			}
			back, err := of.ParseFill(text)
			require.NoError(t, err)
			require.Equal(t, fill, back)
		}
	})
}
