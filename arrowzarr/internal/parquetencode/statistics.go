package parquetencode

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// statisticsOf returns the statistics of a column chunk: the nulls, and the least and the
// greatest value, if the order of the column's type is defined.
func statisticsOf(v *values, nulls int64, column *schema.Column) (metadata.EncodedStatistics, error) {
	none := metadata.EncodedStatistics{HasNullCount: true, NullCount: nulls}
	if column.SortOrder() == schema.SortUNKNOWN || v.n == 0 {
		return none, nil
	}
	var encoded metadata.EncodedStatistics
	var err error
	switch s := metadata.NewStatistics(column, memory.DefaultAllocator).(type) {
	case *metadata.Int32Statistics:
		s.Update(view[int32](v.bytes[:v.n*v.width]), nulls)
		encoded, err = s.Encode()
	case *metadata.Int64Statistics:
		s.Update(view[int64](v.bytes[:v.n*v.width]), nulls)
		encoded, err = s.Encode()
	case *metadata.Float32Statistics:
		s.Update(view[float32](v.bytes[:v.n*v.width]), nulls)
		encoded, err = s.Encode()
	case *metadata.Float64Statistics:
		s.Update(view[float64](v.bytes[:v.n*v.width]), nulls)
		encoded, err = s.Encode()
	case *metadata.BooleanStatistics:
		s.Update(view[bool](v.bytes[:v.n]), nulls)
		encoded, err = s.Encode()
	case *metadata.ByteArrayStatistics:
		least, greatest := v.value(0), v.value(0)
		for i := range v.n {
			if x := v.value(i); bytes.Compare(x, least) < 0 {
				least = x
			} else if bytes.Compare(x, greatest) > 0 {
				greatest = x
			}
		}
		s.IncNulls(nulls)
		s.SetMinMax(parquet.ByteArray(least), parquet.ByteArray(greatest))
		encoded, err = s.Encode()
	case *metadata.FixedLenByteArrayStatistics:
		s.Update(fixedValues(v), nulls)
		encoded, err = s.Encode()
	case *metadata.Float16Statistics:
		s.Update(fixedValues(v), nulls)
		encoded, err = s.Encode()
	default:
		return none, nil
	}
	encoded.ApplyStatSizeLimits(int(parquet.DefaultMaxStatsSize))
	encoded.Signed = column.SortOrder() == schema.SortSIGNED
	return encoded, err
}

func fixedValues(v *values) []parquet.FixedLenByteArray {
	all := make([]parquet.FixedLenByteArray, v.n)
	for i := range all {
		all[i] = v.value(i)
	}
	return all
}
