package arrowipc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// sharedTestdata is the folder of test data of other projects.
func sharedTestdata(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "data", "arrow-testing", folder)
	if _, err := os.Stat(path); err != nil {
		require.Empty(t, os.Getenv("CI"), "%v", err)
		t.Skip(err)
	}
	return path
}

// goldenFiles are the streams and files of Arrow's integration tests, of all
// versions.
func goldenFiles(t testing.TB) (files []string) {
	t.Helper()
	root := sharedTestdata(t, filepath.Join("arrow-ipc-stream", "integration"))
	for _, kind := range []string{"*.stream", "*.arrow_file"} {
		found, err := filepath.Glob(filepath.Join(root, "*", kind))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	return files
}

// readAllBatches reads all batches, which are released at the end of the test.
func readAllBatches(t testing.TB, r array.RecordReader) (batches []arrow.RecordBatch, err error) {
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

// readWithArrowGo reads a stream or file with arrow-go.
func readWithArrowGo(t testing.TB, mem memory.Allocator, raw []byte) (schema *arrow.Schema, batches []arrow.RecordBatch) {
	t.Helper()
	if !bytes.HasPrefix(raw, []byte("ARROW1")) {
		r, err := ipc.NewReader(bytes.NewReader(raw), ipc.WithAllocator(mem))
		require.NoError(t, err)
		defer r.Release()
		batches, err := readAllBatches(t, r)
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

// inputKinds are the kinds of input for a stream or file.
var inputKinds = map[string]func(t testing.TB, raw []byte, dev arrowbuf.Device) (array.RecordReader, error){
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
			return arrowipc.NewFileReaderFromBuffer(b, dev)
		}
		return arrowipc.NewReader(arrowipc.NewBufferReader(b), dev)
	},
	"host": func(t testing.TB, raw []byte, dev arrowbuf.Device) (array.RecordReader, error) {
		b, err := arrowbuf.WrapHost(memory.NewBufferBytes(raw))
		require.NoError(t, err)
		t.Cleanup(b.Release)
		if isFile(raw) {
			return arrowipc.NewFileReaderFromBuffer(b, dev)
		}
		return arrowipc.NewReader(arrowipc.NewBufferReader(b), dev)
	},
}

func isFile(raw []byte) bool { return bytes.HasPrefix(raw, []byte("ARROW1")) }

func TestGoldenFilesReadAsArrowGo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	files := goldenFiles(t)
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			for way, open := range inputKinds {
				t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)+"/"+way, func(t *testing.T) {
					schema, want := readWithArrowGo(t, mem, raw)
					r, err := open(t, raw, dev)
					if errors.Is(err, errors.ErrUnsupported) {
						t.Skip(err)
					}
					require.NoError(t, err)
					require.True(t, schema.Equal(r.Schema()), "%v\n%v", schema, r.Schema())
					got, err := readAllBatches(t, r)
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

func TestGoldenFilesWrittenAsArrowGo(t *testing.T) {
	mem := checked(t)
	files := goldenFiles(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
				_, host := readWithArrowGo(t, mem, raw)
				if len(host) == 0 {
					return
				}
				r, err := inputKinds["reader"](t, raw, dev)
				require.NoError(t, err)
				got, err := readAllBatches(t, r)
				r.Release()
				require.NoError(t, err)
				for _, file := range []bool{false, true} {
					want, err := encodeWithArrowGo(t, file, host)
					if err != nil {
						assert.True(t, strings.Contains(err.Error(), "eplacement"), err)
						continue
					}
					requireSameBytes(t, want, encodeWithQuiver(t, file, got))
				}
			})
		}
	})
}

func TestReaderAllocatesPipeBodyGradually(t *testing.T) {
	defer arrowipc.SetFirstAlloc(1000)()
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, checked(t), 3000, true, types()...), dev)
		raw := encodeWithQuiver(t, false, []arrow.RecordBatch{moved})
		r, err := inputKinds["pipe"](t, raw, dev)
		require.NoError(t, err)
		got, err := readAllBatches(t, r)
		r.Release()
		require.NoError(t, err)
		require.Len(t, got, 1)
		requireSame(t, host, got[0], dev)
		assert.ErrorIs(t, consume(t, "pipe", raw[:len(raw)-5000], dev), io.ErrUnexpectedEOF)
	})
}

func TestReaderStopsAtEndOfStream(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, checked(t), 50, true, someTypes...), dev)
		one := encodeWithQuiver(t, false, []arrow.RecordBatch{moved})
		for name, in := range map[string]io.Reader{
			"seekable": bytes.NewReader(append(one, one...)),
			"pipe":     io.MultiReader(bytes.NewReader(one), bytes.NewReader(one)),
		} {
			for range 2 {
				r, err := arrowipc.NewReader(in, dev)
				require.NoError(t, err, name)
				got, err := readAllBatches(t, r)
				r.Release()
				require.NoError(t, err)
				require.Len(t, got, 1)
				requireSame(t, host, got[0], dev)
			}
			_, err := arrowipc.NewReader(in, dev)
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	})
}

func TestReaderCopiesMisalignedBody(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, checked(t), 50, true, someTypes...), dev)
		raw := append([]byte("123"), encodeWithQuiver(t, false, []arrow.RecordBatch{moved})...)
		whole, err := dev.Alloc(int64(len(raw)))
		require.NoError(t, err)
		defer whole.Release()
		_, err = whole.CopyFromHost(raw, 0)
		require.NoError(t, err)
		odd, err := whole.Slice(3, whole.Len()-3)
		require.NoError(t, err)
		defer odd.Release()
		r, err := arrowipc.NewReader(arrowipc.NewBufferReader(odd), dev)
		require.NoError(t, err)
		got, err := readAllBatches(t, r)
		r.Release()
		require.NoError(t, err)
		require.Len(t, got, 1)
		requireSame(t, host, got[0], dev)
		values, err := arrowbuf.BufferOf(got[0].Column(0).Data().Buffers()[1])
		require.NoError(t, err)
		defer values.Release()
		assert.Zero(t, values.Address()%2)
	})
}

// Each driver call fails in turn.
func TestDeviceFailureReleasesMemory(t *testing.T) {
	batch, _ := arraytest.Wide(t, memory.DefaultAllocator, 4, 1200<<10)
	for name, run := range map[string]func(dev arrowbuf.Device, raw []byte) error{
		"read": func(dev arrowbuf.Device, raw []byte) error {
			r, err := arrowipc.NewFileReader(bytes.NewReader(raw), int64(len(raw)), dev)
			if err != nil {
				return err
			}
			defer r.Release()
			batch, err := r.RecordBatchAt(0)
			if err == nil {
				batch.Release()
			}
			return err
		},
		"pipe": func(dev arrowbuf.Device, raw []byte) error {
			r, err := arrowipc.NewReader(struct{ io.Reader }{bytes.NewReader(raw[8:])}, dev)
			if err != nil {
				return err
			}
			defer r.Release()
			r.Next()
			return r.Err()
		},
		"write": func(dev arrowbuf.Device, _ []byte) error {
			moved, err := arrowbuf.CopyTo(batch, dev)
			if err != nil {
				return err
			}
			defer moved.Release()
			w, err := arrowipc.NewWriter(io.Discard, batch.Schema())
			if err != nil {
				return err
			}
			return errors.Join(w.Write(moved), w.Close())
		},
	} {
		for _, codec := range []arrowipc.Codec{arrowipc.Uncompressed, arrowipc.LZ4} {
			raw := encodeWithQuiver(t, true, []arrow.RecordBatch{batch}, arrowipc.WithCodec(codec))
			failed, done := 0, false
			for n := int64(1); !done; n++ {
				t.Run(fmt.Sprint(name, codec, n), func(t *testing.T) {
					var armed atomic.Bool
					var calls atomic.Int64
					dev, err := cudatest.Start(t, cudatest.Config{Fail: func(string, int) cudabuf.Result {
						if armed.Load() && calls.Add(1) == n {
							return cudatest.OutOfMemory
						}
						return 0
					}}).Device(0)
					require.NoError(t, err)
					armed.Store(true)
					err = run(dev, raw)
					armed.Store(false)
					done = calls.Load() < n
					if err != nil {
						failed++
						assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
					}
				})
			}
			assert.Greater(t, failed, 3)
		}
	}
}
