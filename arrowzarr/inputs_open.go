package arrowzarr

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

var (
	magicIPC     = []byte("ARROW1")
	magicParquet = []byte("PAR1")
	magicFeather = []byte("FEA1")

	magicParquetEncrypted = []byte("PARE")
)

// openByContent returns a source that owns the file, or an error. It recognizes the
// format by the content, or, of text, by the extension.
func openByContent(file *inputFile, r sourceOptions) (source, error) {
	format, isText := textFormatOf(file.name, r.text)
	if isText && r.text.format != "" {
		return newTextSource(file, format, r)
	}
	head, err := file.readHead()
	if err != nil {
		return nil, err
	}
	isFile, isParquet := bytes.HasPrefix(head, magicIPC), bytes.HasPrefix(head, magicParquet)
	switch {
	case isText && !isFile && !isParquet:
		return newTextSource(file, format, r)
	case len(head) == 0:
		return nil, fmt.Errorf("%s is empty: expected %s", file.name, expectedFormats)
	case isFile && file.once():
		return nil, fmt.Errorf("%s is an Arrow IPC file, which cannot be read in order: give it by name", file.name)
	case isParquet && file.once():
		return nil, fmt.Errorf("%s is a Parquet file, which cannot be read in order: give it by name", file.name)
	case isFile:
		return newFileSource(file, r)
	case isParquet:
		return newParquetSource(file, r)
	case bytes.HasPrefix(head, magicParquetEncrypted):
		return nil, fmt.Errorf("%s is an encrypted Parquet file: encrypted Parquet is not supported", file.name)
	case bytes.HasPrefix(head, magicFeather):
		return nil, fmt.Errorf("%s is Feather version 1, which is not supported: write it again as Feather version 2 (Arrow IPC)", file.name)
	case head[0] == '{' && isASCII(head):
		return newTextSource(file, jsonLines, r)
	case isStreamStart(head, file.size):
		return newStreamSource(file, r)
	case compressionOf(head) != "":
		return nil, fmt.Errorf("%s is compressed, which only text may be: decompress it, or give the --format of the text", file.name)
	default:
		return nil, fmt.Errorf("%s is neither an Arrow IPC file or stream nor a Parquet file: it starts with % x (CSV is recognized by the extension, or give --format csv)", file.name, head)
	}
}

// expectedFormats names the formats of inputs.
const expectedFormats = "an Arrow IPC file or stream, a Parquet file, CSV or JSON lines"

func isASCII(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x7f || c < ' ' && c != '\t' && c != '\r' && c != '\n' })
}

// isStreamStart reports whether an input of a size, or -1, can be an IPC stream. A stream
// starts with the continuation marker or, before Arrow 0.15, with the length of the
// first message.
func isStreamStart(head []byte, size int64) bool {
	if len(head) < 4 {
		return false
	}
	first := binary.LittleEndian.Uint32(head)
	if size < 0 {
		return first == 0xFFFFFFFF || !isASCII(head)
	}
	return first == 0xFFFFFFFF || int64(first) < size
}
