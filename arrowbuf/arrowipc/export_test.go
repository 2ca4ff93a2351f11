package arrowipc

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// SetFirstAlloc sets the size of the first allocation for the body of a pipe. The
// returned function restores it.
func SetFirstAlloc(n int64) (restore func()) {
	old := firstAlloc
	firstAlloc = n
	return func() { firstAlloc = old }
}

// Swap reverses the byte order of values of a type.
func Swap(t arrow.DataType, b []byte) {
	if fixed, ok := t.(arrow.FixedWidthDataType); ok {
		swapKindOf(fixed).swap(b)
		return
	}
	swapViews.swap(b)
}

// OldMetadata returns metadata as Arrow 0.17 wrote it, with the name of a codec.
func OldMetadata(metadata []byte, codec string) []byte {
	h := must(parseMessage(metadata))
	h.custom = arrow.NewMetadata(append(h.custom.Keys(), oldCodecKey), append(h.custom.Values(), strings.ToUpper(codec)))
	h.batch.codec, h.version, h.oldCodec = Uncompressed, ipc.MetadataV4, true
	return h.encode()
}
