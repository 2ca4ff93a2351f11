package zarr_test

import (
	"encoding/binary"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// records returns a struct with a nested struct and a subarray, and the metadata of an
// array of it.
func records(t *testing.T, shape []int64, isSharded bool) *zarr.ArrayMetadata {
	t.Helper()
	inner, err := element.Struct(element.Field{Name: "d", Type: element.Of(ndview.Uint8)}, element.Field{Name: "e", Type: element.Of(ndview.Float64)})
	require.NoError(t, err)
	of, err := element.Struct(element.Field{Name: "a", Type: element.Of(ndview.Int32)}, element.Field{Name: "b", Type: inner}, element.Field{Name: "c", Type: element.Of(ndview.Int16), Shape: []int64{2}})
	require.NoError(t, err)
	m := &zarr.ArrayMetadata{Format: 2, ChunkKeyEncoding: zarr.ChunkKeyEncoding{V2: true}, Shape: shape, ChunkShape: []int64{2, 3}, DataType: of, Codecs: zarr.DefaultCodecs(of, codec.Zstd{})}
	m.FillValue = make([]byte, of.Size())
	binary.LittleEndian.PutUint32(m.FillValue, 77)
	if isSharded { // Zarr v3 lacks subarrays
		of, err = element.Struct(element.Field{Name: "a", Type: element.Of(ndview.Int32)}, element.Field{Name: "b", Type: inner})
		require.NoError(t, err)
		m = &zarr.ArrayMetadata{Shape: shape, ChunkShape: []int64{2, 6}, DataType: of, FillValue: m.FillValue[:of.Size()]}
		m.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{1, 3}, Codecs: zarr.DefaultCodecs(of)}}
	}
	return m
}

// fieldOf returns the bytes of a field of records.
func fieldOf(t *testing.T, v element.Values, names ...string) []byte {
	t.Helper()
	nd := v.(*ndview.NDBuffer)
	nd.Retain()
	for _, name := range names {
		field, err := nd.Field(name)
		require.NoError(t, err)
		nd.Release()
		nd = field
	}
	defer nd.Release()
	return bytesOf(t, nd)
}

func TestFieldsOfRecordsAreReadAndWritten(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		to := zarr.PrototypeOn(dev)
		for _, isSharded := range []bool{false, true} {
			m := records(t, []int64{5, 7}, isSharded)
			a := create(t, store.NewMemory(), "a", m)
			dtype, _ := m.DataType.DType()
			read := func(v *zarr.View) element.Values {
				t.Helper()
				got, err := v.Read(ctx, to, 2)
				require.NoError(t, err)
				t.Cleanup(got.Release)
				return got
			}
			field := func(s zarr.Selection, names ...string) *zarr.View {
				t.Helper()
				v, err := a.View(s)
				require.NoError(t, err)
				for _, name := range names {
					v, err = v.Field(name)
					require.NoError(t, err)
				}
				return v
			}
			whole := func() element.Values { return read(field(zarr.Select())) }

			assert.Equal(t, fieldOf(t, whole(), "a"), bytesOf(t, read(field(zarr.Select(), "a"))), "fill values")
			raw := make([]byte, 35*dtype.Size())
			for i := range raw {
				raw[i] = byte(i * 7)
			}
			before, err := ndview.FromBytes(dev, dtype, raw, 5, 7)
			require.NoError(t, err)
			defer before.Release()
			require.NoError(t, a.Write(ctx, before, 1))

			selections := map[string]zarr.Selection{
				"all": zarr.Select(), "box": zarr.Select(zarr.Span(1, 4), zarr.Span(2, 6)), "row": zarr.Select(zarr.At(3)), "steps": zarr.Select(zarr.SpanStep(0, 5, 2), zarr.List(6, 0, 3)),
				"points": zarr.Points([]int64{4, 0, 2}, []int64{6, 1, 1}), "none": zarr.Select(zarr.Span(2, 2)),
			}
			fields := [][]string{{"a"}, {"b"}, {"b", "e"}, {"b", "d"}}
			if !isSharded {
				fields = append(fields, []string{"c"})
			}
			for name, s := range selections {
				for _, names := range fields {
					v := field(s, names...)
					want := fieldOf(t, read(field(s)), names...)
					got := read(v)
					require.Equal(t, v.Shape(), got.Shape())
					require.Equal(t, want, bytesOf(t, got), "%s of %v", name, names)

					// Other fields, and other elements, stay.
					expected, err := whole().(*ndview.NDBuffer).Copy(ndview.OrderC)
					require.NoError(t, err)
					changed := make([]byte, len(want))
					for i := range changed {
						changed[i] = byte(i*11 + len(name))
					}
					of := got.(*ndview.NDBuffer).DType()
					values, err := ndview.FromBytes(dev, of, changed, v.Shape()...)
					require.NoError(t, err)
					require.NoError(t, v.Write(ctx, values, 2), "%s of %v", name, names)
					values.Release()
					require.Equal(t, changed, bytesOf(t, read(v)), "%s of %v", name, names)
					others := whole()
					for _, other := range fields {
						if other[0] != names[0] {
							require.Equal(t, fieldOf(t, expected, other...), fieldOf(t, others, other...), "%v after %v was written", other, names)
						}
					}
					expected.Release()
				}
			}
			require.NoError(t, field(zarr.Select(zarr.At(0)), "b", "e").Write(ctx, 2.5, 1))
			one := read(field(zarr.Select(zarr.At(0), zarr.At(6)), "b", "e"))
			assert.Equal(t, []byte{0, 0, 0, 0, 0, 0, 4, 0x40}, bytesOf(t, one))

			// A field is selected before or after elements.
			first, err := field(zarr.Select(), "a").View(zarr.Select(zarr.At(4)))
			require.NoError(t, err)
			assert.Equal(t, bytesOf(t, read(field(zarr.Select(zarr.At(4)), "a"))), bytesOf(t, read(first)))
			_, err = first.Field("x")
			assert.ErrorIs(t, err, zarr.ErrSelection)
			_, err = field(zarr.Select()).Field("x")
			assert.ErrorContains(t, err, `"x"`)
			err = first.Write(ctx, "text", 1)
			assert.ErrorContains(t, err, "int32")
		}
	})
}

func TestSubarraysOfFieldsTakeScalars(t *testing.T) {
	m := records(t, []int64{2, 2}, false)
	a := create(t, store.NewMemory(), "a", m)
	v, err := a.View(zarr.Select(zarr.At(1)))
	require.NoError(t, err)
	v, err = v.Field("c")
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 2}, v.Shape())
	require.NoError(t, v.Write(ctx, 5, 1))
	got, err := a.Read(ctx, zarr.Prototype{}, 1)
	require.NoError(t, err)
	defer got.Release()
	assert.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 5, 0, 5, 0, 5, 0}, fieldOf(t, got, "c"))
	assert.Equal(t, []byte{77, 0, 0, 0, 77, 0, 0, 0, 77, 0, 0, 0, 77, 0, 0, 0}, fieldOf(t, got, "a"))
}

func TestFieldsOfOtherElementsAreErrors(t *testing.T) {
	a := create(t, store.NewMemory(), "a", ints([]int64{4}, []int64{2}))
	v, err := a.View(zarr.Select())
	require.NoError(t, err)
	_, err = v.Field("x")
	assert.ErrorIs(t, err, zarr.ErrSelection)
}
