package ndview_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/tensor"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// toArrow is ndview.ToArrow for tests; it checks the column's length and device.
func toArrow(t *testing.T, a *ndview.NDBuffer, o ndview.ArrowOptions) arrow.Array {
	t.Helper()
	column, err := ndview.ToArrow(a, o)
	ndtest.Own(t, column, err)
	assert.EqualValues(t, a.Shape()[0], column.Len())
	assert.Equal(t, a.Device(), arrowbuf.DeviceOf(column))
	return column
}

// onHost returns a column in host memory.
func onHost(t *testing.T, column arrow.Array) arrow.Array {
	t.Helper()
	if d, ok := column.(*arrowbuf.Array); ok {
		host, err := arrowbuf.CopyArrayTo(d, arrowbuf.CPU())
		return ndtest.Own(t, host, err)
	}
	return column
}

func assertColumn(t *testing.T, want arrow.DataType, json string, got arrow.Array) {
	t.Helper()
	assert.True(t, arrow.TypeEqual(want, got.DataType()), "%s, not %s", got.DataType(), want)
	host := onHost(t, got)
	if ext, ok := host.(array.ExtensionArray); ok {
		host, want = ext.Storage(), ext.Storage().DataType()
	}
	assert.True(t, array.Equal(fromJSON(t, want, json), host), "%s, not %s", host, json)
}

func TestToArrowMakesColumnsOfEveryType(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range columnCases {
			column := fromJSON(t, tt.dtype, tt.json)
			moved, err := arrowbuf.CopyArrayTo(column, dev)
			ndtest.Own(t, moved, err)
			a, err := ndview.FromArrow(moved)
			ndtest.Own(t, a, err)
			back := toArrow(t, a, ndview.ArrowOptions{Lists: true})
			again, err := ndview.FromArrow(back)
			ndtest.Own(t, again, err)
			assert.Equal(t, a.DType(), again.DType(), tt.dtype)
			assert.Equal(t, a.Shape(), again.Shape(), tt.dtype)
			assert.Equal(t, tt.values, ndtest.Elements(t, again), tt.dtype)
		}
		assertColumn(t, arrow.FixedWidthTypes.Float16, `[1, -2]`, toArrow(t, ndtest.FromHost(t, dev, ndview.Float16, []uint16{0x3c00, 0xc000}, 2), ndview.ArrowOptions{}))
		assertColumn(t, &arrow.TimestampType{Unit: arrow.Microsecond}, `[1, -9223372036854775808]`,
			toArrow(t, ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Microsecond, 1), []int64{1, -1 << 63}, 2), ndview.ArrowOptions{}))
		assertColumn(t, arrow.FixedWidthTypes.Duration_s, `[1, 2]`,
			toArrow(t, ndtest.FromHost(t, dev, ndview.Timedelta64(ndview.Second, 1), []int64{1, 2}, 2), ndview.ArrowOptions{}))
		assertColumn(t, &arrow.FixedSizeBinaryType{ByteWidth: 3}, `["YWJj", "ZGVm"]`,
			toArrow(t, ndtest.At(t, ndtest.Upload(t, dev, []byte("abcdef")), ndview.Bytes(3), 0, 2), ndview.ArrowOptions{}))
	})
}

func TestToArrowPacksBooleans(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 1000} {
			values := make([]bool, n)
			json := "["
			for i := range values {
				values[i] = i*i%7 < 3
				if i > 0 {
					json += ","
				}
				json += fmt.Sprint(values[i])
			}
			assertColumn(t, arrow.FixedWidthTypes.Boolean, json+"]", toArrow(t, ndtest.FromHost(t, dev, ndview.Bool, values, int64(n)), ndview.ArrowOptions{}))
		}
	})
}

func TestToArrowSharesMemoryInCOrder(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(24), 4, 3, 2)
	rows, err := a.Slice(0, 1, 3)
	ndtest.Own(t, rows, err)
	host, ok := rows.HostBytes()
	require.True(t, ok)
	for _, lists := range []bool{true, false} {
		column := toArrow(t, rows, ndview.ArrowOptions{Lists: lists})
		data := column.Data()
		for len(data.Children()) > 0 {
			data = data.Children()[0]
		}
		assert.Same(t, &host[0], &data.Buffers()[1].Bytes()[0])
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(24), 4, 3, 2)
		before := dev.MemoryStats().InUse
		column := toArrow(t, a, ndview.ArrowOptions{})
		assert.Equal(t, before, dev.MemoryStats().InUse)
		back, err := ndview.FromArrow(column)
		ndtest.Own(t, back, err)
		assert.Equal(t, a.Buffer().Address(), back.Buffer().Address()+uintptr(back.Offset()))
	})
}

func TestToArrowRetainsArrayMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.FromHost(dev, ndview.Int32, count(3), 3)
		require.NoError(t, err)
		column := toArrow(t, a, ndview.ArrowOptions{})
		a.Release()
		assertColumn(t, arrow.PrimitiveTypes.Int32, `[0, 1, 2]`, column)
	})
}

func TestToArrowDescribesTensorMemoryOrder(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(2*3*4*5), 2, 3, 4, 5)
		for _, order := range [][]int{{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}} {
			transposed, err := a.Transpose(order...)
			ndtest.Own(t, transposed, err)
			column := toArrow(t, transposed, ndview.ArrowOptions{DimNames: []string{"a", "b", "c"}})
			form := column.DataType().(*ndview.TensorType)
			assert.Equal(t, []int64{3, 4, 5}, form.Shape(), "in memory order")
			names := make([]string, 3)
			for i, axis := range order[1:] {
				names[axis-1] = string(rune('a' + i))
			}
			assert.Equal(t, names, form.DimNames())
			back, err := ndview.FromArrow(column)
			ndtest.Own(t, back, err)
			assert.Equal(t, transposed.Shape(), back.Shape())
			assert.Equal(t, transposed.Strides(), back.Strides())
			assert.Equal(t, ndtest.Elements(t, transposed), ndtest.Elements(t, back))
		}
		// Rows in another order, or backwards, are copied.
		for _, order := range [][]int{{1, 0, 2, 3}, {3, 2, 1, 0}} {
			transposed, err := a.Transpose(order...)
			ndtest.Own(t, transposed, err)
			column := toArrow(t, transposed, ndview.ArrowOptions{})
			assert.Nil(t, column.DataType().(*ndview.TensorType).Permutation())
			back, err := ndview.FromArrow(column)
			ndtest.Own(t, back, err)
			assert.Equal(t, transposed.Shape(), back.Shape())
			assert.True(t, back.IsContiguous())
			assert.Equal(t, ndtest.Elements(t, transposed), ndtest.Elements(t, back))
		}
		backwards, err := ndview.FromBuffer(a.Buffer(), ndview.Int32, 4*5, []int64{2, 3}, []int64{12, -4})
		ndtest.Own(t, backwards, err)
		back, err := ndview.FromArrow(toArrow(t, backwards, ndview.ArrowOptions{}))
		ndtest.Own(t, back, err)
		assert.Equal(t, ndtest.Raw[int32](5, 4, 3, 8, 7, 6), ndtest.Elements(t, back))
	})
}

func TestToArrowAlignsElements(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		odd := ndtest.At(t, ndtest.Upload(t, dev, append([]byte{0}, ndtest.Raw[int32](7, 8)...)), ndview.Int32, 1, 2)
		assertColumn(t, arrow.PrimitiveTypes.Int32, `[7, 8]`, toArrow(t, odd, ndview.ArrowOptions{}))
	})
}

func TestToArrowTakesNullsFromMask(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(3), 3)
		mask := ndtest.FromHost(t, dev, ndview.Bool, []bool{false, true, false}, 3)
		column := toArrow(t, a, ndview.ArrowOptions{Mask: mask})
		assertColumn(t, arrow.PrimitiveTypes.Int32, `[0, null, 2]`, column)
		assert.Equal(t, 1, column.NullN())

		none := ndtest.FromHost(t, dev, ndview.Bool, []bool{false, false, false}, 3)
		assert.Zero(t, toArrow(t, a, ndview.ArrowOptions{Mask: none}).NullN())

		pairs := ndtest.FromHost(t, dev, ndview.Int32, count(4), 2, 2)
		mask = ndtest.FromHost(t, dev, ndview.Bool, []bool{false, true, false, false}, 2, 2)
		assertColumn(t, listOf(2, arrow.PrimitiveTypes.Int32), `[[0, null], [2, 3]]`, toArrow(t, pairs, ndview.ArrowOptions{Mask: mask, Lists: true}))

		// The mask is permuted as the tensors are.
		cube, transposedMask := ndtest.FromHost(t, dev, ndview.Int32, count(6), 1, 3, 2), ndtest.FromHost(t, dev, ndview.Bool, []bool{false, false, false, true, false, false}, 1, 2, 3)
		transposed, err := cube.Transpose(0, 2, 1)
		ndtest.Own(t, transposed, err)
		values, got, err := ndview.FromArrowMasked(toArrow(t, transposed, ndview.ArrowOptions{Mask: transposedMask}))
		ndtest.Own(t, values, err)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Elements(t, transposed), ndtest.Elements(t, values))
		assert.Equal(t, ndtest.Elements(t, transposedMask), ndtest.Elements(t, got))
	})
}

func TestToArrowRefusesUnsupportedArrays(t *testing.T) {
	dev := arrowbuf.CPU()
	refuses := func(want error, about string, a *ndview.NDBuffer, o ndview.ArrowOptions) {
		t.Helper()
		_, err := ndview.ToArrow(a, o)
		assert.ErrorIs(t, err, want)
		assert.ErrorContains(t, err, about)
	}
	bytes := ndtest.Upload(t, dev, make([]byte, 64))
	for _, dtype := range []ndview.DType{ndview.BFloat16, ndview.Complex64, ndview.Complex128, ndview.Datetime64(ndview.Day, 1),
		ndview.Datetime64(ndview.Second, 25), ndview.Timedelta64(ndview.Day, 1)} {
		refuses(ndview.ErrDType, dtype.String(), ndtest.At(t, bytes, dtype, 0, 2), ndview.ArrowOptions{})
	}
	refuses(ndview.ErrShape, "no axis", ndtest.At(t, bytes, ndview.Int8, 0), ndview.ArrowOptions{})
	for _, lists := range []bool{true, false} {
		refuses(ndview.ErrShape, "fixed_size_list of 0", ndtest.At(t, bytes, ndview.Int8, 0, 2, 0), ndview.ArrowOptions{Lists: lists})
		wide, err := ndview.FromBuffer(bytes, ndview.Int8, 0, []int64{1, 1 << 31}, []int64{0, 0})
		ndtest.Own(t, wide, err)
		refuses(ndview.ErrShape, "fixed_size_list of 2147483648", wide, ndview.ArrowOptions{Lists: lists})
	}
	a := ndtest.At(t, bytes, ndview.Int8, 0, 2, 3)
	refuses(ndview.ErrShape, "names", a, ndview.ArrowOptions{DimNames: []string{"a", "b"}})
	refuses(ndview.ErrShape, "names", a, ndview.ArrowOptions{DimNames: []string{"a"}, Lists: true})
	refuses(ndview.ErrDType, "mask of int8", a, ndview.ArrowOptions{Mask: a})
	refuses(ndview.ErrShape, "mask of shape [3 2]", a, ndview.ArrowOptions{Mask: ndtest.At(t, bytes, ndview.Bool, 0, 3, 2)})
	refuses(arrowbuf.ErrDevice, "mask on", a, ndview.ArrowOptions{Mask: ndtest.At(t, ndtest.Upload(t, ndtest.OtherThan(t, dev), make([]byte, 6)), ndview.Bool, 0, 2, 3)})
}

func TestFromArrowMaskedMarksNulls(t *testing.T) {
	i32 := arrow.PrimitiveTypes.Int32
	pairs, nested := listOf(2, i32), listOf(2, listOf(2, i32))
	tests := []struct {
		name  string
		dtype arrow.DataType
		json  string
		i, j  int
		shape []int64
		want  []bool // nil if no mask is expected
	}{
		{"none", i32, `[1, 2]`, 0, 2, []int64{2}, nil},
		{"elements", i32, `[1, null, 3, null]`, 0, 4, []int64{4}, []bool{false, true, false, true}},
		{"elements of a slice", i32, `[1, null, 3, null]`, 1, 3, []int64{2}, []bool{true, false}},
		{"none of a slice", i32, `[1, null, 3, 4]`, 2, 4, []int64{2}, nil},
		{"booleans", arrow.FixedWidthTypes.Boolean, `[true, null]`, 0, 2, []int64{2}, []bool{false, true}},
		{"a row", pairs, `[[1, 2], null, [3, 4]]`, 0, 3, []int64{3, 2}, []bool{false, false, true, true, false, false}},
		{"an element of a row", pairs, `[[1, 2], [null, 3]]`, 0, 2, []int64{2, 2}, []bool{false, false, true, false}},
		{"both", pairs, `[[1, 2], null, [null, 3]]`, 1, 3, []int64{2, 2}, []bool{true, true, true, false}},
		{"an inner list", nested, `[[[1, 2], null], [null, [3, null]]]`, 0, 2, []int64{2, 2, 2}, []bool{false, false, true, true, true, true, false, true}},
		{"all levels", nested, `[null, [null, [3, null]], [[1, 2], [3, 4]]]`, 0, 2, []int64{2, 2, 2}, []bool{true, true, true, true, true, true, false, true}},
		{"no rows", pairs, `[null]`, 1, 1, []int64{0, 2}, nil},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			forSlice(t, dev, fromJSON(t, tt.dtype, tt.json), tt.i, tt.j, func(t *testing.T, column arrow.Array) {
				values, mask, err := ndview.FromArrowMasked(column)
				require.NoError(t, err, tt.name)
				defer values.Release()
				assert.Equal(t, tt.shape, values.Shape(), tt.name)
				if tt.want == nil {
					assert.Nil(t, mask, tt.name)
					return
				}
				require.NotNil(t, mask, tt.name)
				defer mask.Release()
				assert.Equal(t, dev, mask.Device())
				assert.Equal(t, tt.shape, mask.Shape(), tt.name)
				got, err := ndview.ToHost[bool](mask)
				require.NoError(t, err)
				assert.Equal(t, tt.want, got, tt.name)
			})
		}
	})
}

func TestFromArrowMaskedLeaksNothingOnError(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		validity := ndtest.Upload(t, dev, []byte{1}).Arrow()
		defer validity.Release()
		data := array.NewData(arrow.PrimitiveTypes.Int32, 2, []*memory.Buffer{validity, memory.NewBufferBytes(make([]byte, 4))}, nil, 1, 0)
		defer data.Release()
		_, mask, err := ndview.FromArrowMasked(fakeColumn{data: data})
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		assert.Nil(t, mask)
	})
}

func TestFromArrowPermutesTensors(t *testing.T) {
	form, err := ndview.NewTensorType(arrow.PrimitiveTypes.Int32, []int64{3, 2}, []int{1, 0}, []string{"x", "y"})
	require.NoError(t, err)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		storage := fromJSON(t, form.Storage, `[[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]`)
		column := array.NewExtensionArrayWithStorage(form, storage)
		defer column.Release()
		moved, err := arrowbuf.CopyArrayTo(column, dev)
		ndtest.Own(t, moved, err)
		a, err := ndview.FromArrow(moved)
		ndtest.Own(t, a, err)
		assert.Equal(t, []int64{2, 2, 3}, a.Shape())
		assert.Equal(t, ndtest.Raw[int32](0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11), ndtest.Elements(t, a))
	})
}

func TestTensorTypesRoundTripMetadata(t *testing.T) {
	form, err := ndview.NewTensorType(arrow.PrimitiveTypes.Int32, []int64{100, 200, 500}, []int{2, 0, 1}, []string{"H", "W", "C"})
	require.NoError(t, err)
	assert.Equal(t, "arrow.fixed_shape_tensor", form.ExtensionName())
	assert.Equal(t, `{"shape":[100,200,500],"permutation":[2,0,1],"dim_names":["H","W","C"]}`, form.Serialize())
	assert.Equal(t, `extension<arrow.fixed_shape_tensor[int32, {"shape":[100,200,500],"permutation":[2,0,1],"dim_names":["H","W","C"]}]>`, form.String())
	back, err := (&ndview.TensorType{}).Deserialize(form.StorageType(), form.Serialize())
	require.NoError(t, err)
	assert.True(t, form.ExtensionEquals(back))

	plain, err := ndview.NewTensorType(arrow.PrimitiveTypes.Int32, []int64{100, 200, 500}, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, `{"shape":[100,200,500]}`, plain.Serialize())
	assert.False(t, plain.ExtensionEquals(form))
	for _, text := range []string{`{`, `{"shape":[2,3]}`, `{"shape":[-10000000,-1]}`, `{"shape":[10000000],"permutation":[1]}`,
		`{"shape":[5000,2000],"permutation":[1,1]}`, `{"shape":[5000,2000],"permutation":[1]}`, `{"shape":[5000,2000],"dim_names":["x"]}`} {
		_, err := plain.Deserialize(plain.StorageType(), text)
		assert.Error(t, err, text)
	}
	_, err = plain.Deserialize(arrow.PrimitiveTypes.Int32, plain.Serialize())
	assert.ErrorIs(t, err, ndview.ErrDType)
	_, err = ndview.NewTensorType(arrow.PrimitiveTypes.Int32, []int64{2, 0}, nil, nil)
	assert.ErrorIs(t, err, ndview.ErrShape)
}

func TestFromTensorViewsArrowTensors(t *testing.T) {
	values := fromJSON(t, arrow.PrimitiveTypes.Float64, `[0, 1, 2, 3, 4, 5]`).Data()
	for _, tt := range []struct {
		strides []int64
		want    []byte
	}{
		{nil, ndtest.Raw[float64](0, 1, 2, 3, 4, 5)},
		{[]int64{8, 16}, ndtest.Raw[float64](0, 2, 4, 1, 3, 5)},
	} {
		source := tensor.New(values, []int64{2, 3}, tt.strides, nil)
		a, err := ndview.FromTensor(source)
		source.Release()
		ndtest.Own(t, a, err)
		assert.Equal(t, []int64{2, 3}, a.Shape())
		assert.Equal(t, tt.want, ndtest.Elements(t, a))
	}
	beyond := tensor.New(values, []int64{2, 3}, []int64{8, 32}, nil)
	defer beyond.Release()
	_, err := ndview.FromTensor(beyond)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	missing := tensor.New(fromJSON(t, arrow.PrimitiveTypes.Float64, `[0, null]`).Data(), []int64{2}, nil, nil)
	defer missing.Release()
	_, err = ndview.FromTensor(missing)
	assert.ErrorIs(t, err, ndview.ErrNulls)
}

func FuzzTensorTypesOfAnyText(f *testing.F) {
	for _, text := range []string{`{"shape":[2,3]}`, `{"shape":[3,2],"permutation":[1,0],"dim_names":["a","b"]}`, `{"shape":[6,1,1]}`, `{"shape":[-2,-3]}`, `{"shape":[]}`, `[]`, `{`} {
		f.Add(text)
	}
	storage := listOf(6, arrow.PrimitiveTypes.Int8)
	f.Fuzz(func(t *testing.T, text string) {
		form, err := (&ndview.TensorType{}).Deserialize(storage, text)
		if err != nil {
			return
		}
		again, err := (&ndview.TensorType{}).Deserialize(storage, form.Serialize())
		require.NoError(t, err)
		assert.True(t, form.ExtensionEquals(again))
		column := array.NewExtensionArrayWithStorage(form, fromJSON(t, storage, `[[0, 1, 2, 3, 4, 5]]`))
		defer column.Release()
		a, err := ndview.FromArrow(column)
		assert.EqualValues(t, 6, ndtest.Own(t, a, err).Size())
	})
}
