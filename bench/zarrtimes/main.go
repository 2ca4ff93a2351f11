// Command zarrtimes is Quiver's side of bench/zarr_cpu.py and zarr_remote.py: it reads and writes Zarr v3
// arrays on request. Each line of the input is a JSON object of type request, and each
// line of the output the seconds that the request took. The first line names the
// implementations of codecs.
//
// Arrays are read into memory whose pages were touched before, and opened before the
// clock starts, as bench/zarr_peers.py does. With the environment variable CPUPROFILE,
// a profile is written to that file.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// request is one measurement.
type request struct {
	Op    string  // "write", "read", "encode", "decode", "store", "load" or "random"
	Path  string  // of the array, or its URL
	Codec string  // of a new array
	Shape []int64 // of the array
	Chunk []int64 // of a new array
	Shard []int64 // of a new array; empty for none
	Data  string  // file of the float32 elements
	Check bool    // compare what was read with the data

	Count, Length int64 // of random reads
	Cache         int64 // bytes for decoded chunks in random reads
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "zarrtimes:", err)
		os.Exit(1)
	}
}

func run() error {
	if path := os.Getenv("CPUPROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Printf("ready %s, %s, deflate by %s\n", zstd.Implementation(), lz4.Implementation(), gzip.Implementation())
	var s server
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		took, err := s.serve(q)
		if err != nil {
			return fmt.Errorf("%s %s: %w", q.Op, q.Path, err)
		}
		fmt.Println(took.Seconds())
	}
	return nil
}

// server holds the memory that requests use again.
type server struct {
	data   []byte // mapped file
	source string // name of the file
	out    *ndview.NDBuffer
}

func (s *server) serve(q request) (time.Duration, error) {
	if err := s.mapData(q.Data); err != nil {
		return 0, err
	}
	switch q.Op {
	case "write":
		return s.write(q)
	case "read":
		return s.read(q)
	case "encode":
		return s.encode(q)
	case "decode":
		return s.decode(q)
	case "store":
		return s.store(q)
	case "load":
		return s.load(q)
	case "random":
		return s.random(q)
	}
	return 0, fmt.Errorf("unknown operation %q", q.Op)
}

// mapData maps the file of the elements and touches its pages.
func (s *server) mapData(path string) error {
	if s.source == path {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s.data, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	s.source = path
	return err
}

// open opens an array for reading.
func open(ctx context.Context, q request) (*zarr.Array, error) {
	s, err := store.Open(ctx, q.Path)
	if err != nil {
		return nil, err
	}
	return zarr.OpenMode(ctx, s, "", zarr.ModeRead, nil)
}

func (s *server) write(q request) (time.Duration, error) {
	buf := arrowbuf.WrapExternal(s.data, nil)
	defer buf.Release()
	values, err := ndview.FromBuffer(buf, ndview.Float32, 0, q.Shape, nil)
	if err != nil {
		return 0, err
	}
	defer values.Release()
	codecs, err := codecsOf(q)
	if err != nil {
		return 0, err
	}
	meta := &zarr.ArrayMetadata{Shape: q.Shape, DataType: element.Of(ndview.Float32), ChunkShape: q.Chunk, Codecs: codecs}
	if len(q.Shard) > 0 {
		meta.ChunkShape = q.Shard
	}
	ctx := context.Background()
	files, err := store.Open(ctx, q.Path)
	if err != nil {
		return 0, err
	}
	a, err := zarr.Create(ctx, files, "", meta)
	if err != nil {
		return 0, err
	}
	a.WriteEmptyChunks = true
	start := time.Now()
	err = a.Write(ctx, values, 0)
	return time.Since(start), err
}

// compressorOf returns the codec that compresses, nil for none.
func compressorOf(q request) (codec.BytesCodec, error) {
	shuffled := codec.Blosc{Compressor: blosc.LZ4, Level: 5, Shuffle: codec.BloscBytes, TypeSize: 4}
	switch q.Codec {
	case "none":
		return nil, nil
	case "zstd1":
		return codec.Zstd{Level: 1}, nil
	case "gzip1":
		return codec.Gzip{Level: 1}, nil
	case "blosc-lz4":
		return shuffled, nil
	case "blosc-zstd":
		shuffled.Compressor = blosc.Zstd
		return shuffled, nil
	}
	return nil, fmt.Errorf("unknown codec %q", q.Codec)
}

func codecsOf(q request) (codec.List, error) {
	compressor, err := compressorOf(q)
	if err != nil {
		return nil, err
	}
	var then []codec.Codec
	if compressor != nil {
		then = append(then, compressor)
	}
	codecs := zarr.DefaultCodecs(element.Of(ndview.Float32), then...)
	if len(q.Shard) > 0 {
		codecs = codec.List{codec.Sharding{ChunkShape: q.Chunk, Codecs: codecs}}
	}
	return codecs, nil
}

func (s *server) read(q request) (time.Duration, error) {
	ctx := context.Background()
	a, err := open(ctx, q)
	if err != nil {
		return 0, err
	}
	v, err := a.View(zarr.Selection{})
	if err != nil {
		return 0, err
	}
	if err := s.touchOut(); err != nil {
		return 0, err
	}
	out, err := s.out.Reshape(q.Shape...)
	if err != nil {
		return 0, err
	}
	defer out.Release()
	start := time.Now()
	err = v.ReadInto(ctx, out, 0)
	took := time.Since(start)
	if raw, _ := s.out.HostBytes(); err == nil && q.Check && !bytes.Equal(raw, s.data) {
		err = errors.New("elements differ from those written")
	}
	return took, err
}

// touchOut overwrites the memory of results.
func (s *server) touchOut() (err error) {
	if s.out == nil || s.out.NBytes() != int64(len(s.data)) {
		if s.out, err = ndview.Empty(arrowbuf.CPU(), ndview.Float32, int64(len(s.data))/4); err != nil {
			return err
		}
	}
	return s.out.Fill(float32(time.Now().UnixNano()))
}

// encode compresses the chunks of the elements, and drops what comes out: as fast as the
// codec alone lets an array be written.
func (s *server) encode(q request) (time.Duration, error) {
	size := int(4 * q.Chunk[0])
	return encodeOrDecode(q, len(s.data)/size, func(c codec.BytesCodec, i int, out []byte) ([]byte, error) {
		return c.Encode(out[:0], s.data[i*size:][:size])
	})
}

// decode decompresses the chunks of an array without shards into the same memory again: as
// fast as the codec alone lets the array be read.
func (s *server) decode(q request) (time.Duration, error) {
	size := int(4 * q.Chunk[0])
	chunks := make([][]byte, len(s.data)/size)
	for i := range chunks {
		var err error
		if chunks[i], err = os.ReadFile(filepath.Join(q.Path, "c", strconv.Itoa(i))); err != nil {
			return 0, err
		}
	}
	return encodeOrDecode(q, len(chunks), func(c codec.BytesCodec, i int, out []byte) ([]byte, error) {
		return c.Decode(out[:0], chunks[i], int64(size))
	})
}

// encodeOrDecode calls f with the codec for each chunk. Each goroutine has memory of its own,
// which f may grow.
func encodeOrDecode(q request, chunks int, f func(c codec.BytesCodec, i int, out []byte) ([]byte, error)) (time.Duration, error) {
	c, err := compressorOf(q)
	if err != nil || c == nil {
		return 0, errors.Join(err, errors.New("no codec"))
	}
	return inParallel(func(next func() int) (err error) {
		var out []byte
		for i := next(); i < chunks && err == nil; i = next() {
			out, err = f(c, i, out)
		}
		return err
	})
}

// store writes the elements to the files of an array by one system call for each chunk: as
// fast as the kernel lets an array without a codec be written.
func (s *server) store(q request) (time.Duration, error) {
	if err := os.MkdirAll(q.Path, 0o777); err != nil {
		return 0, err
	}
	return eachFile(q, s.data, os.O_CREATE|os.O_WRONLY, unix.Pwrite)
}

// load reads the files that store wrote.
func (s *server) load(q request) (time.Duration, error) {
	if err := s.touchOut(); err != nil {
		return 0, err
	}
	out, _ := s.out.HostBytes()
	return eachFile(q, out, os.O_RDONLY, unix.Pread)
}

// eachFile calls move with each chunk of memory and its place in a file. One goroutine moves
// all chunks of a file, since the kernel lets one at a time write to it.
func eachFile(q request, memory []byte, flags int, move func(f int, chunk []byte, at int64) (int, error)) (time.Duration, error) {
	size, fileSize := int(4*q.Chunk[0]), int(4*q.Chunk[0])
	if len(q.Shard) > 0 {
		fileSize = int(4 * q.Shard[0])
	}
	files := len(memory) / fileSize
	return inParallel(func(next func() int) error {
		for i := next(); i < files; i = next() {
			f, err := unix.Open(filepath.Join(q.Path, strconv.Itoa(i)), flags, 0o666)
			if err != nil {
				return err
			}
			for at := 0; at < fileSize && err == nil; at += size {
				var n int
				if n, err = move(f, memory[i*fileSize+at:][:size], int64(at)); n != size && err == nil {
					err = fmt.Errorf("file %d: %d bytes of %d at %d", i, n, size, at)
				}
			}
			if err := errors.Join(err, unix.Close(f)); err != nil {
				return err
			}
		}
		return nil
	})
}

// inParallel runs work in as many goroutines as an array uses. next gives them one number
// after the other.
func inParallel(work func(next func() int) error) (time.Duration, error) {
	var group errgroup.Group
	var taken atomic.Int64
	next := func() int { return int(taken.Add(1)) - 1 }
	start := time.Now()
	for range runtime.GOMAXPROCS(0) + 2 {
		group.Go(func() error { return work(next) })
	}
	err := group.Wait()
	return time.Since(start), err
}

// random reads elements at random positions, the same in all programs.
func (s *server) random(q request) (time.Duration, error) {
	ctx := context.Background()
	a, err := open(ctx, q)
	if err != nil {
		return 0, err
	}
	a.ChunkCache = q.Cache
	state := uint64(1)
	starts := make([]int64, q.Count)
	for i := range starts {
		state = state*6364136223846793005 + 1442695040888963407
		starts[i] = int64(state>>33) % (q.Shape[0] - q.Length)
	}
	var last []byte
	start := time.Now()
	for _, at := range starts {
		v, err := a.Get(ctx, zarr.Select(zarr.Span(at, at+q.Length)), zarr.Prototype{}, 1)
		if err != nil {
			return 0, err
		}
		part := v.(*ndview.NDBuffer)
		last, _ = part.HostBytes()
		part.Release()
	}
	took := time.Since(start)
	if want := s.data[4*starts[len(starts)-1]:][:4*q.Length]; !bytes.Equal(last, want) {
		return 0, errors.New("elements differ from those written")
	}
	return took, nil
}
