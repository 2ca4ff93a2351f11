package arrowipc

// SetFirstRoom sets what is allocated for the body of a pipe at first, until the
// function that it returns is called.
func SetFirstRoom(n int64) (restore func()) {
	old := firstRoom
	firstRoom = n
	return func() { firstRoom = old }
}
