package ndview_test

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFromBufferChecksBounds(t *testing.T) {
	const size = 48 // bytes of the buffer
	ok, outside := error(nil), arrowbuf.ErrOutOfRange
	tests := []struct {
		name    string
		dtype   ndview.DType
		offset  int64
		shape   []int64
		strides []int64
		want    error
	}{
		{"all of it", ndview.Int32, 0, []int64{3, 4}, nil, ok},
		{"one byte beyond", ndview.Int32, 1, []int64{3, 4}, nil, outside},
		{"one row beyond", ndview.Int32, 0, []int64{4, 4}, nil, outside},
		{"no axes at the end", ndview.Int64, 40, nil, nil, ok},
		{"no axes beyond the end", ndview.Int64, 41, nil, nil, outside},
		{"before the start", ndview.Int8, -1, []int64{1}, nil, outside},
		{"no elements at the end", ndview.Int32, 48, []int64{0}, nil, ok},
		{"no elements beyond the end", ndview.Int32, 49, []int64{0}, nil, outside},
		{"no elements before the start", ndview.Int32, -1, []int64{0}, nil, outside},
		{"no elements with wild strides", ndview.Int32, 0, []int64{5, 0}, []int64{1 << 62, 1 << 62}, ok},
		{"backwards", ndview.Int32, 44, []int64{12}, []int64{-4}, ok},
		{"backwards beyond the start", ndview.Int32, 43, []int64{12}, []int64{-4}, outside},
		{"backwards beyond the end", ndview.Int32, 45, []int64{12}, []int64{-4}, outside},
		{"both ways", ndview.Int8, 40, []int64{6, 8}, []int64{-8, 1}, ok},
		{"repeated", ndview.Int32, 44, []int64{1000}, []int64{0}, ok},
		{"wild stride of an axis of 1", ndview.Int8, 0, []int64{1, 48}, []int64{math.MinInt64, 1}, ok},
		{"too large a stride", ndview.Int8, 0, []int64{2}, []int64{48}, outside},
		{"a stride whose reach wraps to 0", ndview.Int8, 0, []int64{5}, []int64{1 << 62}, outside},
		{"a stride whose reach wraps below 0", ndview.Int8, 0, []int64{3}, []int64{1 << 62}, outside},
		{"the smallest stride", ndview.Int8, 0, []int64{2}, []int64{math.MinInt64}, outside},
		{"the smallest stride, wrapping", ndview.Int8, 0, []int64{3}, []int64{math.MinInt64}, outside},
		{"reaches that cancel", ndview.Int8, 0, []int64{2, 2}, []int64{math.MaxInt64, -math.MaxInt64}, outside},
		{"reaches that wrap together", ndview.Int8, 0, []int64{2, 2, 2}, []int64{math.MaxInt64, math.MaxInt64, 2}, outside},
		{"the largest offset", ndview.Int64, math.MaxInt64, nil, nil, outside},
		{"the smallest offset", ndview.Int64, math.MinInt64, []int64{2}, []int64{-8}, outside},
		{"fewer strides than axes", ndview.Int8, 0, []int64{2, 2}, []int64{1}, ndview.ErrShape},
		{"strides for no axes", ndview.Int8, 0, nil, []int64{1}, ndview.ErrShape},
		{"a negative extent", ndview.Int8, 0, []int64{-1}, nil, ndview.ErrShape},
		{"no dtype", ndview.DType{}, 0, []int64{1}, nil, ndview.ErrDType},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := ndtest.Upload(t, dev, make([]byte, size))
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				a, err := ndview.FromBuffer(buf, tt.dtype, tt.offset, tt.shape, tt.strides)
				if tt.want != nil {
					require.ErrorIs(t, err, tt.want)
					return
				}
				ndtest.Own(t, a, err)
				assert.NoError(t, a.CopyToHost(make([]byte, a.NBytes())))
			})
		}
	})
}

func TestFromBufferCopiesShapeAndStrides(t *testing.T) {
	buf := ndtest.Upload(t, arrowbuf.CPU(), make([]byte, 24))
	shape, strides := []int64{2, 3}, []int64{12, 4}
	a, err := ndview.FromBuffer(buf, ndview.Int32, 0, shape, strides)
	ndtest.Own(t, a, err)
	shape[0], strides[0] = 99, 99
	assert.Equal(t, []int64{2, 3}, a.Shape())
	assert.Equal(t, []int64{12, 4}, a.Strides())
}

func TestIsContiguousMeansCOrderWithoutGaps(t *testing.T) {
	buf := ndtest.Upload(t, arrowbuf.CPU(), make([]byte, 1024))
	tests := []struct {
		name           string
		shape, strides []int64
		want           bool
	}{
		{"C order", []int64{2, 3}, []int64{12, 4}, true},
		{"Fortran order", []int64{2, 3}, []int64{4, 8}, false},
		{"gaps between rows", []int64{2, 3}, []int64{16, 4}, false},
		{"gaps between elements", []int64{6}, []int64{8}, false},
		{"backwards", []int64{3}, []int64{-4}, false},
		{"repeated", []int64{3}, []int64{0}, false},
		{"any stride of an axis of 1", []int64{1, 3, 1}, []int64{-7, 4, 99}, true},
		{"one element", []int64{1, 1}, []int64{0, 0}, true},
		{"any strides of no elements", []int64{0, 3}, []int64{1, 77}, true},
		{"any strides of no elements, 0 last", []int64{3, 0}, []int64{1, 77}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := ndview.FromBuffer(buf, ndview.Int32, 512, tt.shape, tt.strides)
			ndtest.Own(t, a, err)
			assert.Equal(t, tt.want, a.IsContiguous())
		})
	}
}

func TestEmptyArraysAreContiguousInBothOrders(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(24), 2, 3, 4)
	none := index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1), ndview.Span(2, 1), ndview.SpanStep(0, 4, 2))
	f := none.Flags()
	assert.True(t, f.CContiguous && f.FContiguous && f.Aligned)
}

func TestFlagsDependOnLayoutOnly(t *testing.T) {
	fresh := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 1, 6)
	view := index(t, fresh, ndview.All)
	assert.True(t, fresh.Flags().CContiguous && fresh.Flags().FContiguous)
	assert.True(t, view.Flags().CContiguous && view.Flags().FContiguous)
	assert.True(t, fresh.Flags().OwnData)
	assert.False(t, view.Flags().OwnData)
	assert.Equal(t, "C_CONTIGUOUS : true\nF_CONTIGUOUS : true\nOWNDATA : false\nWRITEABLE : true\nALIGNED : true", view.Flags().String())
}

// The expected values are those of numpy.ndarray.flags, by its documentation.
func TestDerivedFlagsMatchNumPy(t *testing.T) {
	for bits := range 32 {
		has := func(bit int) bool { return bits>>bit&1 != 0 }
		c, f, o, a, w := has(0), has(1), has(2), has(3), has(4)
		flags := ndview.Flags{CContiguous: c, FContiguous: f, OwnData: o, Aligned: a, Writeable: w}
		num := 0
		for flag, set := range map[int]bool{0x1: c, 0x2: f, 0x4: o, 0x100: a, 0x400: w} {
			if set {
				num |= flag
			}
		}
		assert.Equal(t, num, flags.Num(), flags)
		for names, want := range map[string]bool{
			"C_CONTIGUOUS CONTIGUOUS C": c, "F_CONTIGUOUS FORTRAN F": f, "OWNDATA O": o, "ALIGNED A": a, "WRITEABLE W": w,
			"WRITEBACKIFCOPY X UPDATEIFCOPY U": false, "BEHAVED B": a && w, "CARRAY CA": a && w && c,
			"FARRAY FA": a && w && f && !c, "FNC": f && !c, "FORC": f || c,
		} {
			for name := range strings.FieldsSeq(names) {
				got, err := flags.Lookup(name)
				require.NoError(t, err, name)
				assert.Equal(t, want, got, "%s of %v", name, flags)
			}
		}
	}
	_, err := ndview.Flags{}.Lookup("c")
	assert.ErrorIs(t, err, ndview.ErrFlag)
}

// NumPy's flag too depends on the address of the memory, not on the offset in a buffer.
func TestAlignedFlagDependsOnTheAddress(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		whole := ndtest.Upload(t, dev, make([]byte, 64))
		odd, err := whole.Slice(1, 63)
		ndtest.Own(t, odd, err)
		assert.True(t, ndtest.At(t, whole, ndview.Int64, 8, 3).Flags().Aligned)
		assert.False(t, ndtest.At(t, whole, ndview.Int64, 4, 3).Flags().Aligned)
		assert.True(t, ndtest.At(t, whole, ndview.Int32, 4, 3).Flags().Aligned)
		assert.False(t, ndtest.At(t, odd, ndview.Int64, 0, 3).Flags().Aligned)
		assert.True(t, ndtest.At(t, odd, ndview.Int64, 7, 3).Flags().Aligned)
		strided, err := ndview.FromBuffer(whole, ndview.Int32, 0, []int64{3}, []int64{6})
		ndtest.Own(t, strided, err)
		assert.False(t, strided.Flags().Aligned)
	})
}

func TestBaseIsTheArrayOfTheFirstView(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 2, 3)
	assert.Nil(t, a.Base())
	row := index(t, a, ndview.At(1))
	assert.Same(t, a, row.Base())
	assert.Same(t, a, index(t, row, ndview.At(1)).Base())
}

func TestWritesToReadOnlyArraysFail(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int64, []int64{7}, 1)
		repeated, err := a.BroadcastTo(1)
		ndtest.Own(t, repeated, err)
		locked, err := a.ReadOnly()
		ndtest.Own(t, locked, err)
		arrays := []*ndview.NDBuffer{repeated, locked, index(t, locked, ndview.Span(0, 1))}
		if b, ok := a.Buffer().(*cudabuf.Buffer); ok {
			shut, err := b.ReadOnly()
			ndtest.Own(t, shut, err)
			v, err := ndview.FromBuffer(shut, ndview.Int64, 0, []int64{1}, nil)
			arrays = append(arrays, ndtest.Own(t, v, err))
		}
		narrow := ndtest.FromHost(t, dev, ndview.Int32, count(1), 1)
		mask := ndtest.FromHost(t, dev, ndview.Bool, []bool{true}, 1)
		for i, v := range arrays {
			assert.False(t, v.Flags().Writeable)
			assert.False(t, v.Flags().Behaved())
			bytes, err := v.View(ndview.Uint8)
			ndtest.Own(t, bytes, err)
			for name, err := range map[string]error{
				"CopyFrom":     v.CopyFrom(a),
				"CopyFromHost": v.CopyFromHost(make([]byte, 8)),
				"FillWhere":    v.FillWhere(mask, 0),
				"Assign":       v.Assign(narrow),
				"Zero":         v.Zero(),
				"UnpackBits":   bytes.UnpackBits(a.Buffer(), 0, false),
				"Fill":         v.Fill(1),
				"ByteSwap":     v.ByteSwap(),
				"Set":          v.Set(1, ndview.At(0)),
				"Set by index": v.Set(1, ndview.Ints(0)),
				"Set by mask":  v.Set(1, ndview.Mask(mask)),
				"Put":          ndview.Put(v, narrow, 1, ndview.ModeWrap),
				"Binary.Into":  ndview.Add.Into(v, a, 1),
				"Unary.Into":   ndview.Negative.Into(v, a),
				"WhereInto":    ndview.WhereInto(v, mask, a, 1),
				"ClipInto":     ndview.ClipInto(v, a, 1, 2),
				"Sum.Into":     ndview.Sum.Into(v, a, ndview.ReduceOptions{Axes: []int{}}),
			} {
				assert.ErrorIs(t, err, ndview.ErrReadOnly, "%s of array %d", name, i)
			}
		}
		assert.Equal(t, ndtest.Raw[int64](7), ndtest.Elements(t, a))
		require.NoError(t, a.Zero(), "the array itself is writeable")
	})
}

func TestMayShareMemoryMatchesNumPy(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/overlaps.txt")
	require.NoError(t, err)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		pool := ndtest.Upload(t, dev, make([]byte, 8192))
		cases := map[string]int{}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			words := strings.Fields(line)
			cases[line[len(line)-1:]]++
			want := strings.HasSuffix(line, "1")
			if len(words) == 3 {
				require.Equal(t, want, parseRun(t, line[:len(line)-2]).Overlaps(), line)
				continue
			}
			var arrays []*ndview.NDBuffer
			for _, run := range [][]string{words[:2], words[2:4]} {
				dtype := ndview.Bytes(int32(parse(t, run[0])[0]))
				arrays = append(arrays, arrayOverPool(t, pool, dtype, strings.Join(run, " ")))
			}
			require.Equal(t, want, ndview.MayShareMemory(arrays[0], arrays[1]), line)
		}
		assert.Greater(t, min(cases["0"], cases["1"]), 1000)
	})
}

func TestMayShareMemoryComparesAddresses(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		whole := ndtest.Upload(t, dev, make([]byte, 64))
		part := func(offset, length int64) *ndview.NDBuffer {
			b, err := whole.Slice(offset, length)
			ndtest.Own(t, b, err)
			return ndtest.At(t, b, ndview.Uint8, 0, length)
		}
		left, right, middle, none := part(0, 32), part(32, 32), part(31, 2), part(16, 0)
		assert.False(t, ndview.MayShareMemory(left, right))
		assert.True(t, ndview.MayShareMemory(left, middle))
		assert.True(t, ndview.MayShareMemory(middle, right))
		assert.False(t, ndview.MayShareMemory(left, none), "empty arrays share nothing")
		assert.False(t, ndview.MayShareMemory(none, none))
		far := ndtest.At(t, ndtest.Upload(t, ndtest.OtherThan(t, dev), make([]byte, 64)), ndview.Uint8, 0, 64)
		assert.False(t, ndview.MayShareMemory(left, far), "another device")
		gone, err := left.Index()
		require.NoError(t, err)
		assert.True(t, ndview.MayShareMemory(left, gone))
		gone.Release()
		assert.False(t, ndview.MayShareMemory(left, gone), "a released array")
	})
}

func TestMayShareMemorySeesRegisteredHostMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		ours := ndtest.Upload(t, arrowbuf.CPU(), make([]byte, 1<<16))
		bytes, _ := arrowbuf.HostBytes(ours)
		pinned, err := dev.RegisterHost(bytes, cudabuf.RegisterOptions{})
		ndtest.Own(t, pinned, err)
		a, b := ndtest.At(t, ours, ndview.Uint8, 0, 1<<16), ndtest.At(t, pinned, ndview.Uint8, 0, 1<<16)
		assert.NotEqual(t, a.Device(), b.Device())
		assert.True(t, ndview.MayShareMemory(a, b))
	})
}

func TestLastViewReleasesMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.FromHost(dev, ndview.Int32, count(6), 2, 3)
		require.NoError(t, err)
		row, err := a.Slice(0, 1, 2)
		require.NoError(t, err)
		column, err := row.Transpose()
		require.NoError(t, err)
		a.Release()
		row.Release()
		column.Retain()
		column.Release()
		got, err := ndview.ToHost[int32](column)
		require.NoError(t, err)
		assert.Equal(t, []int32{3, 4, 5}, got)
		assertAlive(t, dev, true)
		column.Release()
		assertAlive(t, dev, false)
	})
}

func TestFailedConstructionLeaksNothing(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, err := ndview.FromHost(dev, ndview.Int32, count(6), 2, 4)
		assert.ErrorIs(t, err, ndview.ErrShape)
		buf, err := dev.Alloc(64)
		require.NoError(t, err)
		_, err = ndview.FromBuffer(buf, ndview.Int32, 64, []int64{1}, nil)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		buf.Release()
		assertAlive(t, dev, false)
	})
}

func TestReleasedArraysReturnErrReleased(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		// The buffer stays alive, so the array itself must refuse.
		buf := ndtest.Upload(t, dev, make([]byte, 64))
		gone := map[ndview.DType]*ndview.NDBuffer{}
		live := map[ndview.DType]*ndview.NDBuffer{}
		for _, dtype := range []ndview.DType{ndview.Bool, ndview.Int32, ndview.Int64} {
			live[dtype] = ndtest.At(t, buf, dtype, 0, 4)
			a, err := ndview.FromBuffer(buf, dtype, 32, []int64{4}, nil)
			require.NoError(t, err)
			a.Release()
			gone[dtype] = a
		}
		a := gone[ndview.Int64]
		view := func(_ *ndview.NDBuffer, err error) error { return err }
		tests := map[string]error{
			"Slice":            view(a.Slice(0, 0, 1)),
			"Transpose":        view(a.Transpose()),
			"Reshape":          view(a.Reshape(2, 2)),
			"View":             view(a.View(ndview.Uint64)),
			"CopyToHost":       a.CopyToHost(make([]byte, 32)),
			"CopyFromHost":     a.CopyFromHost(make([]byte, 32)),
			"CopyFrom to it":   a.CopyFrom(live[ndview.Int64]),
			"CopyFrom it":      live[ndview.Int64].CopyFrom(a),
			"Zero":             a.Zero(),
			"FillWhere on it":  a.FillWhere(live[ndview.Bool], 1),
			"FillWhere by it":  live[ndview.Int64].FillWhere(gone[ndview.Bool], 1),
			"Assign to it":     a.Assign(live[ndview.Int32]),
			"Assign it":        live[ndview.Int64].Assign(gone[ndview.Int32]),
			"UnpackBits to it": gone[ndview.Bool].UnpackBits(buf, 0, false),
		}
		for name, err := range tests {
			assert.ErrorIs(t, err, arrowbuf.ErrReleased, name)
		}
		_, ok := a.HostBytes()
		assert.False(t, ok)
		assertPanicsWith(t, arrowbuf.ErrReleased, a.Retain)
		assertPanicsWith(t, arrowbuf.ErrReleased, a.Release)
	})
}

func assertPanicsWith(t *testing.T, want error, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		err, _ := recover().(error)
		assert.ErrorIs(t, err, want)
	}()
	f()
}

func TestRecordsAreSliced(t *testing.T) {
	record := numpyType(t, `[["id","<i4"],["name","|V3"]]`)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		data := []byte("aaaa123bbbb456cccc789")
		a := ndtest.At(t, ndtest.Upload(t, dev, data), record, 0, 3)
		part, err := a.Slice(0, 1, 3)
		ndtest.Own(t, part, err)
		assert.Equal(t, data[7:], ndtest.Elements(t, part))
	})
}
