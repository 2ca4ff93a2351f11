package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Gzip compresses with gzip (RFC 1952). Level is 0 (stored) to 9 (Zarr core 3.1, "gzip
// codec").
type Gzip struct {
	Level int
}

// Name returns "gzip".
func (Gzip) Name() string { return "gzip" }

// Configuration returns the level.
func (g Gzip) Configuration() any { return metajson.Members{{Key: "level", Value: g.Level}} }

func (g Gzip) v2() (string, metajson.Members) {
	return "gzip", metajson.Members{{Key: "level", Value: g.Level}}
}

// parseGzip tolerates a missing level, for which implementations have defaults.
func parseGzip(config *metajson.Object, level int) (Codec, error) {
	g := Gzip{Level: level}
	if _, err := config.DecodeOptional("level", &g.Level); err != nil {
		return nil, err
	}
	return g, g.check()
}

func (g Gzip) check() error {
	if g.Level < 0 || g.Level > 9 {
		return fmt.Errorf("gzip: level %d is not within 0 to 9", g.Level)
	}
	return nil
}

var (
	gzipWriters [10]sync.Pool // of *gzip.Writer, by level
	gzipReaders sync.Pool     // of *gzip.Reader
)

// Encode appends the encoding of src to dst.
func (g Gzip) Encode(dst, src []byte) ([]byte, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(dst)
	w, ok := gzipWriters[g.Level].Get().(*gzip.Writer)
	if ok {
		w.Reset(out)
	} else {
		w, _ = gzip.NewWriterLevel(out, g.Level) // the level is checked
	}
	defer gzipWriters[g.Level].Put(w)
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Decode returns the decoding of src: at most limit bytes.
func (Gzip) Decode(dst, src []byte, limit int64) ([]byte, error) {
	r, ok := gzipReaders.Get().(*gzip.Reader)
	if !ok {
		r = new(gzip.Reader)
	}
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return nil, err
	}
	return readAll(r, dst, limit)
}

// readAll reads a stream to its end into dst[:0], which it grows. It returns an error if
// the stream has more than limit bytes.
func readAll(r io.Reader, dst []byte, limit int64) ([]byte, error) {
	dst = dst[:0]
	for int64(len(dst)) < limit {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, 512)
		}
		n, err := r.Read(dst[len(dst):min(int64(cap(dst)), limit)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
	// Reading to the end of a stream verifies its checksum.
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return nil, errTooLong(limit)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return dst, nil
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (Gzip) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio is the limit of deflate: 258 bytes per 2 bits.
func (Gzip) MaxRatio() int64 { return 1032 }

// Zlib compresses with zlib (RFC 1950; numcodecs, "zlib"). Level is 0 (stored) to 9.
type Zlib struct {
	Level int
}

// Name returns "numcodecs.zlib".
func (Zlib) Name() string { return numcodecs + "zlib" }

// Configuration returns the level.
func (z Zlib) Configuration() any { return metajson.Members{{Key: "level", Value: z.Level}} }

func parseZlib(config *metajson.Object) (Codec, error) {
	z := Zlib{Level: 1}
	if _, err := config.DecodeOptional("level", &z.Level); err != nil {
		return nil, err
	}
	return z, z.check()
}

func (z Zlib) check() error {
	if z.Level < 0 || z.Level > 9 {
		return fmt.Errorf("zlib: level %d is not within 0 to 9", z.Level)
	}
	return nil
}

// Encode appends the encoding of src to dst.
func (z Zlib) Encode(dst, src []byte) ([]byte, error) {
	if err := z.check(); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(dst)
	w, err := zlib.NewWriterLevel(out, z.Level)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Decode returns the decoding of src: at most limit bytes. Bytes after the stream are an
// error.
func (Zlib) Decode(dst, src []byte, limit int64) ([]byte, error) {
	in := bytes.NewReader(src)
	r, err := zlib.NewReader(in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if dst, err = readAll(r, dst, limit); err != nil {
		return nil, err
	}
	if in.Len() > 0 {
		return nil, fmt.Errorf("%d bytes after the zlib stream", in.Len())
	}
	return dst, nil
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (Zlib) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio is the limit of deflate.
func (Zlib) MaxRatio() int64 { return Gzip{}.MaxRatio() }
