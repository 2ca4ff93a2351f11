package tabletest

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// FromJSON returns an array of the values in a JSON list.
func FromJSON(tb testing.TB, t arrow.DataType, values string) arrow.Array {
	tb.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, t)
	require.NoError(tb, b.UnmarshalJSON([]byte(values)))
	return b.NewArray()
}

// Dictionary returns a dictionary array. An index of -1 is a null.
func Dictionary(index arrow.DataType, dictionary arrow.Array, indices ...int) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, index)
	for _, i := range indices {
		if i < 0 {
			b.AppendNull()
		} else if err := b.AppendValueFromString(fmt.Sprint(i)); err != nil {
			panic(err)
		}
	}
	return array.NewDictionaryArray(&arrow.DictionaryType{IndexType: index, ValueType: dictionary.DataType()}, b.NewArray(), dictionary)
}

// LargeDictionary returns a dictionary array of 90,000 texts, more than a MiB, of which the
// rows have all but each hundredth, in another order. Those rows are null.
func LargeDictionary() arrow.Array {
	indices := make([]int, 90_000)
	for i := range indices {
		indices[i] = (i * 7) % len(indices)
		if i%100 == 0 {
			indices[i] = -1
		}
	}
	return Dictionary(arrow.PrimitiveTypes.Int32, Numbered(1_000_000, len(indices)), indices...)
}

// Texts returns an array of strings; "-" is a null.
func Texts(values ...string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, v := range values {
		if v == "-" {
			b.AppendNull()
		} else {
			b.Append(v)
		}
	}
	return b.NewArray()
}

// Numbered returns an array of n distinct strings.
func Numbered(from, n int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range n {
		b.Append(fmt.Sprintf("value %d", from+i))
	}
	return b.NewArray()
}

// Floats returns an array of these numbers.
func Floats(values ...float64) arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return b.NewArray()
}

// Numbers returns a table of n numbers.
func Numbers(from, n int) Table {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range n {
		b.Append(int64(from + i))
	}
	return Single("n", b.NewArray())
}
