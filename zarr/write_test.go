package zarr_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPartialChunkIsPaddedWithFillValue(t *testing.T) {
	s := store.NewMemory()
	meta := ints([]int64{3, 3}, []int64{2, 2})
	meta.FillValue = []byte{9, 0, 0, 0}
	a := create(t, s, "a", meta)
	require.NoError(t, a.WriteChunk(ctx, []int64{1, 1}, values(t, ndview.Int32, []int32{1}, 1, 1)))
	raw, err := s.Get(ctx, "a/c/1/1", store.Range{})
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0}, raw)
	v, err := a.ReadChunk(ctx, zarr.Prototype{}, []int64{1, 1})
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 9, 9, 9}, host[int32](t, v.(*ndview.NDBuffer)))
	v, err = a.ReadChunk(ctx, zarr.Prototype{}, []int64{5, 5})
	require.NoError(t, err)
	assert.Equal(t, []int32{9, 9, 9, 9}, host[int32](t, v.(*ndview.NDBuffer)), "beyond the array's edge")
}

func TestOnlyBitwiseEmptyChunksAreOmitted(t *testing.T) {
	payload := math.Float64frombits(0x7ff80000000000ff)
	negativeZero := math.Copysign(0, -1)
	for _, c := range []struct {
		fill  float64
		chunk []float64
		kept  bool
	}{
		{0, []float64{0, 0}, false}, {0, []float64{0, 1}, true}, {0, []float64{negativeZero, negativeZero}, true},
		{negativeZero, []float64{negativeZero, negativeZero}, false}, {negativeZero, []float64{0, 0}, true},
		{math.NaN(), []float64{math.NaN(), math.NaN()}, false}, {math.NaN(), []float64{payload, math.NaN()}, true},
		{0, []float64{0}, false}, {1, []float64{1}, false}, // padded
	} {
		s, of := store.NewMemory(), element.Of(ndview.Float64)
		a, err := zarr.New(s, "a", &zarr.ArrayMetadata{Shape: []int64{int64(len(c.chunk))}, DataType: of, ChunkShape: []int64{2}, Codecs: zarr.DefaultCodecs(of),
			FillValue: binary.LittleEndian.AppendUint64(nil, math.Float64bits(c.fill))})
		require.NoError(t, err)
		require.NoError(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Float64, []float64{3, 4}, 2)), "a stale chunk")
		require.NoError(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Float64, c.chunk, int64(len(c.chunk)))))
		assert.Len(t, keysOf(t, s), map[bool]int{true: 1}[c.kept], c)

		a.WriteEmptyChunks = true
		require.NoError(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Float64, c.chunk, int64(len(c.chunk)))))
		assert.Len(t, keysOf(t, s), 1, c)
	}
}

// pointers records the addresses of the values that a store receives.
type pointers struct {
	store.Store
	mu    sync.Mutex
	given []*byte
}

func (p *pointers) Set(ctx context.Context, key string, value []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = append(p.given, unsafe.SliceData(value))
	return p.Store.Set(ctx, key, value)
}

func TestUncompressedHostChunksAreStoredWithoutCopy(t *testing.T) {
	s := &pointers{Store: store.NewMemory()}
	a, err := zarr.New(s, "a", ints([]int64{4}, []int64{2}))
	require.NoError(t, err)
	nd := values(t, ndview.Int32, []int32{1, 2, 3, 4}, 4)
	require.NoError(t, a.Write(ctx, nd, 1))
	raw, ok := nd.HostBytes()
	require.True(t, ok)
	assert.Equal(t, []*byte{&raw[0], &raw[8]}, s.given)
}

func TestWriteRejectsMismatchedValues(t *testing.T) {
	s := store.NewMemory()
	for _, meta := range []*zarr.ArrayMetadata{ints([]int64{4}, []int64{4}), sharded([]int64{4}, []int64{4}, []int64{2})} {
		a, err := zarr.New(s, "a", meta)
		require.NoError(t, err)
		text, err := element.PackVLen([]string{"x"}, 1)
		require.NoError(t, err)
		assert.ErrorContains(t, a.WriteChunk(ctx, []int64{0}, text), "int32")
		assert.ErrorContains(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Uint32, []uint32{1}, 1)), "uint32")
		assert.ErrorContains(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Int32, make([]int32, 5), 5)), "larger")
		assert.ErrorContains(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Int32, []int32{1}, 1, 1)), "shape")
		assert.Error(t, a.WriteChunk(ctx, []int64{0}, nil))
		assert.Error(t, a.WriteChunk(ctx, []int64{0}, (*ndview.NDBuffer)(nil)))
		assert.Error(t, a.WriteChunk(ctx, []int64{-1}, values(t, ndview.Int32, []int32{1}, 1)))
		assert.Error(t, a.WriteChunk(ctx, []int64{0, 0}, values(t, ndview.Int32, []int32{1}, 1)))
		assert.ErrorContains(t, a.Write(ctx, values(t, ndview.Int32, []int32{1}, 1), 1), "shape")
		_, err = a.ReadChunk(ctx, zarr.Prototype{}, []int64{-1})
		assert.Error(t, err)
		_, err = a.ReadRows(ctx, zarr.Prototype{}, 0, 5, 1)
		assert.Error(t, err)
	}
	assert.Empty(t, keysOf(t, s))
	_, err := zarr.New(s, "a/../b", ints([]int64{1}, []int64{1}))
	assert.ErrorIs(t, err, zarr.ErrInvalidName)
}

func TestInvalidUTF8IsRejectedOnWriteAndRead(t *testing.T) {
	s := store.NewMemory()
	array := func(meta *zarr.ArrayMetadata) *zarr.Array {
		a, err := zarr.New(s, "a", meta)
		require.NoError(t, err)
		return a
	}
	text := &zarr.ArrayMetadata{Shape: []int64{3}, DataType: element.String, ChunkShape: []int64{3}, Codecs: zarr.DefaultCodecs(element.String)}
	raw := &zarr.ArrayMetadata{Shape: []int64{3}, DataType: element.Bytes, ChunkShape: []int64{3}, Codecs: zarr.DefaultCodecs(element.Bytes)}
	for _, bad := range [][]string{{"ok", "\xff", ""}, {"h\xc3", "\xa9", "cut in two"}} {
		v, err := element.PackVLen(bad, 3)
		require.NoError(t, err)
		a := array(text)
		assert.ErrorContains(t, a.WriteChunk(ctx, []int64{0}, v), "UTF-8")
		b := array(raw)
		require.NoError(t, b.WriteChunk(ctx, []int64{0}, v))
		_, err = a.Read(ctx, zarr.Prototype{}, 1)
		assert.ErrorContains(t, err, "UTF-8")
	}
	require.NoError(t, s.Delete(ctx, "a/c/0"))
	v, err := element.PackVLen([]string{"ok", "no\xff"}, 2)
	require.NoError(t, err)
	assert.ErrorContains(t, array(text).WriteChunk(ctx, []int64{0}, v), "element 1")
}

func TestTraceReportsEachStage(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, meta := range []*zarr.ArrayMetadata{ints([]int64{4}, []int64{2}), sharded([]int64{4}, []int64{4}, []int64{2})} {
			var onHost, raw, encoded, stored int64
			a, err := zarr.New(store.NewMemory(), "a", meta)
			require.NoError(t, err)
			a.Trace = &zarr.Trace{
				ToHost: func(n int64, _ time.Duration) { onHost += n },
				Encode: func(n, m int64, _ time.Duration) { raw += n; encoded += m },
				Store:  func(n int64, _ time.Duration) { stored += n },
			}
			require.NoError(t, a.Write(ctx, onDevice(t, dev, ndview.Int32, []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}, []int64{4}), 1))
			assert.EqualValues(t, 16, onHost)
			assert.EqualValues(t, 16, raw)
			assert.EqualValues(t, 8, encoded, "one chunk is empty")
			if _, ok := meta.Codecs[0].(codec.Sharding); ok {
				encoded += 2*16 + 4 // the index
			}
			assert.Equal(t, encoded, stored)
			a.Trace = &zarr.Trace{}
			require.NoError(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Int32, []int32{1}, 1)))
		}
	})
}

func TestCancelledWritesStop(t *testing.T) {
	done, cancel := context.WithCancel(ctx)
	cancel()
	s := store.NewMemory()
	for _, meta := range []*zarr.ArrayMetadata{ints([]int64{4}, []int64{2}), sharded([]int64{4}, []int64{4}, []int64{2})} {
		a, err := zarr.New(s, "a", meta)
		require.NoError(t, err)
		assert.ErrorIs(t, a.Write(done, values(t, ndview.Int32, []int32{1, 2, 3, 4}, 4), 2), context.Canceled)
		_, err = a.Read(done, zarr.Prototype{}, 2)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, a.WriteMetadata(done), context.Canceled)
	}
	assert.Empty(t, keysOf(t, s))
}

// broken fails every Set and Create.
type broken struct{ store.Store }

var errDiskFull = errors.New("disk full")

func (broken) Set(context.Context, string, []byte) error { return errDiskFull }

func (broken) Create(context.Context, string) (store.Writer, error) {
	return nil, errDiskFull
}

func TestWriteReportsStoreErrors(t *testing.T) {
	for _, meta := range []*zarr.ArrayMetadata{ints([]int64{40}, []int64{2}), sharded([]int64{40}, []int64{4}, []int64{2})} {
		a, err := zarr.New(broken{store.NewMemory()}, "a", meta)
		require.NoError(t, err)
		v := values(t, ndview.Int32, append([]int32{1}, make([]int32, 39)...), 40)
		assert.ErrorIs(t, a.Write(ctx, v, 2), errDiskFull)
		assert.ErrorIs(t, a.WriteMetadata(ctx), errDiskFull)
	}
}

func TestNonContiguousViewsAreWritten(t *testing.T) {
	s := store.NewMemory()
	raw := randomElements([]int64{6, 4}, []int64{1, 1}, []byte{0, 0})
	whole := onDevice(t, arrowbuf.CPU(), ndview.Int16, raw, []int64{6, 4})
	moved, err := whole.Transpose()
	require.NoError(t, err)
	defer moved.Release()
	part, err := moved.Slice(1, 1, 5)
	require.NoError(t, err)
	defer part.Release()
	a, err := zarr.Create(ctx, s, "a", &zarr.ArrayMetadata{Shape: []int64{4, 4}, DataType: element.Of(ndview.Int16),
		ChunkShape: []int64{3, 2}, Codecs: zarr.DefaultCodecs(element.Of(ndview.Int16))})
	require.NoError(t, err)
	require.NoError(t, a.Write(ctx, part, 1))
	got, err := a.Read(ctx, zarr.Prototype{}, 1)
	require.NoError(t, err)
	defer got.Release()
	assert.Equal(t, bytesOf(t, part), bytesOf(t, got))
}

func TestElementsOfAnotherArrayAreWrittenInOtherChunks(t *testing.T) {
	s := store.NewMemory()
	text := &zarr.ArrayMetadata{Shape: []int64{5, 7}, ChunkShape: []int64{2, 3}, DataType: element.String, Codecs: zarr.DefaultCodecs(element.String)}
	old := ints([]int64{5, 7}, []int64{2, 3})
	old.Format, old.ChunkKeyEncoding.V2 = 2, true
	for name, c := range map[string]struct{ from, to *zarr.ArrayMetadata }{
		"chunks":    {ints([]int64{5, 7}, []int64{2, 3}), ints([]int64{5, 7}, []int64{3, 7}, codec.Zstd{})},
		"shards":    {ints([]int64{5, 7}, []int64{2, 3}), sharded([]int64{5, 7}, []int64{4, 4}, []int64{2, 1})},
		"v2":        {old, ints([]int64{5, 7}, []int64{5, 2})},
		"no axes":   {ints(nil, nil), ints(nil, nil, codec.Gzip{})},
		"no chunks": {ints([]int64{0, 3}, []int64{1, 1}), ints([]int64{0, 3}, []int64{2, 2})},
	} {
		from, to := create(t, s, name+"/from", c.from), create(t, s, name+"/to", c.to)
		numbers := make([]int32, 1)
		for _, n := range c.from.Shape {
			numbers = make([]int32, len(numbers)*int(n))
		}
		for i := range numbers {
			numbers[i] = int32(i * i)
		}
		require.NoError(t, from.Write(ctx, values(t, ndview.Int32, numbers, c.from.Shape...), 1))
		require.NoError(t, to.WriteFrom(ctx, from, 2), name)
		assert.Equal(t, numbers, readAs(t, to, []int32{}), name)
	}
	from, to := create(t, s, "from", text), create(t, s, "to", text)
	require.NoError(t, from.Set(ctx, zarr.Select(zarr.At(3)), "x", 1))
	require.NoError(t, to.WriteFrom(ctx, from, 2))
	assert.Equal(t, readAs(t, from, []string{}), readAs(t, to, []string{}))

	other := create(t, s, "other", ints([]int64{5, 6}, []int64{2, 3}))
	assert.ErrorIs(t, to.WriteFrom(ctx, other, 1), ndview.ErrShape)
	assert.Error(t, to.WriteFrom(ctx, nil, 1))
	require.NoError(t, s.Set(ctx, "from/c/0/0", []byte("x")))
	assert.ErrorContains(t, to.WriteFrom(ctx, from, 1), `"from"`)
}

// pieces records how much is written to a file at once. Writes fail after some.
type pieces struct {
	*store.Local
	mu    sync.Mutex
	sizes []int
	left  int
}

func (p *pieces) Create(ctx context.Context, key string) (store.Writer, error) {
	w, err := p.Local.Create(ctx, key)
	return piecesWriter{w, p}, err
}

type piecesWriter struct {
	store.Writer
	pieces *pieces
}

func (w piecesWriter) Write(data []byte) (int, error) {
	w.pieces.mu.Lock()
	defer w.pieces.mu.Unlock()
	if w.pieces.left == 0 {
		return 0, errFull
	}
	w.pieces.left--
	w.pieces.sizes = append(w.pieces.sizes, len(data))
	return w.Writer.Write(data)
}

var errFull = errors.New("full")

// The goroutine of an encoded chunk keeps its processor while it writes.
func TestEncodedChunksAreWrittenToFilesInPieces(t *testing.T) {
	const n = 1 << 20
	random := make([]int32, n)
	for i := range random {
		random[i] = int32(uint32(i*i) * 2654435761 >> 9)
	}
	v := values(t, ndview.Int32, random, n)
	gzip := codec.Gzip{Level: 1}
	for name, codecs := range map[string]codec.List{
		"chunks": zarr.DefaultCodecs(element.Of(ndview.Int32), gzip),
		"shards": {codec.Sharding{ChunkShape: []int64{n / 2}, Codecs: zarr.DefaultCodecs(element.Of(ndview.Int32), gzip)}},
		"plain":  zarr.DefaultCodecs(element.Of(ndview.Int32)),
	} {
		t.Run(name, func(t *testing.T) {
			s := &pieces{Local: store.NewLocal(t.TempDir()), left: math.MaxInt}
			meta := ints([]int64{n}, []int64{n})
			meta.Codecs = codecs
			a := create(t, s, "a", meta)
			s.sizes = nil
			require.NoError(t, a.Write(ctx, v, 1))
			if name == "plain" {
				assert.Empty(t, s.sizes, "Set writes it at once")
			} else {
				assert.Greater(t, len(s.sizes), 10)
				for _, size := range s.sizes {
					assert.LessOrEqual(t, size, 64<<10)
				}
			}
			got, err := a.Read(ctx, zarr.Prototype{}, 1)
			require.NoError(t, err)
			assert.Equal(t, random, host[int32](t, got.(*ndview.NDBuffer)))
			got.Release()
			if name == "plain" {
				return
			}
			before, err := s.List(ctx, "")
			require.NoError(t, err)
			s.left = 5 // pieces of the next chunk
			require.ErrorIs(t, a.Set(ctx, zarr.Select(zarr.At(0)), 1, 1), errFull)
			s.left = math.MaxInt
			got, err = a.Read(ctx, zarr.Prototype{}, 1)
			require.NoError(t, err)
			assert.Equal(t, random, host[int32](t, got.(*ndview.NDBuffer)), "nothing is half-written")
			got.Release()
			after, err := s.List(ctx, "")
			require.NoError(t, err)
			assert.Equal(t, before, after)
		})
	}
}
