//go:build linux || darwin

package cdevice

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

var everything = arrow.StructOf(
	arrow.Field{Name: "text", Type: arrow.BinaryTypes.String},
	arrow.Field{Name: "lists", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
	arrow.Field{Name: "views", Type: arrow.BinaryTypes.StringView},
	arrow.Field{Name: "codes", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
	arrow.Field{Name: "union", Type: arrow.SparseUnionOf([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{0})},
	arrow.Field{Name: "runs", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int64)},
	arrow.Field{Name: "fixed", Type: arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Boolean)},
	arrow.Field{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8)},
)

// buffer returns the entry of a buffer in the array of pointers.
func (a *Array) buffer(i int) *uintptr { return (*uintptr)(pointer(a.buffers + 8*uintptr(i))) }

// int32 returns one of the 32-bit offsets in a buffer of the host.
func (a *Array) int32(buffer, i int) *int32 {
	return (*int32)(pointer(*a.buffer(buffer) + 4*uintptr(i)))
}

func TestImportRejectsMalformedArrays(t *testing.T) {
	const text, lists, views, codes, union, runs, fixed, maps = 0, 1, 2, 3, 4, 5, 6, 7
	n := func(root *Array, path ...int) *Array {
		for _, i := range path {
			root = root.childStructs()[i]
		}
		return root
	}
	for name, tt := range map[string]struct {
		wrong func(a *Array)
		path  string
		says  string
	}{
		"a negative length":         {func(a *Array) { n(a, text).length = -1 }, `"text"`, "-1 elements"},
		"a negative offset":         {func(a *Array) { n(a, text).offset = -1 }, `"text"`, "offset -1"},
		"an end without end":        {func(a *Array) { n(a, text).offset = math.MaxInt64 - 3 }, `"text"`, "elements at offset"},
		"too many nulls":            {func(a *Array) { n(a, text).nulls = 99 }, `"text"`, "99 of 20"},
		"less than unknown nulls":   {func(a *Array) { n(a, text).nulls = -2 }, `"text"`, "-2 of 20"},
		"nulls and no bitmap":       {func(a *Array) { n(a, text).nulls = 1 }, `"text"`, "no validity bitmap"},
		"a buffer too few":          {func(a *Array) { n(a, text).nBuffers = 2 }, `"text"`, "got 2 buffers, want 3"},
		"a negative buffer count":   {func(a *Array) { n(a, text).nBuffers = -1 }, `"text"`, "-1 buffers"},
		"views without sizes":       {func(a *Array) { n(a, views).nBuffers = 2 }, `"views"`, "2 buffers"},
		"views with all buffers":    {func(a *Array) { n(a, views).nBuffers = math.MaxInt64 }, `"views"`, "buffers, want at least 3"},
		"no buffers":                {func(a *Array) { n(a, text).buffers = 0 }, `"text"`, "NULL pointer to 3 buffers"},
		"no offsets":                {func(a *Array) { *n(a, text).buffer(1) = 0 }, `"text"`, "buffer 1: NULL buffer, want 84 bytes"},
		"no values":                 {func(a *Array) { *n(a, text).buffer(2) = 0 }, `"text"`, "buffer 2"},
		"no sizes":                  {func(a *Array) { c := n(a, views); *c.buffer(int(c.nBuffers) - 1) = 0 }, `"views"`, "sizes of"},
		"a negative size":           {func(a *Array) { c := n(a, views); *(*int64)(pointer(*c.buffer(int(c.nBuffers) - 1))) = -5 }, `"views"`, "-5 bytes"},
		"offsets that go down":      {func(a *Array) { *n(a, text).int32(1, 20) = -1 }, `"text"`, "offsets from"},
		"offsets below zero":        {func(a *Array) { *n(a, text).int32(1, 0) = -7 }, `"text"`, "offsets from -7"},
		"offsets beyond the items":  {func(a *Array) { *n(a, lists).int32(1, 22) = 1000 }, `"lists"`, "at least 1000"},
		"too few items":             {func(a *Array) { n(a, lists, 0).length = 2 }, `"lists"`, "child 0 has 2 elements"},
		"no items":                  {func(a *Array) { *(*uintptr)(pointer(n(a, lists).children)) = 0 }, `"lists.item"`, "nil array"},
		"no children":               {func(a *Array) { n(a, lists).children = 0 }, `"lists"`, "NULL pointer to 1 children"},
		"a child too many":          {func(a *Array) { n(a, lists).nChildren = 2 }, `"lists"`, "got 2 children, want 1"},
		"a negative child count":    {func(a *Array) { n(a, lists).nChildren = -1 }, `"lists"`, "-1 children"},
		"a child that is released":  {func(a *Array) { n(a, lists, 0).release = 0 }, `"lists.item"`, "released"},
		"no dictionary":             {func(a *Array) { n(a, codes).dictionary = 0 }, `"codes"`, "dictionary at 0x0"},
		"a dictionary too many":     {func(a *Array) { n(a, text).dictionary = n(a, codes).dictionary }, `"text"`, "dictionary at"},
		"a malformed dictionary":    {func(a *Array) { (*Array)(pointer(n(a, codes).dictionary)).length = -3 }, `"codes.dictionary"`, "-3"},
		"a union with a bitmap":     {func(a *Array) { n(a, union).nBuffers = 2 }, `"union"`, "got 2 buffers, want 1"},
		"a short union":             {func(a *Array) { n(a, union, 0).length = 1 }, `"union"`, "at least 28"},
		"run ends that are short":   {func(a *Array) { n(a, runs, 0).length = 1 }, `"runs"`, "runs end at"},
		"no run ends":               {func(a *Array) { n(a, runs, 0).length = 0 }, `"runs"`, "without a run"},
		"fewer values than runs":    {func(a *Array) { n(a, runs, 1).length = 1 }, `"runs"`, "run ends"},
		"short fixed lists":         {func(a *Array) { n(a, fixed, 0).length = 59 }, `"fixed"`, "at least 96"},
		"more lists than there can": {func(a *Array) { n(a, fixed).length = math.MaxInt64 / 2 }, `"fixed"`, "lists of 3"},
		"a null key":                {func(a *Array) { k := n(a, maps, 0, 0); k.nulls = 1; *k.buffer(0) = *k.buffer(1) }, `"map"`, "keys of a map are null"},
		"a short map":               {func(a *Array) { n(a, maps, 0, 1).length = 0 }, `"map.entries"`, "child 1 has 0"},
		"more bytes than there are": {func(a *Array) { n(a, union).length, n(a, union).offset = 1<<62, 1<<62-2 }, `"union"`, ""},
		"a short column":            {func(a *Array) { n(a, fixed).length = 3 }, "", "child 6 has 3"},
		"null rows":                 {func(a *Array) { a.nulls = 2; *a.buffer(0) = *n(a, text).buffer(2) }, "", "2 of the rows are null"},
		"rows with another buffer":  {func(a *Array) { a.nBuffers = 2 }, "", "got 2 buffers, want 1"},
	} {
		t.Run(name, func(t *testing.T) {
			requireNoHandles(t)
			g := newGenerator(t)
			arr := g.array(everything, 20, false)
			out := exported(t, arr, arrowbuf.CPU())
			arr.Release()
			releases := lostChild(out)
			tt.wrong(&out.array)
			_, err := ImportBatch(out, arrow.NewSchema(everything.Fields(), nil))
			require.ErrorIs(t, err, arrow.ErrInvalid)
			assert.ErrorContains(t, err, tt.path)
			assert.ErrorContains(t, err, tt.says)
			assert.True(t, out.Released())
			releases()
		})
	}
}

// lostChild returns a function that releases a child which the test made look
// released.
func lostChild(out *DeviceArray) (end func()) {
	child := out.array.childStructs()[1].childStructs()[0]
	private := child.private
	return func() {
		if n, ok := handles.Load(private); ok && n.(*arrayNode).array.release == 0 {
			releaseArray(&n.(*arrayNode).array)
		}
	}
}

func TestImportRejectsReleasedArrays(t *testing.T) {
	for _, in := range []*DeviceArray{nil, {}} {
		_, err := ImportArray(in, arrow.Null)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		_, err = ImportBatch(in, arrow.NewSchema(nil, nil))
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	}
	requireNoHandles(t)
	g := newGenerator(t)
	arr := g.array(everything, 3, false)
	defer arr.Release()
	_, err := ImportArray(exported(t, arr, arrowbuf.CPU()), nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportBatch(exported(t, arr, arrowbuf.CPU()), nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportArray(exported(t, arr, arrowbuf.CPU()), arrow.PrimitiveTypes.Int8)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	out := exported(t, arr, arrowbuf.CPU())
	out.deviceType = 10
	_, err = ImportArray(out, everything)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	assert.ErrorContains(t, err, "device(10):-1")
}

func TestImportRejectsMisalignedGPUValues(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		g := newGenerator(t)
		host := g.array(arrow.PrimitiveTypes.Int32, 20, false)
		defer host.Release()
		arr := upload(t, dev, host)
		defer arr.Release()
		out := exported(t, arr, dev)
		*out.array.buffer(1) += 2
		out.array.length = 10
		_, err := ImportArray(out, arrow.PrimitiveTypes.Int32, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		assert.ErrorContains(t, err, "want a multiple of 4")

		out = exported(t, host, arrowbuf.CPU())
		*out.array.buffer(1) += 2
		out.array.length = 10
		back, err := ImportArray(out, arrow.PrimitiveTypes.Int32)
		require.NoError(t, err, "the host reads them")
		back.Release()
	})
}

func TestImportReadsVariadicSizesFromHostMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		g := newGenerator(t)
		host := g.array(arrow.BinaryTypes.StringView, 20, true)
		defer host.Release()
		for _, on := range []arrowbuf.Device{dev, dev.Host()} {
			arr := upload(t, on, host)
			out := exported(t, arr, on)
			arr.Release()
			n := int(out.array.nBuffers)
			sizes := append([]uintptr{}, readPointers(*out.array.buffer(n - 1), int64(n-3))...)
			*out.array.buffer(n - 1) = addressOf(&sizes[0])
			back, err := ImportArray(out, host.DataType(), dev)
			require.NoError(t, err)
			requireEqual(t, host, back)
			back.Release()
		}
	})
}

func TestImportReleasesProducerWithLastReference(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 50, false)
		defer host.Release()
		arr := upload(t, dev, host)
		batch, err := ImportBatch(exported(t, arr, dev), arrow.NewSchema(pair.Fields(), nil), dev)
		require.NoError(t, err)
		arr.Release()
		column := batch.Column(0)
		column.Retain()
		slice := batch.NewSlice(10, 20)
		batch.Release()
		assert.Positive(t, handleCount())
		column.Release()
		assert.Positive(t, handleCount(), "the slice is there")
		want := array.NewSlice(host.(*array.Struct).Field(0), 10, 20)
		defer want.Release()
		requireEqual(t, want, slice.Column(0))
		slice.Release()
		assert.Zero(t, handleCount())
	})
}

func TestImportOfEmptyArrayReleasesProducer(t *testing.T) {
	requireNoHandles(t)
	null := array.NewNull(7)
	defer null.Release()
	arr, err := ImportArray(exported(t, null, arrowbuf.CPU()), arrow.Null)
	require.NoError(t, err)
	defer arr.Release()
	assert.Zero(t, handleCount())
	assert.Equal(t, 7, arr.NullN())
}

func TestRejectsMemoryOfOtherDevices(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		g := newGenerator(t)
		host := g.array(pair, 50, true)
		defer host.Release()
		arr := upload(t, dev, host)
		defer arr.Release()
		for _, tt := range []struct {
			arr arrow.Array
			dev arrowbuf.Device
		}{{host, dev}, {arr, arrowbuf.CPU()}, {arr, dev.Host()}, {host, dev.Host()}} {
			var out DeviceArray
			err := ExportArray(tt.arr, tt.dev, &out)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
			assert.True(t, out.Released())
		}
		_, err := ImportArray(exported(t, arr, dev), pair)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, "cuda:0")

		mixed := array.NewData(pair, 50, []*memory.Buffer{nil}, []arrow.ArrayData{arr.Data().Children()[0], host.Data().Children()[1]}, 0, 0)
		defer mixed.Release()
		both := arrowbuf.NewArray(mixed)
		defer both.Release()
		err = ExportArray(both, dev, &DeviceArray{})
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, `"lists"`)
	})
}

func TestPinnedMemoryExportsAsCUDAHostOrCPU(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		g := newGenerator(t)
		host := g.array(pair, 50, true)
		defer host.Release()
		arr := upload(t, dev.Host(), host)
		defer arr.Release()
		for _, on := range []arrowbuf.Device{dev.Host(), arrowbuf.CPU()} {
			out := exported(t, arr, on)
			kind, id := out.Device()
			assert.Equal(t, on.Type(), kind)
			assert.Equal(t, on.ID(), id)
			back, err := ImportArray(out, pair, dev) // the device implies its host
			require.NoError(t, err)
			assert.True(t, array.Equal(host, back))
			back.Release()
		}
	})
}

func TestImportWaitsForProducerEvent(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		for _, on := range []arrowbuf.Device{dev, dev.Host()} {
			for _, kind := range []arrowbuf.DeviceType{on.Type(), arrowbuf.DeviceCUDAManaged} {
				if kind == arrowbuf.DeviceCUDAManaged && on != dev {
					continue
				}
				theirs := stream(t, dev)
				values, err := on.Alloc(4 << 20)
				require.NoError(t, err)
				fill(t, theirs, values, 0)
				require.NoError(t, theirs.Synchronize())
				arr := bytesArray(t, values)
				out := exported(t, arr, on)
				arr.Release()

				// The work of the producer, which only its event orders.
				delay(t, theirs)
				fill(t, theirs, alias(t, dev, values), 9)
				e, err := dev.NewEvent(cudabuf.EventOptions{})
				require.NoError(t, err)
				require.NoError(t, theirs.Record(e))
				handle := e.Handle()
				out.event, out.deviceType = addressOf(&handle), int32(kind)

				back, err := ImportArray(out, arrow.PrimitiveTypes.Uint8, dev)
				require.NoError(t, err)
				got := download(t, back.Data().Buffers()[1])
				assert.Equal(t, byte(9), got[0])
				assert.Equal(t, byte(9), got[len(got)-1])
				back.Release()
				require.NoError(t, theirs.Synchronize())
				require.NoError(t, e.Close())
				values.Release()
			}
		}
	})
}

func stream(t *testing.T, dev *cudabuf.Device) *cudabuf.Stream {
	t.Helper()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// delay delays all later work on a stream.
func delay(t *testing.T, s *cudabuf.Stream) {
	t.Helper()
	require.NoError(t, s.LaunchHostFunc(func() { time.Sleep(30 * time.Millisecond) }))
}

// fill submits work to a stream that sets all bytes of a buffer.
func fill(t *testing.T, s *cudabuf.Stream, b arrowbuf.Buffer, v byte) {
	t.Helper()
	if onGPU, ok := b.(*cudabuf.Buffer); ok {
		require.NoError(t, onGPU.FillAsync(v, s))
		return
	}
	from, err := s.Device().NewBuffer(b.Len())
	require.NoError(t, err)
	defer from.Release()
	require.NoError(t, from.FillAsync(v, s))
	_, err = b.(*cudabuf.HostBuffer).CopyFromDeviceAsync(from, 0, s)
	require.NoError(t, err)
}

// alias returns the same memory as another library sees it: the device does not know
// the streams that use it.
func alias(t *testing.T, dev *cudabuf.Device, b arrowbuf.Buffer) arrowbuf.Buffer {
	t.Helper()
	if b.Device() != dev {
		return b // the driver recognizes pinned memory by its address
	}
	same, err := dev.WrapExternal(b.Address(), b.Len(), nil)
	require.NoError(t, err)
	t.Cleanup(same.Release)
	return same
}

func bytesArray(t *testing.T, values arrowbuf.Buffer) arrow.Array {
	t.Helper()
	b := values.Arrow()
	defer b.Release()
	data := array.NewData(arrow.PrimitiveTypes.Uint8, b.Len(), []*memory.Buffer{nil, b}, nil, 0, 0)
	defer data.Release()
	return arrowbuf.NewArray(data)
}

func hostBytes(address uintptr, n int) []byte {
	return unsafe.Slice((*byte)(pointer(address)), n)
}

// Import moves the content of a struct, so a second import finds nothing.
func TestSecondImportIsRefused(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		host := g.array(pair, 5, false)
		defer host.Release()
		arr := upload(t, dev, host)
		defer arr.Release()
		schema := arrow.NewSchema(pair.Fields(), nil)
		out := exported(t, arr, dev)
		first, err := ImportArray(out, pair, dev)
		require.NoError(t, err)
		defer first.Release()
		_, err = ImportArray(out, pair, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		assert.ErrorContains(t, err, "the struct is nil or released")
		_, err = ImportBatch(out, schema, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		requireEqual(t, host, first)

		var s Schema
		require.NoError(t, ExportSchema(schema, &s))
		_, err = ImportSchema(&s)
		require.NoError(t, err)
		_, err = ImportSchema(&s)
		assert.ErrorIs(t, err, arrow.ErrInvalid)

		from, _ := someBatches(t, dev)
		stream := &DeviceStream{}
		require.NoError(t, ExportStream(from, dev, stream))
		r, err := ImportStream(stream, dev)
		require.NoError(t, err)
		defer r.Release()
		_, err = ImportStream(stream, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	})
}
