package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/require"
)

func TestDecodeReturnsRepresentedValues(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 4 {
				m := newMaker(t, seed, seed%2 == 0)
				arr := m.array(dtype, 90, seed > 1)
				got, err := columns.Decode(on(t, dev, arr))
				var values arrow.Array
				var from []int
				switch a := arr.(type) {
				case *array.Dictionary:
					values = a.Dictionary()
					for i := range a.Len() {
						if from = append(from, -1); a.IsValid(i) {
							from[i] = a.GetValueIndex(i)
						}
					}
				case *array.RunEndEncoded:
					values = a.Values()
					for i := range a.Len() {
						from = append(from, a.GetPhysicalIndex(i))
					}
				default:
					require.ErrorIs(t, err, arrow.ErrNotImplemented, dtype)
					continue
				}
				requireElements(t, values, from, toHost(t, dev, got, err))
			}
		}
	})
}

func TestFlattenReturnsListValuesInOrder(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 4 {
				m := newMaker(t, seed, seed%2 == 0)
				arr := m.array(dtype, []int{0, 90}[min(seed, 1)], seed > 1)
				got, err := columns.Flatten(on(t, dev, arr))
				list, ok := arr.(array.VarLenListLike)
				fixed, isFixed := arr.(*array.FixedSizeList)
				if !ok && !isFixed {
					require.ErrorIs(t, err, arrow.ErrNotImplemented, dtype)
					continue
				}
				var values arrow.Array
				var bounds func(i int) (from, to int64)
				if isFixed {
					values, bounds = fixed.ListValues(), fixed.ValueOffsets
				} else {
					values, bounds = list.ListValues(), list.ValueOffsets
				}
				var from []int
				for i := range arr.Len() {
					for first, last := bounds(i); arr.IsValid(i) && first < last; first++ {
						from = append(from, int(first))
					}
				}
				requireElements(t, values, from, toHost(t, dev, got, err))
			}
		}
	})
}
