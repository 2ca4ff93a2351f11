package arrowipc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestABodyOfAPipeGetsRoomAsItComes(t *testing.T) {
	defer arrowipc.SetFirstRoom(1000)()
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := there(t, batchOf(t, checked(t), 3000, true, types()...), dev)
		raw := ours(t, false, []arrow.RecordBatch{moved})
		r, err := ways["pipe"](t, raw, dev)
		require.NoError(t, err)
		got, err := kept(t, r)
		r.Release()
		require.NoError(t, err)
		require.Len(t, got, 1)
		requireSame(t, host, got[0], dev)
		assert.ErrorIs(t, consume(t, "pipe", raw[:len(raw)-5000], dev), io.ErrUnexpectedEOF)
	})
}

func TestBatchesOfAFileAreReadByManyGoroutines(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		word := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
		moved, host := there(t, batchOf(t, checked(t), 200, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, word), dev)
		raw := ours(t, true, []arrow.RecordBatch{moved, moved, moved, moved})
		r, err := arrowipc.NewFileReader(bytes.NewReader(raw), int64(len(raw)), dev)
		require.NoError(t, err)
		defer r.Release()
		var all sync.WaitGroup
		got := make([]arrow.RecordBatch, 4*r.NumBatches())
		for i := range got {
			all.Go(func() {
				batch, err := r.RecordBatchAt(i % r.NumBatches())
				assert.NoError(t, err)
				got[i] = batch
			})
		}
		all.Wait()
		for _, batch := range got {
			requireSame(t, host, batch, dev)
			batch.Release()
		}
	})
}

func TestAStreamBehindAnotherIsLeftToTheNextReader(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := there(t, batchOf(t, checked(t), 50, true, someTypes...), dev)
		one := ours(t, false, []arrow.RecordBatch{moved})
		for name, in := range map[string]io.Reader{
			"seekable": bytes.NewReader(append(one, one...)),
			"pipe":     io.MultiReader(bytes.NewReader(one), bytes.NewReader(one)),
		} {
			for range 2 {
				r, err := arrowipc.NewReader(in, dev)
				require.NoError(t, err, name)
				got, err := kept(t, r)
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

func TestABodyThatIsNotAlignedIsCopied(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := there(t, batchOf(t, checked(t), 50, true, someTypes...), dev)
		raw := append([]byte("123"), ours(t, false, []arrow.RecordBatch{moved})...)
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
		got, err := kept(t, r)
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

// Each call of the driver fails in turn.
func TestADeviceThatFailsLeavesNothing(t *testing.T) {
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
			raw := ours(t, true, []arrow.RecordBatch{batch}, arrowipc.WithCodec(codec))
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
