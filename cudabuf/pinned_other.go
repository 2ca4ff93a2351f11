//go:build !linux

package cudabuf

// hostPages is memory of the process; nil on this system.
type hostPages struct{ bytes []byte }

func newHostPages(int64) (hostPages, error) { return hostPages{}, nil }

func (hostPages) unmap() error { return nil }
