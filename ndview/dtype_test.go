package ndview_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDTypesHaveNumPysNamesAndSizes(t *testing.T) {
	tests := []struct {
		dtype ndview.DType
		name  string
		size  int64
		kind  ndview.Kind
	}{
		{ndview.Bool, "bool", 1, ndview.KindBool},
		{ndview.Int8, "int8", 1, ndview.KindInt},
		{ndview.Int16, "int16", 2, ndview.KindInt},
		{ndview.Int32, "int32", 4, ndview.KindInt},
		{ndview.Int64, "int64", 8, ndview.KindInt},
		{ndview.Uint8, "uint8", 1, ndview.KindUint},
		{ndview.Uint16, "uint16", 2, ndview.KindUint},
		{ndview.Uint32, "uint32", 4, ndview.KindUint},
		{ndview.Uint64, "uint64", 8, ndview.KindUint},
		{ndview.Float16, "float16", 2, ndview.KindFloat},
		{ndview.Float32, "float32", 4, ndview.KindFloat},
		{ndview.Float64, "float64", 8, ndview.KindFloat},
		{ndview.BFloat16, "bfloat16", 2, ndview.KindBFloat},
		{ndview.Complex64, "complex64", 8, ndview.KindComplex},
		{ndview.Complex128, "complex128", 16, ndview.KindComplex},
		{ndview.Datetime64(ndview.Microsecond, 1), "datetime64[us]", 8, ndview.KindDatetime},
		{ndview.Datetime64(ndview.Second, 25), "datetime64[25s]", 8, ndview.KindDatetime},
		{ndview.Timedelta64(ndview.Day, 1), "timedelta64[D]", 8, ndview.KindTimedelta},
		{ndview.Bytes(3), "V3", 3, ndview.KindBytes},
		{ndview.DType{}, "invalid", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.name, tt.dtype.String())
			assert.Equal(t, tt.size, tt.dtype.Size())
			assert.Equal(t, tt.kind, tt.dtype.Kind())
		})
	}
}

func TestDTypesAreEqualByAllTheirParameters(t *testing.T) {
	assert.Equal(t, ndview.Datetime64(ndview.Second, 1), ndview.Datetime64("s", 1))
	assert.NotEqual(t, ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Second, 1))
	assert.NotEqual(t, ndview.Datetime64(ndview.Second, 1), ndview.Datetime64(ndview.Millisecond, 1))
	assert.NotEqual(t, ndview.Datetime64(ndview.Second, 1), ndview.Datetime64(ndview.Second, 10))
	assert.NotEqual(t, ndview.Bytes(2), ndview.Bytes(4))

	d := ndview.Datetime64(ndview.Second, 10)
	assert.Equal(t, ndview.Second, d.Unit())
	assert.EqualValues(t, 10, d.Step())
	assert.Empty(t, ndview.Int64.Unit())
	assert.Zero(t, ndview.Int64.Step())
}

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

// names are a type's everywhere; nothing where there is none. docs/dtypes.md
// has this table.
type names struct {
	dtype        ndview.DType
	numpy, zarr  string
	arrow        arrow.DataType
	dlpack       [2]uint8 // code and bits; no bits for none
	c            string
	otherNumPy   []string
	otherC       []string
	otherByArrow []arrow.DataType // whose elements are read as this type
}

var typeNames = []names{
	{ndview.Bool, "|b1", "bool", arrow.FixedWidthTypes.Boolean, [2]uint8{6, 8}, "bool",
		[]string{"?", "b1", "bool", "bool_"}, []string{"_Bool"}, nil},
	{ndview.Int8, "|i1", "int8", arrow.PrimitiveTypes.Int8, [2]uint8{0, 8}, "int8_t",
		[]string{"b", "byte"}, []string{"signed char"}, nil},
	{ndview.Int16, "<i2", "int16", arrow.PrimitiveTypes.Int16, [2]uint8{0, 16}, "int16_t",
		[]string{"h", "short"}, []string{"short", "short int", "signed short"}, nil},
	{ndview.Int32, "<i4", "int32", arrow.PrimitiveTypes.Int32, [2]uint8{0, 32}, "int32_t",
		[]string{"i", "intc"}, []string{"int", "signed", "signed int"},
		[]arrow.DataType{arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time32ms, &arrow.Decimal32Type{Precision: 5}}},
	{ndview.Int64, "<i8", "int64", arrow.PrimitiveTypes.Int64, [2]uint8{0, 64}, "int64_t",
		[]string{"q", "int", "p", "n"}, []string{"long long", "signed long long int", "ptrdiff_t"},
		[]arrow.DataType{arrow.FixedWidthTypes.Time64us, &arrow.Decimal64Type{Precision: 12}}},
	{ndview.Uint8, "|u1", "uint8", arrow.PrimitiveTypes.Uint8, [2]uint8{1, 8}, "uint8_t",
		[]string{"B"}, []string{"unsigned char"}, nil},
	{ndview.Uint16, "<u2", "uint16", arrow.PrimitiveTypes.Uint16, [2]uint8{1, 16}, "uint16_t",
		[]string{"H"}, []string{"unsigned short"}, nil},
	{ndview.Uint32, "<u4", "uint32", arrow.PrimitiveTypes.Uint32, [2]uint8{1, 32}, "uint32_t",
		[]string{"I"}, []string{"unsigned int", " unsigned  int "}, nil},
	{ndview.Uint64, "<u8", "uint64", arrow.PrimitiveTypes.Uint64, [2]uint8{1, 64}, "uint64_t",
		[]string{"Q", "N"}, []string{"unsigned long long", "unsigned long long int", "size_t"}, nil},
	{ndview.Float16, "<f2", "float16", arrow.FixedWidthTypes.Float16, [2]uint8{2, 16}, "__half",
		[]string{"e", "half"}, []string{"half", "_Float16"}, nil},
	{ndview.BFloat16, "bfloat16", "bfloat16", nil, [2]uint8{4, 16}, "__nv_bfloat16", nil, []string{"__bf16"}, nil},
	{ndview.Float32, "<f4", "float32", arrow.PrimitiveTypes.Float32, [2]uint8{2, 32}, "float",
		[]string{"f", "single"}, nil, nil},
	{ndview.Float64, "<f8", "float64", arrow.PrimitiveTypes.Float64, [2]uint8{2, 64}, "double",
		[]string{"d", "float"}, nil, nil},
	{ndview.Complex64, "<c8", "complex64", nil, [2]uint8{5, 64}, "cuFloatComplex",
		[]string{"F"}, []string{"float _Complex", "std::complex<float>"}, nil},
	{ndview.Complex128, "<c16", "complex128", nil, [2]uint8{5, 128}, "cuDoubleComplex",
		[]string{"D"}, []string{"double complex"}, nil},
	{ndview.Datetime64("us", 1), "<M8[us]", "numpy.datetime64", &arrow.TimestampType{Unit: arrow.Microsecond}, [2]uint8{}, "int64_t",
		[]string{"datetime64[us]"}, nil, []arrow.DataType{arrow.FixedWidthTypes.Timestamp_us}},
	{ndview.Datetime64("ms", 1), "<M8[ms]", "numpy.datetime64", &arrow.TimestampType{Unit: arrow.Millisecond}, [2]uint8{}, "int64_t",
		nil, nil, []arrow.DataType{arrow.FixedWidthTypes.Date64}},
	{ndview.Timedelta64("ns", 1), "<m8[ns]", "numpy.timedelta64", arrow.FixedWidthTypes.Duration_ns, [2]uint8{}, "int64_t",
		[]string{"timedelta64[ns]"}, nil, nil},
	{ndview.Datetime64("s", 25), "<M8[25s]", "numpy.datetime64", nil, [2]uint8{}, "int64_t", nil, nil, nil},
	{ndview.Timedelta64("generic", 1), "<m8", "numpy.timedelta64", nil, [2]uint8{}, "int64_t", []string{"m", "<m"}, nil, nil},
	{ndview.Bytes(3), "|V3", "r24", &arrow.FixedSizeBinaryType{ByteWidth: 3}, [2]uint8{}, "",
		[]string{"V3"}, nil, nil},
	{must(ndview.Packed(ndview.Field{Name: "a", DType: ndview.Int8})), `[["a","|i1"]]`, "", nil, [2]uint8{}, "", nil, nil, nil},
}

func TestTypesHaveTheirNamesEverywhereAndAreFoundByThem(t *testing.T) {
	for _, n := range typeNames {
		t.Run(n.dtype.String(), func(t *testing.T) {
			assert.Equal(t, n.numpy, n.dtype.NumPyIn('<'))
			for _, s := range append(n.otherNumPy, n.numpy) {
				assert.Equal(t, n.dtype, numpyType(t, s), s)
			}
			if n.dtype.Kind() != ndview.KindBytes && n.dtype.Kind() != ndview.KindRecord {
				assert.Equal(t, n.dtype, numpyType(t, n.dtype.String()))
			}

			zarr, err := n.dtype.ZarrName()
			checkName(t, n.zarr, zarr, err)
			if n.zarr != "" && !n.dtype.IsTime() {
				assert.Equal(t, n.dtype, must(ndview.ParseZarrName(zarr)))
			}

			as, err := n.dtype.Arrow()
			if n.arrow == nil {
				assert.ErrorIs(t, err, ndview.ErrDType)
			} else if assert.NoError(t, err) {
				assert.True(t, arrow.TypeEqual(n.arrow, as), "%s", as)
				assert.Equal(t, n.dtype, must(ndview.ParseArrow(as)))
			}
			for _, of := range n.otherByArrow {
				assert.Equal(t, n.dtype, must(ndview.ParseArrow(of)))
			}

			code, bits, lanes, err := n.dtype.DLPack()
			if n.dlpack[1] == 0 {
				assert.ErrorIs(t, err, ndview.ErrDType)
			} else if assert.NoError(t, err) {
				assert.Equal(t, n.dlpack, [2]uint8{code, bits})
				assert.EqualValues(t, 1, lanes)
				assert.Equal(t, n.dtype, must(ndview.ParseDLPack(code, bits, lanes)))
			}

			c, err := n.dtype.CName()
			checkName(t, n.c, c, err)
			for _, name := range n.otherC {
				assert.Equal(t, n.dtype, must(ndview.ParseCName(name)), name)
			}
			if n.c != "" && !n.dtype.IsTime() {
				assert.Equal(t, n.dtype, must(ndview.ParseCName(c)))
			}
		})
	}
}

func checkName(t *testing.T, want, got string, err error) {
	t.Helper()
	if want == "" {
		assert.ErrorIs(t, err, ndview.ErrDType)
		return
	}
	assert.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestNamesOfOtherTypesAreRefused(t *testing.T) {
	for _, name := range []string{"", "int", "float", "r0", "r7", "r08", "r-8", "r", "r99999999999", "string", "int32 ", "datetime64"} {
		_, err := ndview.ParseZarrName(name)
		assert.ErrorIs(t, err, ndview.ErrDType, "%q", name)
	}
	for _, name := range []string{"", "char", "long double", "void", "int *", "int128_t", "float2", "int int", "short long", "long long long", "unsigned signed", "signed float", "signed size_t", "signed int8_t", "signed unsigned int"} {
		_, err := ndview.ParseCName(name)
		assert.ErrorIs(t, err, ndview.ErrDType, "%q", name)
	}
	for _, d := range []struct {
		code, bits uint8
		lanes      uint16
	}{{0, 32, 4}, {2, 8, 1}, {3, 64, 1}, {0, 128, 1}, {4, 32, 1}, {6, 1, 1}, {17, 4, 1}, {2, 16, 0}} {
		_, err := ndview.ParseDLPack(d.code, d.bits, d.lanes)
		assert.ErrorIs(t, err, ndview.ErrDType, d)
	}
	for _, of := range []arrow.DataType{nil, arrow.Null, arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int8),
		&arrow.Decimal128Type{Precision: 20}, arrow.FixedWidthTypes.MonthInterval, &arrow.FixedSizeBinaryType{}} {
		_, err := ndview.ParseArrow(of)
		assert.ErrorIs(t, err, ndview.ErrDType, "%v", of)
	}
}

func TestExtensionTypesAreReadAsWhatTheyAreStoredAs(t *testing.T) {
	got, err := ndview.ParseArrow(extensions.NewBool8Type())
	require.NoError(t, err)
	assert.Equal(t, ndview.Int8, got)
}

func TestTypesThatCannotBeAreTheZeroType(t *testing.T) {
	for _, dtype := range []ndview.DType{
		ndview.Datetime64("fortnight", 1), ndview.Datetime64("s", 0), ndview.Timedelta64("", 1), ndview.Timedelta64("D", -1),
		ndview.Bytes(0), ndview.Bytes(-1),
	} {
		assert.Equal(t, ndview.DType{}, dtype)
		assert.Equal(t, "invalid", dtype.NumPy())
	}
	assert.Equal(t, ndview.Datetime64("generic", 1), ndview.Datetime64("generic", 7))
}

func TestByteOrdersAreAnswersBesideTheType(t *testing.T) {
	for s, want := range map[string]ndview.ByteOrder{
		"<i4": '<', ">i4": '>', "=i4": ndview.HostOrder, "i4": ndview.HostOrder, "|i4": ndview.HostOrder, ">M8[s]": '>', ">c8": '>',
		">i1": '|', "|b1": '|', ">V5": '|', "bool": '|', "bfloat16": ndview.HostOrder, ">bfloat16": '>', ">m8[3D]": '>',
		`[["a",">i4"],["b","|i1"],["c",[["d",">f8",[2]]]]]`: '>', `[["a","|i1"],["b","|V2"]]`: '|', `[["a","<i4"]]`: '<',
	} {
		dtype, order, err := ndview.ParseDType(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, order, s)
		again, order, err := ndview.ParseDType(dtype.NumPyIn(order))
		require.NoError(t, err, s)
		assert.Equal(t, dtype, again, s)
		assert.Equal(t, want, order, s)
	}
	_, _, err := ndview.ParseDType(`[["a",">i4"],["b","<i4"]]`)
	assert.ErrorIs(t, err, ndview.ErrDType)
	assert.ErrorContains(t, err, "both byte orders")
}
