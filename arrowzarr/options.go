package arrowzarr

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/text"
)

// Defaults of Options.
const (
	// DefaultMaxMemory is 1 GiB.
	DefaultMaxMemory = 1 << 30
	// DefaultChunkRows is the most rows that a chunk has by default: 8 MiB of
	// 8-byte values. Larger chunks cost hardly less per byte, and smaller ones
	// let readers read less.
	DefaultChunkRows = 1 << 20
	// DefaultStoreConcurrency is the number of requests that an object store gets at once:
	// bandwidth times latency over the size of a chunk.
	DefaultStoreConcurrency = 64
	// DefaultCheckpoint is the time between two checkpoints.
	DefaultCheckpoint = 10 * time.Second
)

// Options are the options of Convert. The zero value converts all columns on the
// CPU with the default codec.
type Options struct {
	// Device encodes the columns of fixed width whose codecs it has kernels for, and then
	// assembles their chunks, too. Nil is the CPU device.
	Device arrowbuf.Device `json:"-"`
	// Codec compresses the chunks of arrays that neither of the next two has a codec for.
	Codec Codec
	// ClassCodecs are the codecs of arrays of some classes of types. The codes, offsets
	// and masks of a column are arrays of their own classes.
	ClassCodecs map[Class]Codec
	// ColumnCodecs are the codecs of all arrays of some columns, by the columns' names.
	// They come before ClassCodecs.
	ColumnCodecs map[string]Codec
	// ChunkRows is the number of rows in a chunk. 0 means DefaultChunkRows, or
	// fewer if rows are wide or the input is short.
	ChunkRows int64
	// ShardRows is the number of rows in a shard, a multiple of ChunkRows, which
	// must then be set too. 0 means no shards.
	ShardRows int64
	// Columns are the columns to convert: names, or patterns of [path.Match]. Empty
	// means all. A pattern that is the name of a column matches only that.
	Columns []string
	// Exclude are the columns to leave out, in the same form.
	Exclude []string
	// SkipUnsupported leaves out columns whose type has no Zarr form, and reports them,
	// instead of refusing the input.
	SkipUnsupported bool
	// Input says what the content of the input does not.
	Input InputOptions
	// reader is the input of ConvertReader; otherwise nil.
	reader array.RecordReader
	// deviceReason says why Device is not the one of the caller.
	deviceReason string
	// Jobs is the number of chunks that are assembled or encoded at once. 0 means
	// GOMAXPROCS.
	Jobs int `json:"-"`
	// MaxMemory bounds the memory of the conversion in bytes. 0 means
	// DefaultMaxMemory. The distinct values of dictionaries may take half of it,
	// where a value of n bytes takes 5*n+100.
	MaxMemory int64 `json:"-"`
	// NoIndex leaves out the array of row numbers, without which anndata cannot read
	// the root as a data frame.
	NoIndex bool
	// StoreConcurrency is the number of values that are sent to an object store at once.
	// 0 means DefaultStoreConcurrency. Local outputs do not use it.
	StoreConcurrency int `json:"-"`
	// Overwrite replaces an existing Zarr hierarchy. It also deletes what a local
	// conversion to the same output left that was killed.
	Overwrite bool `json:"-"`
	// Resume continues a conversion to the same output that was killed, from its last
	// checkpoint. Without one it starts at the beginning. If the context ends, what is
	// written is kept, so that it can be resumed again. The input and the other options
	// must be the same, but for Jobs, MaxMemory, StoreConcurrency and Checkpoint.
	Resume bool `json:"-"`
	// Checkpoint is the time between two checkpoints. 0 means DefaultCheckpoint, and less
	// writes none.
	Checkpoint time.Duration `json:"-"`
	// Progress, unless nil, is updated during the conversion. It can be read
	// from any goroutine at any time.
	Progress *Progress `json:"-"`
}

// InputOptions say what an input and its content do not.
type InputOptions struct {
	// More are inputs that follow the first one, and have the same schema.
	More []string
	// Format is csv, tsv or json, which has one object per line. Empty means that the
	// content or the extension of the name says it.
	Format string
	// Delimiter separates the fields of a row of CSV: one character, such as ";". Empty
	// means a comma, and a tab for TSV.
	Delimiter string
	// Types are types of columns of text formats, such as "id:int64,zip:text". The types
	// of other columns come from the first rows.
	Types string
	// InferRows is the number of those rows, or AllRows. Zero means 10,000, or fewer if
	// they take more than a MiB. Other numbers need an input that can be read twice.
	InferRows int
}

// AllRows is the InferRows that infers types from all rows.
const AllRows = -1

// InferRows is the number of rows from which the types of text formats are inferred, unless
// InputOptions say another.
const InferRows = 10_000

// text returns the options of text formats.
func (o InputOptions) text() source.TextOptions {
	t := source.TextOptions{Format: o.Format, Delimiter: o.Delimiter, Types: o.Types, InferRows: o.InferRows}
	if o.InferRows == 0 {
		t.InferRows, t.InferHead = InferRows, true
	}
	return t
}

// validate returns an error unless the options are valid.
func (o InputOptions) validate() error {
	if o.InferRows < AllRows {
		return fmt.Errorf("types of %d rows: expected a number, or %d for all", o.InferRows, AllRows)
	}
	return text.CheckOptions(o.text())
}

// fasterOnDevice has the codecs with which a GPU converts faster than the CPU of the same
// machine, by the records convert-gpu-* of bench/results.
var fasterOnDevice = map[string]bool{"zstd": true, "blosc": true, "lz4": true}

// FasterOnDevice reports whether a GPU is known to convert faster than the CPU: whether
// some record of bench/results shows it for the codec of most arrays.
func (o Options) FasterOnDevice() bool {
	return fasterOnDevice[cmp.Or(o.Codec.Name, DefaultCodec.Name)]
}

// usesDevice reports whether Device is a GPU that encodes any array.
func (o Options) usesDevice() bool {
	if o.Codec == (Codec{}) {
		o.Codec = DefaultCodec
	}
	return o.Device != nil && o.Device.Type() != arrowbuf.DeviceCPU && o.codecs().anyOnDevice()
}

func (o Options) withDefaults() (Options, error) {
	if o.Device == nil {
		o.Device = arrowbuf.CPU()
	}
	if o.Codec == (Codec{}) {
		o.Codec = DefaultCodec
	}
	if o.Jobs == 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	if o.StoreConcurrency == 0 {
		o.StoreConcurrency = DefaultStoreConcurrency
	}
	if o.Checkpoint == 0 {
		o.Checkpoint = DefaultCheckpoint
	}
	if err := errors.Join(o.validateCodecs(), o.Input.validate()); err != nil {
		return o, markPart(PartUsage, err)
	}
	if o.Device.Type() != arrowbuf.DeviceCPU && !o.usesDevice() {
		o.Device, o.deviceReason = arrowbuf.CPU(), fmt.Sprintf("%s has nothing to encode with the codec %s", o.Device, strings.Join(o.codecRules(), " "))
	}
	switch {
	case o.Jobs < 0:
		return o, partErrorf(PartUsage, "jobs: %d, expected at least 1", o.Jobs)
	case o.StoreConcurrency < 0:
		return o, partErrorf(PartUsage, "store concurrency: %d, expected at least 1", o.StoreConcurrency)
	case o.ChunkRows < 0:
		return o, partErrorf(PartUsage, "chunk rows: %d, expected at least 1", o.ChunkRows)
	case o.ShardRows < 0:
		return o, partErrorf(PartUsage, "shard rows: %d, expected at least 1", o.ShardRows)
	case o.ShardRows > 0 && (o.ChunkRows == 0 || o.ShardRows%o.ChunkRows != 0):
		return o, partErrorf(PartUsage, "shard rows: %d, expected a multiple of the chunk rows, which must be given too", o.ShardRows)
	case o.MaxMemory < minMemory:
		return o, partErrorf(PartUsage, "max memory: %d bytes, expected at least %d (%d MiB)", o.MaxMemory, minMemory, minMemory>>20)
	}
	return o, nil
}
