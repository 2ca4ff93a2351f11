package arrowipc

import "encoding/binary"

// continuation is what a message begins with since Arrow 0.15; before, it began
// with the length of its metadata.
const continuation = 0xFFFFFFFF

// endOfStream is a message of no metadata.
var endOfStream = []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}

// magic begins and ends a file.
const magic = "ARROW1"

// frame puts the prefix before metadata, and padding behind it.
func frame(metadata []byte) []byte {
	framed := make([]byte, padded(int64(len(metadata)))+8)
	binary.LittleEndian.PutUint32(framed, continuation)
	binary.LittleEndian.PutUint32(framed[4:], uint32(len(framed)-8))
	copy(framed[8:], metadata)
	return framed
}
