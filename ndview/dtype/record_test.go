package dtype_test

import (
	"math"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecordsOfTheSameFieldsAreEqual(t *testing.T) {
	fields := func() []dtype.Field {
		return []dtype.Field{{Name: "a", DType: dtype.Int32, Shape: []int64{2}}, {Name: "b", DType: dtype.Datetime64("s", 1)}}
	}
	packed := must(dtype.Packed(fields()...))
	assert.True(t, packed == must(dtype.Packed(fields()...)))
	assert.True(t, packed == numpyType(t, `[["a","<i4",2],["b","<M8[s]"]]`))
	assert.Equal(t, dtype.KindRecord, packed.Kind())
	assert.EqualValues(t, 16, packed.Size())

	others := map[string]dtype.DType{
		"size":  must(dtype.Record(17, packed.Fields()...)),
		"shape": numpyType(t, `[["a","<i4",[2,1]],["b","<M8[s]"]]`),
		"name":  numpyType(t, `[["a","<i4",2],["c","<M8[s]"]]`),
		"unit":  numpyType(t, `[["a","<i4",2],["b","<M8[ms]"]]`),
		"type":  numpyType(t, `[["a","<i4",2],["b","<i8"]]`),
		"order": numpyType(t, `{"names":["b","a"],"formats":["<M8[s]",["<i4",2]],"offsets":[8,0]}`),
	}
	for about, other := range others {
		assert.False(t, packed == other, about)
	}
}

func TestFieldsReturnsACopy(t *testing.T) {
	shape := []int64{3}
	record := must(dtype.Packed(dtype.Field{Name: "a", DType: dtype.Int8, Shape: shape}))
	shape[0] = 5
	fields := record.Fields()
	fields[0].Name, fields[0].Shape[0] = "z", 7
	got, ok := record.Field("a")
	require.True(t, ok)
	assert.Equal(t, dtype.Field{Name: "a", DType: dtype.Int8, Shape: []int64{3}}, got)
	assert.EqualValues(t, 3, got.Size())
	_, ok = record.Field("z")
	assert.False(t, ok)
	assert.Nil(t, dtype.Int8.Fields())
}

func TestRecordsAreWrittenAsListsOrDicts(t *testing.T) {
	for s, want := range map[string]string{
		`[["a", "i4"], ["b", ">i2", [2, 3]]]`:                                                          "",
		`[["a","<i4"],["","|V4"],["b","<f8"]]`:                                                         `[["a","<i4"],["","|V4"],["b","<f8"]]`,
		`[["a","<i4"],["","|V4"]]`:                                                                     `[["a","<i4"],["","|V4"]]`,
		`[[["title","a"],"<i4",[]]]`:                                                                   `[["a","<i4"]]`,
		`[["é\"<>","|V1"]]`:                                                                            `[["é\"<>","|V1"]]`,
		`{"names":["a","b"],"formats":["<i4","<f8"]}`:                                                  `[["a","<i4"],["b","<f8"]]`,
		`{"names":["a","b"],"formats":["<i4","<f8"],"aligned":true}`:                                   `[["a","<i4"],["","|V4"],["b","<f8"]]`,
		`[["","<i4"],["","|V1"],["","<i2"]]`:                                                           `[["f0","<i4"],["","|V1"],["f2","<i2"]]`,
		`{"names":["a","b"],"formats":["<i4","|i1"],"offsets":[0,4],"aligned":true}`:                   `[["a","<i4"],["b","|i1"],["","|V3"]]`,
		`{"names":["a","b"],"formats":["<i4","|i1"],"offsets":[0,4],"aligned":true,"itemsize":12}`:     `[["a","<i4"],["b","|i1"],["","|V7"]]`,
		`{"names":["a"],"formats":["<i4"],"itemsize":6}`:                                               `[["a","<i4"],["","|V2"]]`,
		`{"names":["b","a"],"formats":["<f8",["<i4",[2]]],"offsets":[8,0]}`:                            `{"names":["b","a"],"formats":["<f8",["<i4",[2]]],"offsets":[8,0],"itemsize":16}`,
		`{"names":["a","b"],"formats":["<i4","<i4"],"offsets":[0,2],"itemsize":9,"titles":["x",null]}`: `{"names":["a","b"],"formats":["<i4","<i4"],"offsets":[0,2],"itemsize":9}`,
		`[["a",[["x","|u1"],["y",{"names":["q"],"formats":["<i2"],"offsets":[1]}]],2]]`:                `[["a",[["x","|u1"],["y",[["","|V1"],["q","<i2"]]]],[2]]]`,
		`{"names":["b","a"],"formats":[[[["x","<i2"]],3],[["p","|i1"],["q","|i1"]]],"offsets":[2,0]}`:  `{"names":["b","a"],"formats":[[[["x","<i2"]],[3]],[["p","|i1"],["q","|i1"]]],"offsets":[2,0],"itemsize":8}`,
	} {
		dt, order, err := dtype.ParseDType(s)
		if want == "" {
			assert.ErrorIs(t, err, dtype.ErrDType, s) // "i4" is the host's order, and ">i2" is not
			continue
		}
		require.NoError(t, err, s)
		assert.Equal(t, want, dt.NumPyIn(order), s)
		assert.Equal(t, dt, numpyType(t, want), s)
		if order == dtype.HostOrder {
			assert.Equal(t, want, dt.String())
		}
	}
}

func TestMalformedRecordsAreRefused(t *testing.T) {
	for _, s := range []string{
		`[]`, `{}`, `[`, `{"names"`, `[1]`, `[["a"]]`, `[["a","<i4",1,1]]`, `[["a","i3"]]`, `[["a","<i4"],["a","<i4"]]`,
		`[["a","<i4",-1]]`, `[["a","<i4",0]]`, `[["a","<i4","x"]]`, `[["a","<i4",1.5]]`, `[["a","<i4",[3000000000]]]`, `[["a","|V2000000000"],["b","|V2000000000"]]`,
		`[["a","<i4",[9223372036854775807,9223372036854775807]]]`, `[[1,"<i4"]]`, `[["a",null]]`, `[["a","<i4"]] x`, `[["a","<i4"]][]`,
		`{"names":["a"],"formats":[]}`, `{"names":["a"],"formats":["<i4"],"offsets":[]}`, `{"names":["a"],"formats":["<i4"],"offsets":[-1]}`,
		`{"names":["a"],"formats":["<i4"],"offsets":[1],"itemsize":4}`, `{"names":["a"],"formats":["<i4"],"itemsize":3}`,
		`{"names":["a"],"formats":["<i4"],"itemsize":-4}`, `{"names":["a"],"formats":["<i4"],"offsets":[9223372036854775807]}`,
		`{"names":["a"],"formats":["<i4"],"itemsize":4294967296}`, `[["f1","<i4"],["","<i4"]]`,
		`{"names":["a"],"formats":["<i4"],"offsets":[1],"aligned":true}`, `{"names":["a","b"],"formats":["<i4","|i1"],"offsets":[0,4],"itemsize":6,"aligned":true}`, `{"names":["a"],"formats":["<i4"],"more":1}`, `[["","|V4"]]`,
		strings.Repeat(`[["a",`, 40) + `"<i4"` + strings.Repeat(`]]`, 40), strings.Repeat("[", 100000),
	} {
		_, _, err := dtype.ParseDType(s)
		assert.ErrorIs(t, err, dtype.ErrDType, "%.60s", s)
	}
}

func TestFieldsMustFitTheirRecord(t *testing.T) {
	good := dtype.Field{Name: "a", DType: dtype.Int32}
	for _, c := range []struct {
		size   int64
		fields []dtype.Field
	}{
		{3, []dtype.Field{good}}, {0, []dtype.Field{good}}, {-1, []dtype.Field{good}}, {math.MaxInt32 + 1, []dtype.Field{good}}, {4, nil},
		{8, []dtype.Field{good, good}}, {8, []dtype.Field{{DType: dtype.Int32}}}, {8, []dtype.Field{{Name: "a"}}},
		{8, []dtype.Field{{Name: "a", DType: dtype.Int32, Offset: 5}}}, {8, []dtype.Field{{Name: "a", DType: dtype.Int32, Offset: -1}}},
		{8, []dtype.Field{{Name: "a", DType: dtype.Int32, Offset: math.MaxInt64}}}, {8, []dtype.Field{{Name: "a", DType: dtype.Int32, Shape: []int64{3}}}},
		{8, []dtype.Field{{Name: "a", DType: dtype.Int32, Shape: []int64{0}}}}, {8, []dtype.Field{{Name: "a", DType: dtype.Int32, Shape: []int64{-1}}}},
	} {
		_, err := dtype.Record(c.size, c.fields...)
		assert.Error(t, err, "%v", c)
	}
	for _, place := range []func(...dtype.Field) (dtype.DType, error){dtype.Packed, dtype.Aligned} {
		for _, fields := range [][]dtype.Field{nil, {{Name: "a"}}, {{Name: "a", DType: dtype.Int8, Shape: []int64{1 << 31}}},
			{{Name: "a", DType: dtype.Bytes(math.MaxInt32)}, {Name: "b", DType: dtype.Int8}}} {
			_, err := place(fields...)
			assert.ErrorIs(t, err, dtype.ErrDType, "%v", fields)
		}
	}
}

func TestRecordLayoutsMatchNumPy(t *testing.T) {
	for _, c := range loadGoldenTypes(t).Layouts {
		dt := numpyType(t, c.Fields)
		packed, err := dtype.Packed(dt.Fields()...)
		require.NoError(t, err)
		assert.Equal(t, dt, packed)
		assertLayout(t, c.Packed, packed)

		fields := dt.Fields()
		for i, f := range fields { // NumPy's align reaches records within
			if inner := f.DType.Fields(); inner != nil {
				fields[i].DType, err = dtype.Aligned(inner...)
				require.NoError(t, err)
			}
		}
		aligned, err := dtype.Aligned(fields...)
		require.NoError(t, err)
		assertLayout(t, c.Aligned, aligned)
		assert.Equal(t, aligned, numpyType(t, aligned.NumPy()))
	}
}

func assertLayout(t *testing.T, want goldenLayout, got dtype.DType) {
	t.Helper()
	assert.Equal(t, want.Size, got.Size(), got)
	for i, f := range got.Fields() {
		assert.Equal(t, want.Offsets[i], f.Offset, "%s of %s", f.Name, got)
	}
}
