package inputs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/ipc"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/text"
)

var (
	magicIPC     = []byte("ARROW1")
	magicParquet = []byte("PAR1")
	magicFeather = []byte("FEA1")

	magicParquetEncrypted = []byte("PARE")
)

// Open opens a source of inputs, which are files, folders and patterns, or "-"
// alone for standard input. The context limits the reads, too.
func Open(ctx context.Context, inputs []string, o source.Options) (source.Source, error) {
	if len(inputs) == 1 && inputs[0] == "-" {
		file, err := source.StandardInput()
		if err != nil {
			return nil, err
		}
		return openByContent(file, o)
	}
	found, err := findFiles(ctx, inputs)
	if err != nil {
		return nil, err
	}
	closing := func() error { return closeTrees(found) }
	if len(found) == 1 && found[0].keys == nil {
		return found[0].open(ctx, o, closing)
	}
	src, err := newMultiSource(ctx, found, o)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return src, nil
}

// open opens a source of the file, which calls closing when it is closed. After an error,
// closing has been called.
func (f foundFile) open(ctx context.Context, o source.Options, closing func() error) (source.Source, error) {
	file, err := f.tree.open(ctx, f.path)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	file.OnClose(closing)
	src, err := openByContent(file, o)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return src, nil
}

// keepOpen is closing of files whose store stays open.
func keepOpen() error { return nil }

// openByContent returns a source that owns the file, or an error. It recognizes the
// format by the content, or, of text, by the extension.
func openByContent(file *source.File, o source.Options) (source.Source, error) {
	format, isText := text.FormatOf(file.Name, o.Text)
	if isText && o.Text.Format != "" {
		return text.Open(file, format, o)
	}
	head, err := file.ReadHead()
	if err != nil {
		return nil, err
	}
	isFile, isParquet := bytes.HasPrefix(head, magicIPC), bytes.HasPrefix(head, magicParquet)
	switch {
	case isText && !isFile && !isParquet:
		return text.Open(file, format, o)
	case len(head) == 0:
		return nil, fmt.Errorf("%s is empty: expected %s", file.Name, expectedFormats)
	case isFile && file.Once():
		return nil, fmt.Errorf("%s is an Arrow IPC file, which cannot be read in order: give it by name", file.Name)
	case isParquet && file.Once():
		return nil, fmt.Errorf("%s is a Parquet file, which cannot be read in order: give it by name", file.Name)
	case isFile:
		return ipc.Open(file, o)
	case isParquet:
		return parquet.Open(file, o)
	case bytes.HasPrefix(head, magicParquetEncrypted):
		return nil, fmt.Errorf("%s is an encrypted Parquet file: encrypted Parquet is not supported", file.Name)
	case bytes.HasPrefix(head, magicFeather):
		return nil, fmt.Errorf("%s is Feather version 1, which is not supported: write it again as Feather version 2 (Arrow IPC)", file.Name)
	case head[0] == '{' && isASCII(head):
		return text.Open(file, text.JSONLines, o)
	case isStreamStart(head, file.Size):
		return ipc.OpenStream(file, o)
	case text.CompressionOf(head) != "":
		return nil, fmt.Errorf("%s is compressed, which only text may be: decompress it, or give the --format of the text", file.Name)
	default:
		return nil, fmt.Errorf("%s is neither an Arrow IPC file or stream nor a Parquet file: it starts with % x (CSV is recognized by the extension, or give --format csv)", file.Name, head)
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
