package gzip

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
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

// DecodeBatch decodes the inputs of a batch and returns when it is done. An output may be
// shorter than its range. Checksums are verified. A zlib stream with a preset dictionary is
// an error that wraps errors.ErrUnsupported. The error of DecodeBatch is that of the whole
// batch: it or the format is not valid, or the device failed.
//
// On a GPU a warp decodes an input, so a batch should have hundreds of them.
func DecodeBatch(b compress.Batch, f Format) ([]compress.Result, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("gzip.DecodeBatch: %w", err)
	}
	if int(f) >= len(formats) {
		return nil, fmt.Errorf("gzip.DecodeBatch: unknown format %d: %w", f, errors.ErrUnsupported)
	}
	var outcomes []batch.Outcome
	var err error
	if dev, ok := arrowbuf.As[*cudabuf.Device](b.Src.Device()); ok {
		outcomes, err = decodeCUDA(dev, b, f)
	} else {
		outcomes, err = batch.RunHost(b, formats[f].decodeInto)
	}
	if err != nil {
		return nil, fmt.Errorf("gzip.DecodeBatch: %w", err)
	}
	return batch.Results("gzip.DecodeBatch", outcomes), nil
}

// decodeInto decodes src into dst, and returns the size of the output.
func (o format) decodeInto(dst, src []byte) (int64, error) {
	out, err := o.decode(dst, src, int64(len(dst)), 0)
	return int64(len(out)), err
}

// decodeGoInto is decodeInto without the library, which accepts some streams that are not
// valid: it ignores the checksum of a gzip header. It is the kernel's reference.
func (o format) decodeGoInto(dst, src []byte) (int64, error) {
	out, err := o.decodeGo(dst, src, int64(len(dst)))
	return int64(len(out)), err
}

const warp = 32

// program has the kernel of kernels/compress/gzip.cu.
var program = launch.Program("compress/gzip", map[string]cudabuf.HostKernel{"quiver_gzip_decode": func(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	items, outcomes := batch.Structs[batch.Item](l, 2, n), batch.Structs[batch.Outcome](l, 3, n)
	var src, dst int64
	for _, it := range items {
		src, dst = max(src, it.Src+it.SrcSize), max(dst, it.Dst+it.DstSize)
	}
	batch.DecodeItems(l.Memory(l.Pointer(0), dst), l.Memory(l.Pointer(1), src), items, outcomes, formats[l.Int64(4)].decodeGoInto)
}})

func decodeCUDA(dev *cudabuf.Device, b compress.Batch, f Format) (_ []batch.Outcome, err error) {
	outcomes := make([]batch.Outcome, len(b.In))
	if len(outcomes) == 0 {
		return outcomes, nil
	}
	items, err := batch.Upload(dev, batch.Items(b))
	if err != nil {
		return nil, err
	}
	defer items.Release()
	results, err := dev.NewBuffer(int64(len(batch.Bytes(outcomes))))
	if err != nil {
		return nil, err
	}
	defer results.Release()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = launch.OnStream(s, program, "quiver_gzip_decode", int64(len(b.In)), warp,
		launch.InOut(b.Dst, 0), launch.In(b.Src, 0), launch.In(items, 0), launch.InOut(results, 0), int64(f))
	if err != nil {
		return nil, err
	}
	_, err = results.CopyToHost(batch.Bytes(outcomes), 0)
	return outcomes, err
}
