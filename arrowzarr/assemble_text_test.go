package arrowzarr_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// The bytes of nulls are no part of a chunk.
func TestChunksJoinTextOfBatchesWithNulls(t *testing.T) {
	withBytes := func(offsets *memory.Buffer, of arrow.DataType) arrow.Array {
		valid, bytes := memory.NewBufferBytes([]byte{0b0011_0101}), memory.NewBufferBytes([]byte("_abnullcdéf_"))
		data := array.NewData(of, 6, []*memory.Buffer{valid, offsets, bytes}, nil, 2, 0)
		defer data.Release()
		return array.MakeFromData(data)
	}
	at := []int32{1, 3, 7, 8, 8, 11, 12} // ab, null with bytes, c, null, dé, f
	var wide []int64
	for _, o := range at {
		wide = append(wide, int64(o))
	}
	narrow := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(at))
	for _, of := range []arrow.BinaryDataType{arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeBinary} {
		t.Run(of.Name(), func(t *testing.T) {
			offsets := narrow
			if of.Layout().Buffers[1].ByteWidth == 8 {
				offsets = memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(wide))
			}
			whole := withBytes(offsets, of)
			batches := []arrow.Array{whole, array.NewSlice(whole, 2, 3), array.NewSlice(whole, 1, 6), array.NewSlice(whole, 3, 4), array.NewSlice(whole, 4, 6)}
			input := inputFile(t, tabletest.Single("c", batches...).Stream(t))
			for rows := range int64(9) {
				output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: rows})
				requireColumn(t, openRoot(t, output), "c", expect(of, batches))
			}
		})
	}
}

func TestInvalidUTF8IsRefused(t *testing.T) {
	for name, kind := range map[string]arrow.BinaryDataType{"utf8": arrow.BinaryTypes.String, "large_utf8": arrow.BinaryTypes.LargeString} {
		t.Run(name, func(t *testing.T) {
			b := array.NewBinaryBuilder(memory.DefaultAllocator, kind)
			b.AppendString("fine")
			b.AppendString("bro\xffken")
			b.AppendString("fine")
			for _, rows := range []int64{0, 1} {
				input := tabletest.Single("words", b.NewArray()).Stream(t)
				message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{ChunkRows: rows})
				assert.Contains(t, message, `column "words"`)
				assert.Contains(t, message, "UTF-8")
				b.AppendString("\xf0\x28\x8c\x28")
			}
		})
	}
	t.Run("dictionary", func(t *testing.T) {
		input := tabletest.Single("words", tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Texts("fine", "bro\xffken"), 0)).Stream(t)
		message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{})
		assert.Contains(t, message, `column "words"`)
		assert.Contains(t, message, "UTF-8")
	})
}
