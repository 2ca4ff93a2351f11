package cudabuf

import (
	"bytes"
	"iter"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Equal tells whether the other buffer, on any device, holds the same bytes.
// Both come to the host to be compared, piece by piece, up to the first piece
// that differs.
func (b *Buffer) Equal(other arrowbuf.Buffer) (bool, error) {
	if other == nil {
		return false, errNoBuffer
	}
	if err := b.hold(); err != nil {
		return false, err
	}
	defer b.Release()
	if o, ok := other.(interface{ hold() error }); ok {
		if err := o.hold(); err != nil {
			return false, err
		}
		defer other.Release()
	}
	if b.length != other.Len() {
		return false, nil
	}
	if b.length == 0 || other.Device() == arrowbuf.Device(b.dev) && other.Address() == b.address {
		return true, nil
	}
	next, stop := iter.Pull2(b.dev.contents(other))
	defer stop()
	for ours, err := range b.dev.contents(b) {
		if err != nil {
			return false, err
		}
		theirs, err, _ := next()
		if err != nil {
			return false, err
		}
		if !bytes.Equal(ours, theirs) {
			return false, nil
		}
	}
	return true, nil
}
