package arrowipc

import "github.com/apache/arrow-go/v18/arrow"

// SetFirstAlloc sets what is allocated for the body of a pipe at first, until the
// function that it returns is called.
func SetFirstAlloc(n int64) (restore func()) {
	old := firstAlloc
	firstAlloc = n
	return func() { firstAlloc = old }
}

// Swap turns the bytes of values of a type around.
func Swap(t arrow.DataType, b []byte) {
	if fixed, ok := t.(arrow.FixedWidthDataType); ok {
		swapKindOf(fixed).swap(b)
		return
	}
	swapViews.swap(b)
}
