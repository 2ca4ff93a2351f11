package zarr_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goldenSelection is a case of testdata/selections.json.
type goldenSelection struct {
	Array, Chunks, Shards []int64
	Kind                  string
	Keys                  []goldenKey
	Points                [][]int64
	Shape                 []int64 // of the points
	Mask                  []bool
	Result                []int64 // shape
	Values, After         []int32
}

type goldenKey struct {
	Ellipsis bool
	At       *int64
	Slice    []*int64
	List     []int64
	Mask     []bool
}

func (k *goldenKey) UnmarshalJSON(raw []byte) error {
	if string(raw) == `"..."` {
		k.Ellipsis = true
		return nil
	}
	type plain goldenKey
	return json.Unmarshal(raw, (*plain)(k))
}

func (k goldenKey) key() zarr.Key {
	bound := func(p *int64) int64 {
		if p == nil {
			return ndview.Open
		}
		return *p
	}
	switch {
	case k.Ellipsis:
		return zarr.Ellipsis
	case k.At != nil:
		return zarr.At(*k.At)
	case k.Slice != nil:
		return zarr.SpanStep(bound(k.Slice[0]), bound(k.Slice[1]), bound(k.Slice[2]))
	case k.Mask != nil:
		return zarr.Where(k.Mask...)
	default:
		return zarr.List(k.List...)
	}
}

func (c goldenSelection) selection() zarr.Selection {
	var keys []zarr.Key
	for _, k := range c.Keys {
		keys = append(keys, k.key())
	}
	switch c.Kind {
	case "points":
		return zarr.Points(c.Points...).Shaped(c.Shape...)
	case "mask":
		return zarr.Mask(c.Mask, c.Array...)
	case "blocks":
		return zarr.Blocks(keys...)
	default:
		return zarr.Select(keys...)
	}
}

func (c goldenSelection) metadata() *zarr.ArrayMetadata {
	if len(c.Shards) > 0 {
		return sharded(c.Array, c.Shards, c.Chunks)
	}
	return ints(c.Array, c.Chunks)
}

func goldenSelections(t *testing.T) []goldenSelection {
	t.Helper()
	raw, err := os.ReadFile("testdata/selections.json")
	require.NoError(t, err)
	var cases []goldenSelection
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.Len(t, cases, 500)
	return cases
}

func size(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// counting returns first, first+step, ... as an array on a device.
func counting(t *testing.T, dev arrowbuf.Device, first, step int32, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	data := make([]int32, size(shape))
	for i := range data {
		data[i] = first + int32(i)*step
	}
	nd, err := ndview.FromHost(dev, ndview.Int32, data, shape...)
	require.NoError(t, err)
	t.Cleanup(nd.Release)
	return nd
}

func TestSelectionsReadAndWriteAsZarrPython(t *testing.T) {
	cases := goldenSelections(t)
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for i, c := range cases {
			var on arrowbuf.Device = arrowbuf.CPU()
			if i%4 == 0 {
				on = dev
			}
			a := create(t, store.NewMemory(), "a", c.metadata())
			require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, c.Array...), 1))
			v, err := a.Get(ctx, c.selection(), zarr.PrototypeOn(on), 2)
			require.NoError(t, err, "case %d", i)
			nd := v.(*ndview.NDBuffer)
			assert.Equal(t, on, nd.Device())
			require.Equal(t, c.Result, append([]int64{}, nd.Shape()...), "case %d", i)
			require.Equal(t, c.Values, append([]int32{}, host[int32](t, nd)...), "case %d", i)
			v.Release()

			require.NoError(t, a.Set(ctx, c.selection(), counting(t, on, -1, -1, c.Result...), 2), "case %d", i)
			require.Equal(t, c.After, readInts(t, a), "case %d", i)
		}
	})
}

func TestSelectionsOfStringsEqualThoseOfNumbers(t *testing.T) {
	text := func(numbers []int32, shape []int64) *element.VLen {
		words := make([]string, len(numbers))
		for i, n := range numbers {
			words[i] = strings.Repeat("x", int(n+100)%7) + string('A'+(n+1000)%64)
		}
		v, err := element.PackVLen(words, shape...)
		require.NoError(t, err)
		return v
	}
	for i, c := range goldenSelections(t)[:200] {
		m := c.metadata()
		if len(c.Shards) > 0 {
			m.ChunkShape = c.Shards
		}
		m.DataType, m.Codecs = element.String, zarr.DefaultCodecs(element.String)
		a := create(t, store.NewMemory(), "a", m)
		whole := make([]int32, size(c.Array))
		for i := range whole {
			whole[i] = int32(i)
		}
		require.NoError(t, a.Write(ctx, text(whole, c.Array), 1))
		v, err := a.Get(ctx, c.selection(), zarr.Prototype{}, 1)
		require.NoError(t, err)
		require.Equal(t, c.Result, append([]int64{}, v.Shape()...), "case %d", i)
		require.Equal(t, text(c.Values, c.Result).Elements(), v.(*element.VLen).Elements(), "case %d", i)

		written := make([]int32, size(c.Result))
		for i := range written {
			written[i] = int32(-1 - i)
		}
		require.NoError(t, a.Set(ctx, c.selection(), text(written, c.Result), 1), "case %d", i)
		v, err = a.Read(ctx, zarr.Prototype{}, 1)
		require.NoError(t, err)
		require.Equal(t, text(c.After, c.Array).Elements(), v.(*element.VLen).Elements(), "case %d", i)
	}
}

func TestMalformedSelectionsAreErrors(t *testing.T) {
	a := create(t, store.NewMemory(), "a", ints([]int64{4, 3}, []int64{2, 2}))
	for name, c := range map[string]struct {
		selection zarr.Selection
		want      error
	}{
		"position beyond":     {zarr.Select(zarr.At(4)), arrowbuf.ErrOutOfRange},
		"position before":     {zarr.Select(zarr.At(-5)), arrowbuf.ErrOutOfRange},
		"list beyond":         {zarr.Select(zarr.All, zarr.List(0, 3)), arrowbuf.ErrOutOfRange},
		"too many keys":       {zarr.Select(zarr.All, zarr.All, zarr.All), zarr.ErrSelection},
		"two ellipses":        {zarr.Select(zarr.Ellipsis, zarr.Ellipsis), zarr.ErrSelection},
		"zero step":           {zarr.Select(zarr.SpanStep(0, 4, 0)), zarr.ErrSelection},
		"negative step":       {zarr.Select(zarr.SpanStep(4, 0, -1)), zarr.ErrSelection},
		"short axis mask":     {zarr.Select(zarr.Where(true, false)), zarr.ErrSelection},
		"too few coordinates": {zarr.Points([]int64{1}), zarr.ErrSelection},
		"unequal coordinates": {zarr.Points([]int64{1, 2, 3}, []int64{1, 2}), zarr.ErrSelection},
		"coordinate beyond":   {zarr.Points([]int64{0, 1}, []int64{1, 3}), arrowbuf.ErrOutOfRange},
		"shape of points":     {zarr.Points([]int64{0, 1}, []int64{1, 1}).Shaped(3), zarr.ErrSelection},
		"negative shape":      {zarr.Points([]int64{0, 1}, []int64{1, 1}).Shaped(-2), zarr.ErrSelection},
		"shape of keys":       {zarr.Select().Shaped(12), zarr.ErrSelection},
		"mask of other shape": {zarr.Mask(make([]bool, 12), 3, 4), zarr.ErrSelection},
		"short mask":          {zarr.Mask(make([]bool, 11), 4, 3), zarr.ErrSelection},
		"blocks by list":      {zarr.Blocks(zarr.List(0)), zarr.ErrSelection},
		"blocks with a step":  {zarr.Blocks(zarr.SpanStep(0, 2, 2)), zarr.ErrSelection},
		"block beyond":        {zarr.Blocks(zarr.At(2)), arrowbuf.ErrOutOfRange},
	} {
		_, err := a.Get(ctx, c.selection, zarr.Prototype{}, 1)
		assert.ErrorIs(t, err, c.want, name)
		assert.ErrorIs(t, a.Set(ctx, c.selection, 1, 1), c.want, name)
	}
	v, err := a.View(zarr.Select(zarr.Span(1, 3)))
	require.NoError(t, err)
	_, err = v.View(zarr.Blocks(zarr.At(0)))
	assert.ErrorIs(t, err, zarr.ErrSelection)
}

func TestSetTakesScalarsAndBroadcasts(t *testing.T) {
	a := create(t, store.NewMemory(), "a", ints([]int64{3, 4}, []int64{2, 3}))
	require.NoError(t, a.Set(ctx, zarr.Selection{}, 7, 1))
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.List(2, 0), zarr.SpanStep(1, ndview.Open, 2)), int32(-1), 1))
	assert.Equal(t, []int32{7, -1, 7, -1, 7, 7, 7, 7, 7, -1, 7, -1}, readInts(t, a))
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.Span(1, 3)), values(t, ndview.Int32, []int32{1, 2, 3, 4}, 4), 1))
	assert.Equal(t, []int32{7, -1, 7, -1, 1, 2, 3, 4, 1, 2, 3, 4}, readInts(t, a))

	assert.Error(t, a.Set(ctx, zarr.Selection{}, "seven", 1))
	assert.Error(t, a.Set(ctx, zarr.Selection{}, nil, 1))
	assert.Error(t, a.Set(ctx, zarr.Selection{}, (*ndview.NDBuffer)(nil), 1))
	assert.Error(t, a.Set(ctx, zarr.Selection{}, 1<<40, 1), "does not fit int32")
	assert.Error(t, a.Set(ctx, zarr.Selection{}, values(t, ndview.Int16, []int16{1}, 1), 1))
	assert.ErrorIs(t, a.Set(ctx, zarr.Selection{}, oneTo(t, 3), 1), ndview.ErrShape)
	assert.Equal(t, []int32{7, -1, 7, -1, 1, 2, 3, 4, 1, 2, 3, 4}, readInts(t, a))

	b := create(t, store.NewMemory(), "b", &zarr.ArrayMetadata{Shape: []int64{3}, ChunkShape: []int64{2}, DataType: element.String})
	require.NoError(t, b.Set(ctx, zarr.Select(zarr.Span(1, 3)), "hello", 1))
	assert.Equal(t, []string{"", "hello", "hello"}, readAs(t, b, []string{}))
	assert.Error(t, b.Set(ctx, zarr.Selection{}, 5, 1))
}

func TestViewsCompose(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	cases := goldenSelections(t)
	s := store.NewMemory()
	for i, c := range cases {
		a, err := zarr.OpenMode(ctx, s, "a", zarr.ModeOverwrite, c.metadata())
		require.NoError(t, err)
		require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, c.Array...), 1))
		if size(c.Result) == 0 {
			continue
		}
		// The reference stores the result of the first selection as an array.
		b, err := zarr.OpenMode(ctx, s, "b", zarr.ModeOverwrite, ints(c.Result, c.Result))
		require.NoError(t, err)
		require.NoError(t, b.Write(ctx, values(t, ndview.Int32, c.Values, c.Result...), 1))
		first, err := a.View(c.selection())
		require.NoError(t, err)
		for range 3 {
			second := randomSelection(random, c.Result) // of at least one element
			v, err := first.View(second)
			require.NoError(t, err)
			got, err := v.Read(ctx, zarr.Prototype{}, 1)
			require.NoError(t, err)
			want, err := b.Get(ctx, second, zarr.Prototype{}, 1)
			require.NoError(t, err)
			require.Equal(t, want.Shape(), got.Shape(), "case %d", i)
			require.Equal(t, host[int32](t, want.(*ndview.NDBuffer)), host[int32](t, got.(*ndview.NDBuffer)), "case %d", i)
			require.Equal(t, want.Shape(), v.Shape())
		}
	}
}

// randomSelection returns a selection of an array of a shape without empty axes.
func randomSelection(random *rand.Rand, shape []int64) zarr.Selection {
	switch random.IntN(4) {
	case 0:
		points := make([][]int64, len(shape))
		n := 1 + random.IntN(9)
		for i, extent := range shape {
			for range n {
				points[i] = append(points[i], random.Int64N(2*extent)-extent)
			}
		}
		return zarr.Points(points...)
	case 1:
		mask := make([]bool, size(shape))
		for i := range mask {
			mask[i] = random.IntN(2) == 0
		}
		return zarr.Mask(mask, shape...)
	}
	keys := make([]zarr.Key, len(shape))
	for i, extent := range shape {
		switch random.IntN(3) {
		case 0:
			keys[i] = zarr.At(random.Int64N(2*extent) - extent)
		case 1:
			keys[i] = zarr.SpanStep(random.Int64N(extent), random.Int64N(extent+1), 1+random.Int64N(3))
		default:
			keys[i] = zarr.List(random.Int64N(extent), random.Int64N(extent), -1-random.Int64N(extent))
		}
	}
	return zarr.Select(keys...)
}

func TestViewsReadLateAndWriteThrough(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", ints([]int64{6, 4}, []int64{3, 2}))
	rows, err := a.View(zarr.Select(zarr.SpanStep(1, ndview.Open, 2)))
	require.NoError(t, err)
	column, err := rows.View(zarr.Select(zarr.All, zarr.At(-1)))
	require.NoError(t, err)
	assert.Equal(t, []int64{3}, column.Shape())
	assert.Same(t, a, column.Array())
	require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 6, 4), 1))
	v, err := column.Read(ctx, zarr.Prototype{}, 1)
	require.NoError(t, err)
	defer v.Release()
	assert.Equal(t, []int32{7, 15, 23}, host[int32](t, v.(*ndview.NDBuffer)))
	require.NoError(t, column.Write(ctx, oneTo(t, 3), 1))
	assert.Equal(t, []int32{0, 1, 2, 3, 4, 5, 6, 1, 8, 9, 10, 11, 12, 13, 14, 2, 16, 17, 18, 19, 20, 21, 22, 3}, readInts(t, a))

	require.NoError(t, a.Resize(ctx, 5, 4))
	_, err = column.Read(ctx, zarr.Prototype{}, 1)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "the array has become smaller than the view")
	assert.ErrorIs(t, column.Write(ctx, 1, 1), arrowbuf.ErrOutOfRange)
}

// counter counts the reads of each key.
type counter struct {
	store.Store
	mu   sync.Mutex
	gets map[string]int
	size int64
}

func (c *counter) Get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	value, err := c.Store.Get(ctx, key, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets[key]++
	c.size += int64(len(value))
	return value, err
}

func (c *counter) reset() {
	c.gets, c.size = map[string]int{}, 0
}

func TestOnlyNeededChunksAreRead(t *testing.T) {
	s := &counter{Store: store.NewMemory()}
	s.reset()
	a := create(t, s, "a", ints([]int64{7, 8}, []int64{4, 4}))
	s.reset()
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.Span(4, 7), zarr.Span(0, 8)), 1, 1))
	assert.Empty(t, s.gets, "whole chunks, clipped to the array, are not read")
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.List(3, 1, 0, 2), zarr.Span(0, 4)), 2, 1))
	assert.Empty(t, s.gets, "a list may cover a chunk")
	mask := make([]bool, 56)
	for i := range mask {
		mask[i] = i/8 < 4
	}
	require.NoError(t, a.Set(ctx, zarr.Mask(mask, 7, 8), 3, 1))
	assert.Empty(t, s.gets, "a mask may cover a chunk")
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.Span(0, 4), zarr.Span(0, 6)), 4, 1))
	assert.Equal(t, map[string]int{"a/c/0/1": 1}, s.gets)
	s.reset()
	v, err := a.Get(ctx, zarr.Points([]int64{0, 6, 1}, []int64{0, 0, 1}), zarr.Prototype{}, 1)
	require.NoError(t, err)
	v.Release()
	assert.Equal(t, map[string]int{"a/c/0/0": 1, "a/c/1/0": 1}, s.gets)
}

func TestChunksOfFillValuesAreDeleted(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", ints([]int64{6}, []int64{2}))
	require.NoError(t, a.Write(ctx, oneTo(t, 6), 1))
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.List(0, 1, 4)), 0, 1))
	assert.Equal(t, []string{"a/c/1", "a/c/2", "a/zarr.json", "zarr.json"}, keysOf(t, s))
	a.WriteEmptyChunks = true
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.List(0, 5)), 0, 1))
	assert.Contains(t, keysOf(t, s), "a/c/0")
	assert.Contains(t, keysOf(t, s), "a/c/2")
}

func TestReadIntoFillsViewsOfAnyLayout(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "a", ints([]int64{4, 6}, []int64{3, 4}))
		require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 4, 6), 1))
		for _, on := range []arrowbuf.Device{arrowbuf.CPU(), dev} {
			for _, c := range []struct {
				selection zarr.Selection
				want      []int32 // of column 1, transposed
			}{
				{zarr.Select(zarr.Span(1, 3), zarr.Span(2, 5)), []int32{8, 14, 9, 15, 10, 16}},
				{zarr.Select(zarr.List(3, 0), zarr.SpanStep(0, 6, 2)), []int32{18, 0, 20, 2, 22, 4}},
			} {
				whole, err := ndview.Zeros(on, ndview.Int32, 3, 2)
				require.NoError(t, err)
				dst, err := whole.Transpose()
				require.NoError(t, err)
				v, err := a.View(c.selection)
				require.NoError(t, err)
				require.NoError(t, v.ReadInto(ctx, dst, 2))
				assert.Equal(t, c.want, host[int32](t, whole))
				assert.ErrorIs(t, v.ReadInto(ctx, whole, 1), ndview.ErrShape)
				frozen, err := dst.ReadOnly()
				require.NoError(t, err)
				assert.ErrorIs(t, v.ReadInto(ctx, frozen, 1), ndview.ErrReadOnly)
				assert.Error(t, v.ReadInto(ctx, nil, 1))
				frozen.Release()
				dst.Release()
				whole.Release()
			}
		}
	})
}

func TestSelectionsAreParsedFromJSON(t *testing.T) {
	a := create(t, store.NewMemory(), "a", ints([]int64{4, 6}, []int64{3, 4}))
	require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 4, 6), 1))
	for text, want := range map[string][]int32{
		`{"kind":"box","inclusive_min":[1,2],"shape":[2,3]}`:                                                                {8, 9, 10, 14, 15, 16},
		`{"kind":"slice","start":[3,0],"stop":[-1,6],"step":[-2,4]}`:                                                        {18, 22, 6, 10},
		`{"kind":"point","coords":[2,5]}`:                                                                                   {17},
		`{"kind":"points","coords":[[3,0],[0,5]]}`:                                                                          {18, 5},
		`{"kind":"box","inclusive_min":[["-inf"],4],"exclusive_max":[["+inf"],6]}`:                                          {4, 5, 10, 11, 16, 17, 22, 23},
		`{"kind":"transform","input_shape":[2,2],"output":[{"input_dimension":1},{"input_dimension":0,"stride":3}]}`:        {0, 6, 3, 9},
		`{"kind":"transform","input_shape":[2,2],"output":[{"index_array":[[3],[0]]},{"index_array":[[5,1]],"offset":-1}]}`: {22, 18, 4, 0},
		`{"kind":"transform","input_shape":[3],"output":[{"offset":1},{"index_array":[2,1,0],"stride":2}]}`:                 {10, 8, 6},
	} {
		s, err := zarr.ParseSelection([]byte(text))
		require.NoError(t, err, text)
		v, err := a.Get(ctx, s, zarr.Prototype{}, 1)
		require.NoError(t, err, text)
		assert.Equal(t, want, host[int32](t, v.(*ndview.NDBuffer)), text)
	}
	for text, want := range map[string]error{
		`{"kind":"point","coords":[4,0]}`:                                                        arrowbuf.ErrOutOfRange,
		`{"kind":"point","coords":[0]}`:                                                          zarr.ErrSelection,
		`{"kind":"slice","start":[-1,0],"stop":[2,2]}`:                                           arrowbuf.ErrOutOfRange,
		`{"kind":"transform","input_shape":[2],"output":[{"index_array":[1,2,3]},{"offset":0}]}`: zarr.ErrSelection,
		`{"kind":"transform","input_rank":1,"output":[{"offset":1},{"offset":0}]}`:               zarr.ErrSelection,
	} {
		s, err := zarr.ParseSelection([]byte(text))
		require.NoError(t, err, text)
		_, err = a.Get(ctx, s, zarr.Prototype{}, 1)
		assert.ErrorIs(t, err, want, text)
	}
	_, err := zarr.ParseSelection([]byte(`{"kind":"bogus"}`))
	assert.ErrorIs(t, err, zarr.ErrSelection)
}

// indexingCase is a case of zarr-indexing, with the transform that its input means.
type indexingCase struct {
	Name, Error string
	Input       json.RawMessage
	Normalized  struct {
		Min    []any `json:"input_inclusive_min"`
		Max    []any `json:"input_exclusive_max"`
		Output []struct {
			Offset, Stride int64
			Axis           *int  `json:"input_dimension"`
			Array          []any `json:"index_array"`
		}
	}
}

// positions returns the shape of the domain, and the positions of all its elements.
// Infinite bounds are 0 and 5.
func (c indexingCase) positions() (shape []int64, all [][]int64) {
	bound := func(v any, infinite int64) int64 {
		if n, ok := v.(float64); ok {
			return int64(n)
		}
		return infinite
	}
	shape, total := []int64{}, int64(1)
	for axis, low := range c.Normalized.Min {
		shape = append(shape, bound(c.Normalized.Max[axis], 5)-bound(low, 0))
		total *= shape[axis]
	}
	for i := range total {
		at, rest := make([]int64, len(shape)), i
		for axis := len(shape) - 1; axis >= 0; axis-- {
			at[axis] = rest % shape[axis]
			rest /= shape[axis]
		}
		position := []int64{}
		for _, m := range c.Normalized.Output {
			switch {
			case m.Axis != nil:
				position = append(position, m.Offset+m.Stride*(bound(c.Normalized.Min[*m.Axis], 0)+at[*m.Axis]))
			case m.Array != nil:
				position = append(position, m.Offset+m.Stride*int64(m.Array[at[0]].(float64)))
			default:
				position = append(position, m.Offset)
			}
		}
		all = append(all, position)
	}
	return shape, all
}

// smallest returns the shape of the smallest array that has all positions and the
// infinite bounds, or false if one is negative.
func (c indexingCase) smallest(positions [][]int64) ([]int64, bool) {
	shape := make([]int64, len(c.Normalized.Output))
	for axis := range shape {
		shape[axis] = 5
		for _, p := range positions {
			if p[axis] < 0 {
				return nil, false
			}
			shape[axis] = max(shape[axis], p[axis]+1)
		}
		if m := c.Normalized.Output[axis]; m.Axis != nil {
			if _, finite := c.Normalized.Max[*m.Axis].(float64); !finite {
				shape[axis] = 5
			}
		}
	}
	return shape, true
}

func TestEveryCaseOfZarrIndexingIsReadAndWritten(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sharedData(t, "zarr-indexing"), "*.json"))
	require.NoError(t, err)
	var cases []indexingCase
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var list []indexingCase
		require.NoError(t, json.Unmarshal(raw, &list), file)
		cases = append(cases, list...)
	}
	require.Len(t, cases, 54)
	check := func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { checkIndexing(t, dev, c) })
		}
	}
	t.Run("cpu", func(t *testing.T) { check(t, arrowbuf.CPU()) })
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { check(t, dev) })
}

func checkIndexing(t *testing.T, dev arrowbuf.Device, c indexingCase) {
	s, err := zarr.ParseSelection(c.Input)
	if c.Error != "" {
		assert.ErrorIs(t, err, zarr.ErrSelection)
		return
	}
	require.NoError(t, err)
	shape, positions := c.positions()
	array, inside := c.smallest(positions)
	if !inside {
		array = make([]int64, len(c.Normalized.Output))
		for axis := range array {
			array[axis] = 30
		}
	}
	chunk := make([]int64, len(array))
	for axis := range chunk {
		chunk[axis] = 3
	}
	a := create(t, store.NewMemory(), "a", ints(array, chunk))
	p := zarr.PrototypeOn(dev)
	if !inside {
		_, err := a.Get(ctx, s, p, 1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "positions do not count from the end")
		assert.ErrorIs(t, a.Set(ctx, s, int32(1), 1), arrowbuf.ErrOutOfRange)
		return
	}
	for i, p := range positions {
		one := make([][]int64, len(p))
		for axis, n := range p {
			one[axis] = []int64{n}
		}
		require.NoError(t, a.Set(ctx, zarr.Points(one...), int32(100+i), 1))
	}
	want := []int32{}
	for i := range positions {
		want = append(want, int32(100+i))
	}
	got, err := a.Get(ctx, s, p, 1)
	require.NoError(t, err)
	defer got.Release()
	nd := got.(*ndview.NDBuffer)
	assert.Same(t, dev, nd.Device())
	assert.Equal(t, shape, nd.Shape())
	assert.Equal(t, want, host[int32](t, nd))

	require.NoError(t, a.Set(ctx, s, counting(t, dev, -1, -1, shape...), 1))
	for i, p := range positions {
		one := make([][]int64, len(p))
		for axis, n := range p {
			one[axis] = []int64{n}
		}
		v, err := a.Get(ctx, zarr.Points(one...), zarr.Prototype{}, 1)
		require.NoError(t, err)
		assert.Equal(t, []int32{int32(-1 - i)}, host[int32](t, v.(*ndview.NDBuffer)))
		v.Release()
	}
}
