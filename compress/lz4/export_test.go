package lz4

import "testing"

// SetLargeOutput lets inputs of all sizes be decoded as large or as small ones.
func SetLargeOutput(t *testing.T, bytes int64) {
	before := largeOutput
	largeOutput = bytes
	t.Cleanup(func() { largeOutput = before })
}
