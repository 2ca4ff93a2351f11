package dtype_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names are the names of a type in all formats, empty if none exists. docs/dtypes.md
// has this table.
type names struct {
	dt           dtype.DType
	numpy, zarr  string
	arrow        arrow.DataType
	dlpack       [2]uint8 // code and bits; 0 bits if none exists
	c            string
	otherNumPy   []string
	otherC       []string
	otherByArrow []arrow.DataType // Arrow types that parse as this type
}

var typeNames = []names{
	{dtype.Bool, "|b1", "bool", arrow.FixedWidthTypes.Boolean, [2]uint8{6, 8}, "bool",
		[]string{"?", "b1", "bool", "bool_"}, []string{"_Bool"}, nil},
	{dtype.Int8, "|i1", "int8", arrow.PrimitiveTypes.Int8, [2]uint8{0, 8}, "int8_t",
		[]string{"b", "byte"}, []string{"signed char"}, nil},
	{dtype.Int16, "<i2", "int16", arrow.PrimitiveTypes.Int16, [2]uint8{0, 16}, "int16_t",
		[]string{"h", "short"}, []string{"short", "short int", "signed short"}, nil},
	{dtype.Int32, "<i4", "int32", arrow.PrimitiveTypes.Int32, [2]uint8{0, 32}, "int32_t",
		[]string{"i", "intc"}, []string{"int", "signed", "signed int"},
		[]arrow.DataType{arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time32ms, &arrow.Decimal32Type{Precision: 5}}},
	{dtype.Int64, "<i8", "int64", arrow.PrimitiveTypes.Int64, [2]uint8{0, 64}, "int64_t",
		[]string{"q", "int", "p", "n"}, []string{"long long", "signed long long int", "ptrdiff_t"},
		[]arrow.DataType{arrow.FixedWidthTypes.Time64us, &arrow.Decimal64Type{Precision: 12}}},
	{dtype.Uint8, "|u1", "uint8", arrow.PrimitiveTypes.Uint8, [2]uint8{1, 8}, "uint8_t",
		[]string{"B"}, []string{"unsigned char"}, nil},
	{dtype.Uint16, "<u2", "uint16", arrow.PrimitiveTypes.Uint16, [2]uint8{1, 16}, "uint16_t",
		[]string{"H"}, []string{"unsigned short"}, nil},
	{dtype.Uint32, "<u4", "uint32", arrow.PrimitiveTypes.Uint32, [2]uint8{1, 32}, "uint32_t",
		[]string{"I"}, []string{"unsigned int", " unsigned  int "}, nil},
	{dtype.Uint64, "<u8", "uint64", arrow.PrimitiveTypes.Uint64, [2]uint8{1, 64}, "uint64_t",
		[]string{"Q", "N"}, []string{"unsigned long long", "unsigned long long int", "size_t"}, nil},
	{dtype.Float16, "<f2", "float16", arrow.FixedWidthTypes.Float16, [2]uint8{2, 16}, "__half",
		[]string{"e", "half"}, []string{"half", "_Float16"}, nil},
	{dtype.BFloat16, "bfloat16", "bfloat16", nil, [2]uint8{4, 16}, "__nv_bfloat16", nil, []string{"__bf16"}, nil},
	{dtype.Float32, "<f4", "float32", arrow.PrimitiveTypes.Float32, [2]uint8{2, 32}, "float",
		[]string{"f", "single"}, nil, nil},
	{dtype.Float64, "<f8", "float64", arrow.PrimitiveTypes.Float64, [2]uint8{2, 64}, "double",
		[]string{"d", "float"}, nil, nil},
	{dtype.Complex64, "<c8", "complex64", nil, [2]uint8{5, 64}, "cuFloatComplex",
		[]string{"F"}, []string{"float _Complex", "std::complex<float>"}, nil},
	{dtype.Complex128, "<c16", "complex128", nil, [2]uint8{5, 128}, "cuDoubleComplex",
		[]string{"D"}, []string{"double complex"}, nil},
	{dtype.Datetime64("us", 1), "<M8[us]", "numpy.datetime64", &arrow.TimestampType{Unit: arrow.Microsecond}, [2]uint8{}, "int64_t",
		[]string{"datetime64[us]"}, nil, []arrow.DataType{arrow.FixedWidthTypes.Timestamp_us}},
	{dtype.Datetime64("ms", 1), "<M8[ms]", "numpy.datetime64", &arrow.TimestampType{Unit: arrow.Millisecond}, [2]uint8{}, "int64_t",
		nil, nil, []arrow.DataType{arrow.FixedWidthTypes.Date64}},
	{dtype.Timedelta64("ns", 1), "<m8[ns]", "numpy.timedelta64", arrow.FixedWidthTypes.Duration_ns, [2]uint8{}, "int64_t",
		[]string{"timedelta64[ns]"}, nil, nil},
	{dtype.Datetime64("s", 25), "<M8[25s]", "numpy.datetime64", nil, [2]uint8{}, "int64_t", nil, nil, nil},
	{dtype.Timedelta64("generic", 1), "<m8", "numpy.timedelta64", nil, [2]uint8{}, "int64_t", []string{"m", "<m"}, nil, nil},
	{dtype.Bytes(3), "|V3", "r24", &arrow.FixedSizeBinaryType{ByteWidth: 3}, [2]uint8{}, "",
		[]string{"V3"}, nil, nil},
	{must(dtype.Packed(dtype.Field{Name: "a", DType: dtype.Int8})), `[["a","|i1"]]`, "", nil, [2]uint8{}, "", nil, nil, nil},
}

func TestTypeNamesRoundTrip(t *testing.T) {
	for _, n := range typeNames {
		t.Run(n.dt.String(), func(t *testing.T) {
			assert.Equal(t, n.numpy, n.dt.NumPyIn('<'))
			for _, s := range append(n.otherNumPy, n.numpy) {
				assert.Equal(t, n.dt, numpyType(t, s), s)
			}
			if n.dt.Kind() != dtype.KindBytes && n.dt.Kind() != dtype.KindRecord {
				assert.Equal(t, n.dt, numpyType(t, n.dt.String()))
			}

			zarr, err := n.dt.ZarrName()
			checkName(t, n.zarr, zarr, err)
			if n.zarr != "" && !n.dt.IsTime() {
				assert.Equal(t, n.dt, must(dtype.ParseZarrName(zarr)))
			}

			as, err := n.dt.Arrow()
			if n.arrow == nil {
				assert.ErrorIs(t, err, dtype.ErrDType)
			} else if assert.NoError(t, err) {
				assert.True(t, arrow.TypeEqual(n.arrow, as), "%s", as)
				assert.Equal(t, n.dt, must(dtype.ParseArrow(as)))
			}
			for _, of := range n.otherByArrow {
				assert.Equal(t, n.dt, must(dtype.ParseArrow(of)))
			}

			code, bits, lanes, err := n.dt.DLPack()
			if n.dlpack[1] == 0 {
				assert.ErrorIs(t, err, dtype.ErrDType)
			} else if assert.NoError(t, err) {
				assert.Equal(t, n.dlpack, [2]uint8{code, bits})
				assert.EqualValues(t, 1, lanes)
				assert.Equal(t, n.dt, must(dtype.ParseDLPack(code, bits, lanes)))
			}

			c, err := n.dt.CName()
			checkName(t, n.c, c, err)
			for _, name := range n.otherC {
				assert.Equal(t, n.dt, must(dtype.ParseCName(name)), name)
			}
			if n.c != "" && !n.dt.IsTime() {
				assert.Equal(t, n.dt, must(dtype.ParseCName(c)))
			}
		})
	}
}

func checkName(t *testing.T, want, got string, err error) {
	t.Helper()
	if want == "" {
		assert.ErrorIs(t, err, dtype.ErrDType)
		return
	}
	assert.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestUnknownTypeNamesAreRefused(t *testing.T) {
	for _, name := range []string{"", "int", "float", "r0", "r7", "r08", "r-8", "r", "r99999999999", "string", "int32 ", "datetime64"} {
		_, err := dtype.ParseZarrName(name)
		assert.ErrorIs(t, err, dtype.ErrDType, "%q", name)
	}
	for _, name := range []string{"", "char", "long double", "void", "int *", "int128_t", "float2", "int int", "short long", "long long long", "unsigned signed", "signed float", "signed size_t", "signed int8_t", "signed unsigned int"} {
		_, err := dtype.ParseCName(name)
		assert.ErrorIs(t, err, dtype.ErrDType, "%q", name)
	}
	for _, d := range []struct {
		code, bits uint8
		lanes      uint16
	}{{0, 32, 4}, {2, 8, 1}, {3, 64, 1}, {0, 128, 1}, {4, 32, 1}, {6, 1, 1}, {17, 4, 1}, {2, 16, 0}} {
		_, err := dtype.ParseDLPack(d.code, d.bits, d.lanes)
		assert.ErrorIs(t, err, dtype.ErrDType, d)
	}
	for _, of := range []arrow.DataType{nil, arrow.Null, arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int8),
		&arrow.Decimal128Type{Precision: 20}, arrow.FixedWidthTypes.MonthInterval, &arrow.FixedSizeBinaryType{}} {
		_, err := dtype.ParseArrow(of)
		assert.ErrorIs(t, err, dtype.ErrDType, "%v", of)
	}
}

func TestExtensionTypesParseAsStorageType(t *testing.T) {
	got, err := dtype.ParseArrow(extensions.NewBool8Type())
	require.NoError(t, err)
	assert.Equal(t, dtype.Int8, got)
}

func TestParseDTypeReturnsByteOrder(t *testing.T) {
	for s, want := range map[string]dtype.ByteOrder{
		"<i4": '<', ">i4": '>', "=i4": dtype.HostOrder, "i4": dtype.HostOrder, "|i4": dtype.HostOrder, ">M8[s]": '>', ">c8": '>',
		">i1": '|', "|b1": '|', ">V5": '|', "bool": '|', "bfloat16": dtype.HostOrder, ">bfloat16": '>', ">m8[3D]": '>',
		`[["a",">i4"],["b","|i1"],["c",[["d",">f8",[2]]]]]`: '>', `[["a","|i1"],["b","|V2"]]`: '|', `[["a","<i4"]]`: '<',
	} {
		dt, order, err := dtype.ParseDType(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, order, s)
		again, order, err := dtype.ParseDType(dt.NumPyIn(order))
		require.NoError(t, err, s)
		assert.Equal(t, dt, again, s)
		assert.Equal(t, want, order, s)
	}
	_, _, err := dtype.ParseDType(`[["a",">i4"],["b","<i4"]]`)
	assert.ErrorIs(t, err, dtype.ErrDType)
	assert.ErrorContains(t, err, "both byte orders")
}

func TestTypeStringsMatchNumPy(t *testing.T) {
	for _, c := range loadGoldenTypes(t).Strings {
		s, str, name := c[0], c[1], c[2]
		dt, order, err := dtype.ParseDType(s)
		if str == "" {
			assert.ErrorIs(t, err, dtype.ErrDType, "%q", s)
			continue
		}
		if !assert.NoError(t, err) {
			continue
		}
		assert.Equal(t, dtype.ByteOrder(str[0]), order, s)
		assert.Equal(t, str, dt.NumPyIn(order), s)
		if dt.Kind() != dtype.KindBytes { // "void40"
			assert.Equal(t, name, dt.String(), s)
		}
	}
}

func FuzzParseDType(f *testing.F) {
	for _, n := range typeNames {
		f.Add(n.numpy)
		f.Add(n.dt.String())
	}
	f.Add(`{"names":["b","a"],"formats":["<f8",["<i4",[2]]],"offsets":[8,0],"itemsize":20,"aligned":false,"titles":[]}`)
	f.Add(`[[["t","a"],">i4",3],["b",[["c",">f2"]]]]`)
	f.Fuzz(func(t *testing.T, s string) {
		dt, order, err := dtype.ParseDType(s)
		if err != nil {
			require.ErrorIs(t, err, dtype.ErrDType)
			return
		}
		require.Positive(t, dt.Size())
		text := dt.NumPyIn(order)
		again, sameOrder, err := dtype.ParseDType(text)
		require.NoError(t, err, text)
		require.Equal(t, fmt.Sprint(dt, order), fmt.Sprint(again, sameOrder))
		require.True(t, dt == again, text)
		require.True(t, dtype.CanCast(dt, again, dtype.CastNo))
	})
}
