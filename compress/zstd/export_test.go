package zstd

import "testing"

// SetSmallOutput sets up to which size a warp writes an output.
func SetSmallOutput(t *testing.T, bytes int64) {
	before := smallOutput
	smallOutput = bytes
	t.Cleanup(func() { smallOutput = before })
}
