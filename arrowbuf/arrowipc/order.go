package arrowipc

import (
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// order says how the bytes of a buffer are turned around where a message is of
// the other byte order: values of so many bytes, none for 0 and 1.
type order int

// Values of several parts, each of which is turned around.
const (
	orderViews        order = -1 - iota // 4 bytes, and 2 times 4 more in those of long values
	orderDayTime                        // 2 times 4 bytes
	orderMonthDayNano                   // 2 times 4 bytes, and 8
)

func orderOf(t arrow.FixedWidthDataType) order {
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		return 0
	case *arrow.DayTimeIntervalType:
		return orderDayTime
	case *arrow.MonthDayNanoIntervalType:
		return orderMonthDayNano
	default:
		return order(t.Bytes())
	}
}

// turn turns the bytes of values around, in place. What is less than a value at
// the end stays.
func (o order) turn(b []byte) {
	switch o {
	case 0, 1:
	case orderDayTime:
		order(4).turn(b)
	case orderMonthDayNano:
		for value := range slices.Chunk(b[:len(b)&^15], 16) {
			order(4).turn(value[:8])
			order(8).turn(value[8:])
		}
	case orderViews:
		for view := range slices.Chunk(b[:len(b)&^15], arrow.ViewHeaderSizeBytes) {
			order(4).turn(view[:4])
			const inline = 12 // bytes that a view holds itself
			if int32(binary.NativeEndian.Uint32(view)) > inline {
				order(4).turn(view[8:])
			}
		}
	default:
		for ; len(b) >= int(o); b = b[o:] {
			slices.Reverse(b[:o])
		}
	}
}
