//go:build linux || darwin

package cdevice

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// batches is a reader of batches, which ends with an error or a panic.
type batches struct {
	array.RecordReader
	schema *arrow.Schema
	all    []arrow.RecordBatch
	next   int
	err    error
	panics bool
	refs   int
}

func (b *batches) Retain()                        { b.refs++ }
func (b *batches) Release()                       { b.refs-- }
func (b *batches) Schema() *arrow.Schema          { return b.schema }
func (b *batches) Err() error                     { return b.err }
func (b *batches) RecordBatch() arrow.RecordBatch { return b.all[b.next-1] }
func (b *batches) Next() bool {
	if b.next == len(b.all) && b.panics {
		panic("the reader is broken")
	}
	b.next++
	return b.next <= len(b.all)
}

// someBatches returns batches of 3, 0 and 5 rows on a device.
func someBatches(t *testing.T, dev arrowbuf.Device) (*batches, []arrow.Array) {
	g := newGenerator(t)
	r := &batches{schema: arrow.NewSchema(pair.Fields(), nil), refs: 1}
	var hosts []arrow.Array
	for _, n := range []int{3, 0, 5} {
		host := g.array(pair, n, false)
		t.Cleanup(host.Release)
		arr := upload(t, dev, host)
		t.Cleanup(arr.Release)
		batch, err := ImportBatch(exported(t, arr, dev), r.schema, dev)
		require.NoError(t, err)
		t.Cleanup(batch.Release)
		r.all, hosts = append(r.all, batch), append(hosts, host)
	}
	return r, hosts
}

func TestStreamsRoundTrip(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		from, hosts := someBatches(t, dev)
		out := &DeviceStream{}
		require.NoError(t, ExportStream(from, dev, out))
		assert.Equal(t, dev.Type(), out.DeviceType())
		assert.Equal(t, 2, from.refs)
		r, err := ImportStream(out, dev)
		require.NoError(t, err)
		assert.True(t, out.Released())
		assert.True(t, from.schema.Equal(r.Schema()))
		var kept []arrow.RecordBatch
		for i := 0; r.Next(); i++ {
			assert.EqualValues(t, hosts[i].Len(), r.RecordBatch().NumRows())
			r.RecordBatch().Retain()
			kept = append(kept, r.RecordBatch())
		}
		require.NoError(t, r.Err())
		assert.False(t, r.Next(), "it stays at the end")
		require.Len(t, kept, 3)
		r.Retain()
		r.Release()
		assert.Equal(t, 2, from.refs)
		r.Release()
		assert.Equal(t, 1, from.refs)
		for i, batch := range kept { // the batches outlive the stream
			for j := range 2 {
				requireEqual(t, hosts[i].(*array.Struct).Field(j), batch.Column(j))
			}
			batch.Release()
		}
		assert.PanicsWithError(t, "cdevice.Reader.Release: buffer already released", r.Release)
	})
}

func TestStreamsReportErrors(t *testing.T) {
	requireNoHandles(t)
	for _, tt := range []struct {
		name  string
		spoil func(b *batches)
		says  string
		errno string
	}{
		{"an error", func(b *batches) { b.err = errors.New("the disk is\x00full") }, "the disk is full", "errno 5"},
		{"a panic", func(b *batches) { b.panics = true }, "the reader is broken", "errno 5"},
		{"no memory", func(b *batches) { b.err = arrowbuf.ErrOutOfMemory }, "out of device memory", "errno 12"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from, _ := someBatches(t, arrowbuf.CPU())
			tt.spoil(from)
			out := &DeviceStream{}
			require.NoError(t, ExportStream(from, arrowbuf.CPU(), out))
			r, err := ImportStream(out)
			require.NoError(t, err)
			for range 3 {
				require.True(t, r.Next())
			}
			assert.False(t, r.Next())
			assert.ErrorContains(t, r.Err(), tt.says)
			assert.ErrorContains(t, r.Err(), tt.errno)
			assert.ErrorContains(t, r.Err(), "get_next")
			assert.False(t, r.Next())
			r.Release()
			assert.Equal(t, 1, from.refs)
		})
	}
}

func TestImportStreamRejectsOtherDevices(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		from, _ := someBatches(t, dev)
		out := &DeviceStream{}
		require.NoError(t, ExportStream(from, arrowbuf.CPU(), out))
		r, err := ImportStream(out, dev)
		require.NoError(t, err)
		assert.False(t, r.Next())
		assert.ErrorContains(t, r.Err(), "errno 22")
		assert.ErrorContains(t, r.Err(), `"text"`)
		r.Release()

		from, _ = someBatches(t, dev)
		require.NoError(t, ExportStream(from, dev, out))
		out.deviceType = 1 // differs from the arrays' type
		r, err = ImportStream(out, dev)
		require.NoError(t, err)
		assert.False(t, r.Next())
		assert.ErrorContains(t, r.Err(), "an array on cuda in a stream of arrays on cpu")
		r.Release()
	})
}

func TestImportStreamRejectsMalformedStreams(t *testing.T) {
	requireNoHandles(t)
	_, err := ImportStream(nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportStream(&DeviceStream{})
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	from, _ := someBatches(t, arrowbuf.CPU())
	for _, tt := range []func(s *DeviceStream){
		func(s *DeviceStream) { s.getNext = 0 },
		func(s *DeviceStream) { s.getSchema = 0 },
	} {
		out := &DeviceStream{}
		require.NoError(t, ExportStream(from, arrowbuf.CPU(), out))
		tt(out)
		_, err = ImportStream(out)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		assert.Equal(t, 1, from.refs)
	}
	var unknown DeviceStream
	require.NoError(t, ExportStream(from, arrowbuf.CPU(), &unknown))
	copied := unknown
	unknown.Release()
	var s Schema
	assert.EqualValues(t, errnoInvalid, call(copied.getSchema, addressOf(&copied), uintptr(unsafe.Pointer(&s))), "a stream that is released")
	assert.Zero(t, call(copied.getLastError, addressOf(&copied)))
}

func TestCPUStreamsRoundTrip(t *testing.T) {
	requireNoHandles(t)
	from, hosts := someBatches(t, arrowbuf.CPU())
	out := &Stream{}
	require.NoError(t, ExportCPUStream(from, out))
	assert.Equal(t, 2, from.refs)
	r, err := ImportCPUStream(out)
	require.NoError(t, err)
	assert.True(t, out.Released())
	assert.True(t, from.schema.Equal(r.Schema()))
	n := 0
	for ; r.Next(); n++ {
		for j := range 2 {
			requireEqual(t, hosts[n].(*array.Struct).Field(j), r.RecordBatch().Column(j))
		}
	}
	require.NoError(t, r.Err())
	assert.Equal(t, 3, n)
	r.Release()
	assert.Equal(t, 1, from.refs)
}

func TestCPUStreamsReportErrors(t *testing.T) {
	requireNoHandles(t)
	from, _ := someBatches(t, arrowbuf.CPU())
	from.err = errors.New("the disk is full")
	out := &Stream{}
	require.NoError(t, ExportCPUStream(from, out))
	r, err := ImportCPUStream(out)
	require.NoError(t, err)
	for r.Next() {
	}
	assert.ErrorContains(t, r.Err(), "errno 5: the disk is full")
	r.Release()
	_, err = ImportCPUStream(nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportCPUStream(&Stream{})
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	require.NoError(t, ExportCPUStream(from, out))
	out.getNext = 0
	_, err = ImportCPUStream(out)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	assert.Equal(t, 1, from.refs)
}

// The streams of Arrow's integration tests, of all versions, and slices of them, are
// exported and imported.
func TestGoldenStreamsRoundTrip(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data", "arrow-testing", "arrow-ipc-stream", "integration")
	files, err := filepath.Glob(filepath.Join(root, "*", "*.stream"))
	require.NoError(t, err)
	if len(files) == 0 {
		require.Empty(t, os.Getenv("CI"), "no golden files in %s", root)
		t.Skip("no golden files in ", root)
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
				schema, hosts := readStream(t, file)
				checkGolden(t, dev, schema, hosts)
			})
		}
	})
}

// readStream returns the batches of a file, each followed by a slice of it.
func readStream(t *testing.T, file string) (*arrow.Schema, []arrow.RecordBatch) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	r, err := ipc.NewReader(f)
	require.NoError(t, err)
	defer r.Release()
	rng := rand.New(rand.NewPCG(3, 3))
	var batches []arrow.RecordBatch
	for r.Next() {
		whole := r.RecordBatch()
		whole.Retain()
		from := rng.Int64N(whole.NumRows() + 1)
		batches = append(batches, whole, whole.NewSlice(from, from+rng.Int64N(whole.NumRows()-from+1)))
	}
	require.NoError(t, r.Err())
	t.Cleanup(func() {
		for _, b := range batches {
			b.Release()
		}
	})
	return r.Schema(), batches
}

func checkGolden(t *testing.T, dev arrowbuf.Device, schema *arrow.Schema, hosts []arrow.RecordBatch) {
	from := &batches{schema: schema, refs: 1}
	for _, host := range hosts {
		moved, err := arrowbuf.CopyTo(host, dev)
		require.NoError(t, err)
		defer moved.Release()
		from.all = append(from.all, moved)
	}
	var out DeviceStream
	require.NoError(t, ExportStream(from, dev, &out))
	r, err := ImportStream(&out, dev)
	require.NoError(t, err)
	defer r.Release()
	require.True(t, schema.Equal(r.Schema()), "want %v\ngot %v", schema, r.Schema())
	for _, host := range hosts {
		require.True(t, r.Next(), r.Err())
		back, err := arrowbuf.CopyTo(r.RecordBatch(), arrowbuf.CPU())
		require.NoError(t, err)
		require.NoError(t, array.ValidateRecordFull(back))
		require.True(t, array.RecordEqual(host, back), "want %v\ngot %v", host, back)
		back.Release()
	}
	require.False(t, r.Next())
	require.NoError(t, r.Err())
}
