package metajson_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBareWordsBecomeStringsInStrictJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":NaN}`:                       `{"a":"NaN"}`,
		`[Infinity,-Infinity]`:            `["Infinity","-Infinity"]`,
		`{"NaN":"NaN \" Infinity","b":1}`: `{"NaN":"NaN \" Infinity","b":1}`,
		`["\\",NaN]`:                      `["\\","NaN"]`,
		"\ufeff[1]":                       `[1]`,
		`[19e9000000002,1,-2.5e-3]`:       `[19e9000000002,1,-2.5e-3]`, // not a bare word
		`[NaN,19e9000000002]`:             `["NaN",19e9000000002]`,
	} {
		assert.Equal(t, want, string(metajson.Restore(metajson.Clean([]byte(in)))), in)
	}
}

func TestNonFiniteNumbersDecodeAndEncode(t *testing.T) {
	var v map[string]any
	require.NoError(t, metajson.Decode("attributes", metajson.Clean([]byte(`{"a":[NaN,{"b":-Infinity}],"c":1}`)), &v))
	metajson.DecodeNonFinite(v)
	list := v["a"].([]any)
	assert.True(t, math.IsNaN(list[0].(float64)))
	assert.Equal(t, math.Inf(-1), list[1].(map[string]any)["b"])
	written, err := json.Marshal(metajson.EncodeNonFinite(v))
	require.NoError(t, err)
	assert.JSONEq(t, `{"a":["NaN",{"b":"-Infinity"}],"c":1}`, string(written))
	assert.True(t, math.IsNaN(list[0].(float64)), "the value itself does not change")
	x := math.Inf(1)
	assert.Equal(t, []any{"Infinity", 2.0}, metajson.EncodeNonFinite([]any{&x, 2.0}))
	assert.Equal(t, map[int]any{1: "NaN", 2: 2.0}, metajson.EncodeNonFinite(map[int]float64{1: math.NaN(), 2: 2}))
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{`{"a":NaN}`, `[Infinity,-Infinity]`, `{"a":"\"NaN"}`, `[9e9000000001,19e9000000002]`, `"\\`, "\ufeff1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		clean := metajson.Clean(raw)
		if !json.Valid(clean) {
			return
		}
		strict := metajson.Restore(clean)
		require.True(t, json.Valid(strict), "%s", strict)
		require.Equal(t, strict, metajson.Restore(metajson.Clean(strict)))
	})
}
