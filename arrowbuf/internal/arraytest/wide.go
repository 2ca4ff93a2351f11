package arraytest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Wide makes a batch of about so many bytes, and tells how many they are: a
// quarter each of the columns are 64-bit integers, doubles with nulls, floats and
// strings of four letters.
func Wide(t testing.TB, mem memory.Allocator, columns int, bytes int64) (arrow.RecordBatch, int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := int(bytes/int64(columns)) / 7 // what four columns take of a row is 28 bytes and a bit
	var fields []arrow.Field
	var arrays []arrow.Array
	var size int64
	for i := range columns {
		var dtype arrow.DataType
		buffers, nulls := []*memory.Buffer{nil}, 0
		switch i % 4 {
		case 0:
			dtype = arrow.PrimitiveTypes.Int64
			buffers = append(buffers, randomWords(mem, rng, rows*8))
		case 1:
			dtype = arrow.PrimitiveTypes.Float64
			buffers = []*memory.Buffer{randomWords(mem, rng, (rows+7)/8), randomWords(mem, rng, rows*8)}
			nulls = array.UnknownNullCount
		case 2:
			dtype = arrow.PrimitiveTypes.Float32
			buffers = append(buffers, randomWords(mem, rng, rows*4))
		case 3:
			dtype = arrow.BinaryTypes.String
			buffers = append(buffers, shortOffsets(mem, rows), randomWords(mem, rng, rows*4))
		}
		data := array.NewData(dtype, rows, buffers, nil, nulls, 0)
		column := array.MakeFromData(data)
		data.Release()
		defer column.Release()
		for _, buffer := range buffers {
			if buffer != nil {
				size += int64(buffer.Len())
				buffer.Release()
			}
		}
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dtype, Nullable: true})
		arrays = append(arrays, column)
	}
	made := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(rows))
	t.Cleanup(made.Release)
	return made, size
}

// randomWords is memory of n bytes, a word of eight at a time: benchmarks make
// gigabytes.
func randomWords(mem memory.Allocator, rng *rand.Rand, n int) *memory.Buffer {
	return Buffer(mem, n, func(p []byte) {
		for ; len(p) >= 8; p = p[8:] {
			binary.LittleEndian.PutUint64(p, rng.Uint64()&0x7f7f7f7f7f7f7f7f) // of ASCII, and no NaN
		}
		for i := range p {
			p[i] = 'a'
		}
	})
}

func shortOffsets(mem memory.Allocator, n int) *memory.Buffer {
	return Buffer(mem, 4*(n+1), func(p []byte) {
		for i := range n + 1 {
			binary.LittleEndian.PutUint32(p[4*i:], uint32(4*i))
		}
	})
}
