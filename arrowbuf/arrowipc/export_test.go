package arrowipc

import "github.com/apache/arrow-go/v18/arrow"

// SetFirstRoom sets what is allocated for the body of a pipe at first, until the
// function that it returns is called.
func SetFirstRoom(n int64) (restore func()) {
	old := firstRoom
	firstRoom = n
	return func() { firstRoom = old }
}

// Turn turns the bytes of values of a type around.
func Turn(t arrow.DataType, b []byte) {
	if fixed, ok := t.(arrow.FixedWidthDataType); ok {
		orderOf(fixed).turn(b)
		return
	}
	orderViews.turn(b)
}
