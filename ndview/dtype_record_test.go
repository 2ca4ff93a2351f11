package ndview_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestRecordsOfTheSameFieldsAreEqual(t *testing.T) {
	fields := func() []ndview.Field {
		return []ndview.Field{{Name: "a", DType: ndview.Int32, Shape: []int64{2}}, {Name: "b", DType: ndview.Datetime64("s", 1)}}
	}
	packed := must(ndview.Packed(fields()...))
	assert.True(t, packed == must(ndview.Packed(fields()...)))
	assert.True(t, packed == numpyType(t, `[["a","<i4",2],["b","<M8[s]"]]`))
	assert.Equal(t, ndview.KindRecord, packed.Kind())
	assert.EqualValues(t, 16, packed.Size())

	others := map[string]ndview.DType{
		"size":  must(ndview.Record(17, packed.Fields()...)),
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

func TestFieldsOfARecordAreTheCallersOwn(t *testing.T) {
	shape := []int64{3}
	record := must(ndview.Packed(ndview.Field{Name: "a", DType: ndview.Int8, Shape: shape}))
	shape[0] = 5
	fields := record.Fields()
	fields[0].Name, fields[0].Shape[0] = "z", 7
	got, ok := record.Field("a")
	require.True(t, ok)
	assert.Equal(t, ndview.Field{Name: "a", DType: ndview.Int8, Shape: []int64{3}}, got)
	assert.EqualValues(t, 3, got.Size())
	_, ok = record.Field("z")
	assert.False(t, ok)
	assert.Nil(t, ndview.Int8.Fields())
}

func TestRecordsAreWrittenAsListsWhereTheyCanAndElseAsDicts(t *testing.T) {
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
		dtype, order, err := ndview.ParseDType(s)
		if want == "" {
			assert.ErrorIs(t, err, ndview.ErrDType, s) // "i4" is the host's order, and ">i2" is not
			continue
		}
		require.NoError(t, err, s)
		assert.Equal(t, want, dtype.NumPyIn(order), s)
		assert.Equal(t, dtype, numpyType(t, want), s)
		if order == ndview.HostOrder {
			assert.Equal(t, want, dtype.String())
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
		_, _, err := ndview.ParseDType(s)
		assert.ErrorIs(t, err, ndview.ErrDType, "%.60s", s)
	}
}

func TestFieldsMustFitTheirRecord(t *testing.T) {
	good := ndview.Field{Name: "a", DType: ndview.Int32}
	for _, c := range []struct {
		size   int64
		fields []ndview.Field
	}{
		{3, []ndview.Field{good}}, {0, []ndview.Field{good}}, {-1, []ndview.Field{good}}, {math.MaxInt32 + 1, []ndview.Field{good}}, {4, nil},
		{8, []ndview.Field{good, good}}, {8, []ndview.Field{{DType: ndview.Int32}}}, {8, []ndview.Field{{Name: "a"}}},
		{8, []ndview.Field{{Name: "a", DType: ndview.Int32, Offset: 5}}}, {8, []ndview.Field{{Name: "a", DType: ndview.Int32, Offset: -1}}},
		{8, []ndview.Field{{Name: "a", DType: ndview.Int32, Offset: math.MaxInt64}}}, {8, []ndview.Field{{Name: "a", DType: ndview.Int32, Shape: []int64{3}}}},
		{8, []ndview.Field{{Name: "a", DType: ndview.Int32, Shape: []int64{0}}}}, {8, []ndview.Field{{Name: "a", DType: ndview.Int32, Shape: []int64{-1}}}},
	} {
		_, err := ndview.Record(c.size, c.fields...)
		assert.Error(t, err, "%v", c)
	}
	for _, place := range []func(...ndview.Field) (ndview.DType, error){ndview.Packed, ndview.Aligned} {
		for _, fields := range [][]ndview.Field{nil, {{Name: "a"}}, {{Name: "a", DType: ndview.Int8, Shape: []int64{1 << 31}}},
			{{Name: "a", DType: ndview.Bytes(math.MaxInt32)}, {Name: "b", DType: ndview.Int8}}} {
			_, err := place(fields...)
			assert.ErrorIs(t, err, ndview.ErrDType, "%v", fields)
		}
	}
}

func TestRecordsAreStoredMovedAndViewed(t *testing.T) {
	record := numpyType(t, `[["id","<i4"],["name","|V3"]]`)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		data := []byte("aaaa123bbbb456cccc789")
		a := at(t, upload(t, dev, data), record, 0, 3)
		part, err := a.Slice(0, 1, 3)
		own(t, part, err)
		assert.Equal(t, data[7:], elements(t, part))
	})
}

func FuzzParseDType(f *testing.F) {
	for _, n := range typeNames {
		f.Add(n.numpy)
		f.Add(n.dtype.String())
	}
	f.Add(`{"names":["b","a"],"formats":["<f8",["<i4",[2]]],"offsets":[8,0],"itemsize":20,"aligned":false,"titles":[]}`)
	f.Add(`[[["t","a"],">i4",3],["b",[["c",">f2"]]]]`)
	f.Fuzz(func(t *testing.T, s string) {
		dtype, order, err := ndview.ParseDType(s)
		if err != nil {
			require.ErrorIs(t, err, ndview.ErrDType)
			return
		}
		require.Positive(t, dtype.Size())
		text := dtype.NumPyIn(order)
		again, sameOrder, err := ndview.ParseDType(text)
		require.NoError(t, err, text)
		require.Equal(t, fmt.Sprint(dtype, order), fmt.Sprint(again, sameOrder))
		require.True(t, dtype == again, text)
		require.True(t, ndview.CanCast(dtype, again, ndview.CastNo))
	})
}
