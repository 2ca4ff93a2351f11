package gzip

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Format is a container of deflate streams.
type Format uint8

// The formats: one or more gzip members (RFC 1952), one zlib stream (RFC 1950), or one
// deflate stream (RFC 1951), which has no checksum.
const (
	Gzip Format = iota
	Zlib
	Deflate
)

var formats = []format{gzipFormat, zlibFormat, rawFormat}

// Decode decodes the inputs of a batch and returns when it is done. An output may be
// shorter than its range. Checksums are verified. A zlib stream with a preset dictionary is
// an error that wraps errors.ErrUnsupported. The error of Decode is that of the whole
// batch: it or the format is not valid, or the device failed.
//
// On a GPU a warp decodes an input, so a batch should have hundreds of them.
func Decode(b compress.Batch, f Format, o compress.DecodeOptions) ([]compress.Result, error) {
	if int(f) >= len(formats) {
		return nil, fmt.Errorf("gzip.Decode: unknown format %d: %w", f, errors.ErrUnsupported)
	}
	return batch.Run("gzip.Decode", b, o.Stats, func(dev *cudabuf.Device) ([]batch.Outcome, error) {
		return batch.LaunchItems(dev, b, program, "quiver_gzip_decode", warp, int64(f))
	}, formats[f].decodeInto)
}

// decodeInto decodes src into dst, and returns the size of the output.
func (o format) decodeInto(dst, src []byte) (int64, error) {
	out, err := o.decode(dst, src, int64(len(dst)), 0)
	return int64(len(out)), err
}

// decodeGoInto is decodeInto without the library, which accepts some streams that are not
// valid: it ignores the checksum of a gzip header. It is the kernel's reference.
func (o format) decodeGoInto(dst, src []byte) (int64, error) {
	out, err := o.decodeGo(dst, src, int64(len(dst)), false)
	return int64(len(out)), err
}

const warp = 32

// program has the kernel of kernels/compress/gzip.cu.
var program = launch.Program("compress/gzip", map[string]cudabuf.HostKernel{"quiver_gzip_decode": func(l *cudabuf.HostLaunch) {
	batch.DecodeLaunched(l, formats[l.Int64(4)].decodeGoInto)
}})
