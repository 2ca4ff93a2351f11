package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	// maxMetadata is the most that the metadata of one message may take.
	maxMetadata = 64 << 20
	// firstMetadata is what is allocated for it before any came; then, as much as
	// did.
	firstMetadata = 64 << 10
)

// ReadMetadata reads the metadata of the next message of a stream, of which it takes
// 64 MiB at most, and leaves r at the body. At the end of the stream, which may just
// end, the error is io.EOF. What was read is not checked; see Inspect.
func ReadMetadata(r io.Reader) ([]byte, error) {
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(word[:])
	if length == continuation {
		if _, err := io.ReadFull(r, word[:]); err != nil {
			return nil, cutShort(err)
		}
		length = binary.LittleEndian.Uint32(word[:])
	}
	switch {
	case length == 0:
		return nil, io.EOF
	case length < 8 || length > maxMetadata:
		return nil, fmt.Errorf("metadata of %d bytes, expected 8 to %d: %w", length, maxMetadata, arrow.ErrInvalid)
	}
	metadata := make([]byte, 0, min(length, firstMetadata))
	for len(metadata) < int(length) {
		from := len(metadata)
		metadata = slices.Grow(metadata, min(max(from, firstMetadata), int(length)-from))
		metadata = metadata[:min(cap(metadata), int(length))]
		if _, err := io.ReadFull(r, metadata[from:]); err != nil {
			return nil, fmt.Errorf("metadata of %d bytes: %w", length, cutShort(err))
		}
	}
	return metadata, nil
}

// unframe finds metadata behind its prefix, in all that a block of a file has of
// it.
func unframe(b []byte) ([]byte, error) {
	prefix := 4
	if len(b) >= 8 && binary.LittleEndian.Uint32(b) == continuation {
		prefix = 8
	}
	if len(b) < prefix+8 {
		return nil, fmt.Errorf("a message of %d bytes: %w", len(b), arrow.ErrInvalid)
	}
	if n := binary.LittleEndian.Uint32(b[prefix-4:]); int64(n) != int64(len(b)-prefix) {
		return nil, fmt.Errorf("metadata of %d bytes where the file has %d: %w", n, len(b)-prefix, arrow.ErrInvalid)
	}
	return b[prefix:], nil
}

// cutShort is the error of an input that ends where it should go on.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
