package arrowzarr_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func TestInvalidUTF8IsRefused(t *testing.T) {
	for name, kind := range map[string]arrow.BinaryDataType{"utf8": arrow.BinaryTypes.String, "large_utf8": arrow.BinaryTypes.LargeString} {
		t.Run(name, func(t *testing.T) {
			b := array.NewBinaryBuilder(memory.DefaultAllocator, kind)
			b.AppendString("fine")
			b.AppendString("bro\xffken")
			b.AppendString("fine")
			for _, rows := range []int64{0, 1} {
				input := single("words", b.NewArray()).stream(t)
				message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{ChunkRows: rows})
				assert.Contains(t, message, `column "words"`)
				assert.Contains(t, message, "UTF-8")
				b.AppendString("\xf0\x28\x8c\x28")
			}
		})
	}
	t.Run("dictionary", func(t *testing.T) {
		input := single("words", encoded(arrow.PrimitiveTypes.Int8, texts("fine", "bro\xffken"), 0)).stream(t)
		message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{})
		assert.Contains(t, message, `column "words"`)
		assert.Contains(t, message, "UTF-8")
	})
}
