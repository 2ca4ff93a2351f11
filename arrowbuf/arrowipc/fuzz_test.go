package arrowipc_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// consume reads untrusted bytes from one kind of input, and uses all batches that
// are valid.
func consume(t testing.TB, way string, raw []byte, dev arrowbuf.Device) error {
	t.Helper()
	r, err := inputKinds[way](t, raw, dev)
	if err != nil {
		return err
	}
	defer r.Release()
	for r.Next() {
		batch := r.RecordBatch().(*arrowbuf.RecordBatch)
		if err := validate(batch); err != nil {
			return err
		}
		host, err := arrowbuf.CopyTo(batch, arrowbuf.CPU())
		if err != nil {
			return err
		}
		m, err := arrowipc.EncodeRecordBatch(batch)
		if err == nil {
			m.Release()
		}
		host.Release()
		if err != nil {
			return err
		}
	}
	return r.Err()
}

// validate is ValidateFull. On the host, arrow-go's validation may panic.
func validate(batch *arrowbuf.RecordBatch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = arrow.ErrInvalid
		}
	}()
	return batch.ValidateFull()
}

func TestFileReaderRejectsMalformedFiles(t *testing.T) {
	var files []string
	for _, folder := range []string{"arrow-ipc-stream", "arrow-ipc-file", "arrow-ipc-tensor-stream"} {
		found, err := filepath.Glob(filepath.Join(sharedTestdata(t, folder), "c[lr]*"))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			for way := range inputKinds {
				t.Run(filepath.Base(file)+"/"+way, func(t *testing.T) {
					// A schema without batches is a valid stream.
					if err := consume(t, way, raw, dev); !strings.HasPrefix(filepath.Base(file), "crash-5e88") {
						assert.Error(t, err)
					}
				})
			}
		}
	})
}

// falseClaims returns short streams that claim large sizes.
func falseClaims(t testing.TB) map[string][]byte {
	t.Helper()
	mem := checked(t)
	raw := encodeWithQuiver(t, false, []arrow.RecordBatch{batchOf(t, mem, 10, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String)})
	changed := func(old, new uint64) []byte {
		var a, b [8]byte
		binary.LittleEndian.PutUint64(a[:], old)
		binary.LittleEndian.PutUint64(b[:], new)
		require.True(t, bytes.Contains(raw, a[:]))
		return bytes.ReplaceAll(raw, a[:], b[:])
	}
	packed := encodeWithQuiver(t, false, []arrow.RecordBatch{batchOf(t, mem, 1000, false, arrow.PrimitiveTypes.Int64)}, arrowipc.WithCodec(arrowipc.Zstd))
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], 8000)
	require.True(t, bytes.Contains(packed, length[:]))
	return map[string][]byte{
		"rows":       changed(10, 1<<40),
		"buffer":     changed(80, 1<<50),
		"metadata":   {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F},
		"compressed": bytes.ReplaceAll(packed, length[:], []byte{0, 0, 0, 0, 0, 0, 1, 0}),
		"negative":   bytes.ReplaceAll(packed, length[:], []byte{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}),
	}
}

func TestReaderDoesNotAllocateClaimedSizes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, raw := range falseClaims(t) {
			for way := range inputKinds {
				t.Run(name+"/"+way, func(t *testing.T) {
					n := testing.AllocsPerRun(1, func() { assert.Error(t, consume(t, way, raw, dev)) })
					assert.Less(t, n, 2000.0)
				})
			}
		}
	})
}

func TestCorruptFooterDoesNotPanic(t *testing.T) {
	raw := encodeWithQuiver(t, true, []arrow.RecordBatch{batchOf(t, checked(t), 3, true, arrow.PrimitiveTypes.Int16, arrow.BinaryTypes.String)})
	footer := int(binary.LittleEndian.Uint32(raw[len(raw)-10:]))
	refused := 0
	for at := len(raw) - 10 - footer; at < len(raw); at++ {
		right := raw[at]
		for _, wrong := range []byte{0, 1, 0x7f, 0xff, right ^ 0x10} {
			raw[at] = wrong
			if consume(t, "reader", raw, arrowbuf.CPU()) != nil {
				refused++
			}
		}
		raw[at] = right
	}
	assert.Greater(t, refused, footer)
	assert.NoError(t, consume(t, "reader", raw, arrowbuf.CPU()))
}

func TestTruncatedInputIsAnError(t *testing.T) {
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, _ := toDeviceAndBack(t, batchOf(t, mem, 3, true, arrow.PrimitiveTypes.Int16, arrow.BinaryTypes.String,
			&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}), dev)
		for _, file := range []bool{false, true} {
			raw := encodeWithQuiver(t, file, []arrow.RecordBatch{moved})
			ends := map[int]bool{} // a stream may end after any message
			for way := range inputKinds {
				for n := range len(raw) {
					err := consume(t, way, raw[:n:n], dev)
					if err == nil {
						ends[n] = true
					}
				}
			}
			if file {
				assert.Empty(t, ends)
			} else {
				assert.LessOrEqual(t, len(ends), 4)
			}
		}
	})
}

func FuzzReader(f *testing.F) {
	root := sharedTestdata(f, "arrow-ipc-stream")
	for _, pattern := range []string{"c[lr]*", "integration/2.0.0-compression/*zstd.*", "integration/1.0.0-bigendian/generated_nested.*", "integration/4.0.0-shareddict/*", "integration/0.17.1/*", "../arrow-ipc-file/c[lr]*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(f, err)
		for _, file := range found {
			raw, err := os.ReadFile(file)
			require.NoError(f, err)
			if filepath.Ext(file) != ".gz" && len(raw) < 64<<10 {
				f.Add(raw)
			}
		}
	}
	mem := checked(f)
	for _, file := range []bool{false, true} {
		f.Add(encodeWithQuiver(f, file, []arrow.RecordBatch{batchOf(f, mem, 7, true, types()...)}))
		f.Add(encodeWithQuiver(f, file, []arrow.RecordBatch{batchOf(f, mem, 7, true, types()...)}, arrowipc.WithCodec(arrowipc.LZ4)))
	}
	machine := cudatest.New(cudatest.Config{})
	f.Cleanup(func() { assert.NoError(f, machine.Close()) })
	var dev *cudabuf.Device
	dev, err := machine.Device(0)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for way := range inputKinds {
			_ = consume(t, way, raw, dev)
			_ = consume(t, way, raw, arrowbuf.CPU())
		}
	})
}
