package cudabuf

import (
	"bytes"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// piece is how much of a buffer lies in host memory at once when bytes have to
// come there: large enough for the link's speed, small enough to be had.
const piece = 4 << 20

// copyThroughHost copies src, on whatever device, to the bytes at pos.
func (b *Buffer) copyThroughHost(src arrowbuf.Buffer, pos int64) (int64, error) {
	if err := b.enterWriting(pos, src.Len()); err != nil {
		return 0, err
	}
	defer b.Release()
	host, free, err := b.dev.pinned.take(min(piece, src.Len()))
	if err != nil {
		return 0, err
	}
	defer free()
	var done int64
	for done < src.Len() {
		part := host[:min(int64(len(host)), src.Len()-done)]
		if _, err := src.CopyToHost(part, done); err != nil {
			return done, err
		}
		if _, err := b.CopyFromHost(part, pos+done); err != nil {
			return done, err
		}
		done += int64(len(part))
	}
	return done, nil
}

// Equal tells whether the other buffer, on any device, holds the same bytes.
// Both come to the host to be compared, piece by piece, up to the first piece
// that differs.
func (b *Buffer) Equal(other arrowbuf.Buffer) (bool, error) {
	if err := b.hold(); err != nil {
		return false, err
	}
	defer b.Release()
	if o, ok := other.(*Buffer); ok {
		if err := o.hold(); err != nil {
			return false, err
		}
		defer o.Release()
	}
	if b.length != other.Len() {
		return false, nil
	}
	if b.length == 0 || other.Device() == arrowbuf.Device(b.dev) && other.Address() == b.address {
		return true, nil
	}
	ours, free, err := b.dev.pinned.take(min(piece, b.length))
	if err != nil {
		return false, err
	}
	defer free()
	all, onHost := arrowbuf.HostBytes(other)
	var theirs []byte
	if !onHost {
		var free func()
		if theirs, free, err = b.dev.pinned.take(int64(len(ours))); err != nil {
			return false, err
		}
		defer free()
	}
	for pos := int64(0); pos < b.length; pos += piece {
		n := min(piece, b.length-pos)
		if _, err := b.CopyToHost(ours[:n], pos); err != nil {
			return false, err
		}
		if onHost {
			theirs = all[pos : pos+n]
		} else if _, err := other.CopyToHost(theirs[:n], pos); err != nil {
			return false, err
		}
		if !bytes.Equal(ours[:n], theirs[:n]) {
			return false, nil
		}
	}
	return true, nil
}
