package arrowipc_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// shared is the folder of test data of other projects.
func shared(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "data", "arrow-testing", folder)
	if _, err := os.Stat(path); err != nil {
		require.Empty(t, os.Getenv("CI"), "%v", err)
		t.Skip(err)
	}
	return path
}

// goldenFiles are the streams and files that Arrow's implementations test one
// another with, of all versions.
func goldenFiles(t testing.TB) (files []string) {
	t.Helper()
	root := shared(t, filepath.Join("arrow-ipc-stream", "integration"))
	for _, kind := range []string{"*.stream", "*.arrow_file"} {
		found, err := filepath.Glob(filepath.Join(root, "*", kind))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	return files
}

// kept reads all batches, which are released at the end of the test.
func kept(t testing.TB, r array.RecordReader) (batches []arrow.RecordBatch, err error) {
	t.Helper()
	for r.Next() {
		batch := r.RecordBatch()
		batch.Retain()
		t.Cleanup(batch.Release)
		batches = append(batches, batch)
	}
	if errors.Is(r.Err(), io.EOF) {
		return batches, nil
	}
	return batches, r.Err()
}

// readTheirs reads a stream or file by arrow-go.
func readTheirs(t testing.TB, mem memory.Allocator, raw []byte) (schema *arrow.Schema, batches []arrow.RecordBatch) {
	t.Helper()
	if !bytes.HasPrefix(raw, []byte("ARROW1")) {
		r, err := ipc.NewReader(bytes.NewReader(raw), ipc.WithAllocator(mem))
		require.NoError(t, err)
		defer r.Release()
		batches, err := kept(t, r)
		require.NoError(t, err)
		return r.Schema(), batches
	}
	r, err := ipc.NewFileReader(bytes.NewReader(raw), ipc.WithAllocator(mem))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for i := range r.NumRecords() {
		batch, err := r.RecordBatchAt(i)
		require.NoError(t, err)
		t.Cleanup(batch.Release)
		batches = append(batches, batch)
	}
	return r.Schema(), batches
}

// ways are the kinds of input that a stream or file can be read from.
var ways = map[string]func(t testing.TB, raw []byte, dev arrowbuf.Device) (array.RecordReader, error){
	"reader": func(t testing.TB, raw []byte, dev arrowbuf.Device) (array.RecordReader, error) {
		if isFile(raw) {
			return arrowipc.NewFileReader(bytes.NewReader(raw), int64(len(raw)), dev)
		}
		return arrowipc.NewReader(bytes.NewReader(raw), dev)
	},
	"pipe": func(t testing.TB, raw []byte, dev arrowbuf.Device) (array.RecordReader, error) {
		if isFile(raw) {
			return nil, errors.ErrUnsupported
		}
		return arrowipc.NewReader(struct{ io.Reader }{bytes.NewReader(raw)}, dev)
	},
	"device": func(t testing.TB, raw []byte, dev arrowbuf.Device) (array.RecordReader, error) {
		b, err := dev.Alloc(int64(len(raw)))
		require.NoError(t, err)
		_, err = b.CopyFromHost(raw, 0)
		require.NoError(t, err)
		t.Cleanup(b.Release)
		if isFile(raw) {
			return arrowipc.NewFileReaderOf(b, dev)
		}
		return arrowipc.NewReader(arrowipc.NewBufferReader(b), dev)
	},
	"host": func(t testing.TB, raw []byte, dev arrowbuf.Device) (array.RecordReader, error) {
		b, err := arrowbuf.WrapHost(memory.NewBufferBytes(raw))
		require.NoError(t, err)
		t.Cleanup(b.Release)
		if isFile(raw) {
			return arrowipc.NewFileReaderOf(b, dev)
		}
		return arrowipc.NewReader(arrowipc.NewBufferReader(b), dev)
	},
}

func isFile(raw []byte) bool { return bytes.HasPrefix(raw, []byte("ARROW1")) }

func TestGoldenFilesAreReadToADeviceAsArrowGoReadsThem(t *testing.T) {
	files := goldenFiles(t)
	mem := checked(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			for way, open := range ways {
				t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)+"/"+way, func(t *testing.T) {
					schema, want := readTheirs(t, mem, raw)
					r, err := open(t, raw, dev)
					if errors.Is(err, errors.ErrUnsupported) {
						t.Skip(err)
					}
					require.NoError(t, err)
					require.True(t, schema.Equal(r.Schema()), "%v\n%v", schema, r.Schema())
					got, err := kept(t, r)
					r.Release()
					require.NoError(t, err)
					require.Len(t, got, len(want))
					for i := range want {
						requireSame(t, want[i], got[i], dev)
					}
				})
			}
		}
	})
}

func TestWhatGoldenFilesHaveIsWrittenAsArrowGoWritesIt(t *testing.T) {
	mem := checked(t)
	files := goldenFiles(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
				_, host := readTheirs(t, mem, raw)
				if len(host) == 0 {
					return
				}
				r, err := ways["reader"](t, raw, dev)
				require.NoError(t, err)
				got, err := kept(t, r)
				r.Release()
				require.NoError(t, err)
				for _, file := range []bool{false, true} {
					want, err := theirs(t, file, host)
					if err != nil {
						assert.True(t, strings.Contains(err.Error(), "eplacement"), err)
						continue
					}
					requireSameBytes(t, want, ours(t, file, got))
				}
			})
		}
	})
}
