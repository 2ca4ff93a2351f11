package parquetencode

import (
	"bytes"
	"iter"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// statisticsOf returns the statistics of a column chunk: the nulls, and the least and the
// greatest of the used values, if the order of the column's type is defined. All values are
// used if used is nil.
func statisticsOf(v *values, used []uint32, nulls int64, column *schema.Column) (metadata.EncodedStatistics, error) {
	none := metadata.EncodedStatistics{HasNullCount: true, NullCount: nulls}
	if column.SortOrder() == schema.SortUNKNOWN || v.n == 0 {
		return none, nil
	}
	if physical := column.PhysicalType(); physical != parquet.Types.ByteArray && physical != parquet.Types.FixedLenByteArray {
		v, used = v.take(used), nil
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
		var least, greatest []byte
		for i, x := range v.all(used) {
			if i == 0 || bytes.Compare(x, least) < 0 {
				least = x
			}
			if i == 0 || bytes.Compare(x, greatest) > 0 {
				greatest = x
			}
		}
		s.IncNulls(nulls)
		s.SetMinMax(parquet.ByteArray(least), parquet.ByteArray(greatest))
		encoded, err = s.Encode()
	case *metadata.FixedLenByteArrayStatistics:
		s.Update(fixedValues(v, used), nulls)
		encoded, err = s.Encode()
	case *metadata.Float16Statistics:
		s.Update(fixedValues(v, used), nulls)
		encoded, err = s.Encode()
	default:
		return none, nil
	}
	encoded.ApplyStatSizeLimits(int(parquet.DefaultMaxStatsSize))
	encoded.Signed = column.SortOrder() == schema.SortSIGNED
	return encoded, err
}

func fixedValues(v *values, used []uint32) (all []parquet.FixedLenByteArray) {
	for _, x := range v.all(used) {
		all = append(all, x)
	}
	return all
}

// all yields the used values, or all if used is nil.
func (v *values) all(used []uint32) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		if used == nil {
			for i := range v.n {
				if !yield(i, v.value(i)) {
					return
				}
			}
			return
		}
		for i, at := range used {
			if !yield(i, v.value(int(at))) {
				return
			}
		}
	}
}
