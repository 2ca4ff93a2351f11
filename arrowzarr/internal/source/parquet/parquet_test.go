package parquet

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

// fileOf returns an opener of a new file of a content.
func fileOf(t *testing.T, content []byte) sourcetest.Opener {
	t.Helper()
	return sourcetest.Local(sourcetest.WriteFile(t, "input", content), sourcetest.Options(), Open)
}

// rangeInputs returns files of several row groups and pages.
func rangeInputs(t *testing.T) map[string]sourcetest.Opener {
	inputs := map[string]sourcetest.Opener{}
	for _, nulls := range []float64{0, 0.3} {
		for name, types := range map[string][]arrow.DataType{"flat": sourcetest.Flat, "nested": sourcetest.Nested} {
			in := sourcetest.RangeTable(7, []int{13, 0, 1, 40, 7}, nulls, types...)
			one := sourcetest.RangeTable(7, []int{61}, nulls, types...)
			label := fmt.Sprintf("%s, nulls %v, ", name, nulls)
			inputs[label+"row groups"] = fileOf(t, in.Parquet(t, parquet.WithDataPageSize(64), parquet.WithBatchSize(3)))
			inputs[label+"pages V2"] = fileOf(t, one.Parquet(t, parquet.WithDataPageSize(64), parquet.WithBatchSize(3), parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithDictionaryDefault(false), parquet.WithPageIndexEnabled(true)))
		}
	}
	inputs["no rows"] = fileOf(t, sourcetest.RangeTable(8, nil, 0, sourcetest.Nested...).Parquet(t))
	return inputs
}

func TestRangesOfRowsAreSlicesOfTheWhole(t *testing.T) {
	for name, open := range rangeInputs(t) {
		t.Run(name, func(t *testing.T) { sourcetest.TestRanges(t, open) })
	}
}

func TestRowsAndNullsAreCountedWithoutReadingValues(t *testing.T) {
	known := 0
	for name, open := range rangeInputs(t) {
		t.Run(name, func(t *testing.T) { known += sourcetest.TestCounts(t, open) })
	}
	assert.Greater(t, known, 40)
}
