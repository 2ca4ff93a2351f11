package arrowipc_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

func TestInspectTellsWhereTheBuffersOfABodyLie(t *testing.T) {
	batch := batchOf(t, checked(t), 10, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String)
	schema, err := arrowipc.EncodeSchema(batch.Schema())
	require.NoError(t, err)
	info, err := arrowipc.Inspect(schema)
	require.NoError(t, err)
	assert.Equal(t, arrowipc.Info{Type: ipc.MessageSchema}, info)

	for _, codec := range []arrowipc.Codec{arrowipc.Uncompressed, arrowipc.Zstd} {
		m, err := arrowipc.EncodeRecordBatch(batch, arrowipc.WithCodec(codec))
		require.NoError(t, err)
		defer m.Release()
		info, err = arrowipc.Inspect(m.Metadata)
		require.NoError(t, err)
		assert.Equal(t, ipc.MessageRecordBatch, info.Type)
		assert.Equal(t, m.BodyLength, info.BodyLength)
		assert.Equal(t, codec, info.Codec)
		parts, err := m.Parts()
		require.NoError(t, err)
		defer parts.Release()
		require.Len(t, info.Buffers, 5) // validity, values; validity, offsets, values
		for i, part := range parts {    // none is empty
			assert.Equal(t, arrowipc.Extent{Offset: part.Offset, Length: part.Buffer.Len()}, info.Buffers[i])
		}
		_, err = arrowipc.Inspect(m.Metadata[:len(m.Metadata)/2])
		require.ErrorIs(t, err, arrow.ErrInvalid)
	}
}
