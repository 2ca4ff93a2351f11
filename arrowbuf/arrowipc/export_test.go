package arrowipc

import "github.com/apache/arrow-go/v18/arrow"

// SetFirstAlloc sets the size of the first allocation for the body of a pipe. The
// returned function restores it.
func SetFirstAlloc(n int64) (restore func()) {
	old := firstAlloc
	firstAlloc = n
	return func() { firstAlloc = old }
}

// Swap reverses the byte order of values of a type.
func Swap(t arrow.DataType, b []byte) {
	if fixed, ok := t.(arrow.FixedWidthDataType); ok {
		swapKindOf(fixed).swap(b)
		return
	}
	swapViews.swap(b)
}
