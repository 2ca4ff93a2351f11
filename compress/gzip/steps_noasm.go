//go:build !amd64

package gzip

const fastSteps = false

func (f *inflater) decodeSteps(in int, buf uint64, n uint, out int) (newIn int, newBuf uint64, newN uint, newOut int) {
	return f.decodeStepsGo(in, buf, n, out)
}
