package arrowzarr

import (
	"os"
	"sync/atomic"
)

// countingReader counts what is read of a file, for progress.
type countingReader struct {
	file *os.File
	n    atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	r.n.Add(int64(n))
	return n, err
}
