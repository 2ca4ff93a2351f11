// Command arrow2zarr-beam converts Arrow, Parquet and other tables to Zarr by a pipeline
// of Apache Beam.
//
//	arrow2zarr-beam [flags] INPUT... OUTPUT
//
// Without --runner it runs on Prism, in this process. The flags of Beam choose another
// runner.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
	"github.com/dustin/go-humanize"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/beam/zarrio"
)

// values is a flag that may be given several times.
type values []string

func (v *values) String() string         { return fmt.Sprint(*v) }
func (v *values) Set(value string) error { *v = append(*v, value); return nil }

// conversionFlags are the flags beside those of Beam.
type conversionFlags struct {
	conversion               zarrio.Conversion
	codecs, columns, exclude values
	memory                   string
}

func (f *conversionFlags) add(flags *flag.FlagSet) {
	c := &f.conversion
	flags.IntVar(&c.Partitions, "partitions", 0, "number of partitions (required)")
	flags.Var(&f.codecs, "codec", "codec of all arrays, or CLASS=CODEC, or NAME=CODEC; may be repeated")
	flags.Var(&f.columns, "column", "name or pattern of columns to convert; may be repeated")
	flags.Var(&f.exclude, "exclude", "name or pattern of columns to leave out; may be repeated")
	flags.Int64Var(&c.Options.ChunkRows, "chunk-rows", 0, "rows in a chunk (0: chosen)")
	flags.Int64Var(&c.Options.ShardRows, "shard-rows", 0, "rows in a shard (0: no shards)")
	flags.BoolVar(&c.Options.SkipUnsupported, "skip-unsupported", false, "leave out columns whose type has no Zarr form")
	flags.BoolVar(&c.Options.Overwrite, "overwrite", false, "replace OUTPUT if it is a Zarr hierarchy")
	flags.StringVar(&c.Worker.Device, "device", "cpu", "cpu, cuda, cuda:N or auto, on each worker")
	flags.IntVar(&c.Worker.Jobs, "jobs", 0, "chunks that a partition encodes at once (0: the number of CPUs)")
	flags.StringVar(&f.memory, "max-memory", "1GiB", "memory of a partition that is being written")
	flags.IntVar(&c.Worker.StoreConcurrency, "store-concurrency", 0, "requests that a partition has in flight (0: chosen)")
}

// parse returns the conversion of the flags and the arguments after them.
func (f *conversionFlags) parse(args []string) (zarrio.Conversion, error) {
	c := f.conversion
	if len(args) < 2 {
		return c, errors.New("expected INPUT... OUTPUT after the flags")
	}
	last := len(args) - 1
	c.Input, c.Output, c.Options.Input.More = args[0], args[last], args[1:last]
	c.Options.Columns, c.Options.Exclude = f.columns, f.exclude
	for _, text := range f.codecs {
		if err := c.Options.AddCodec(text); err != nil {
			return c, fmt.Errorf("--codec: %w", err)
		}
	}
	memory, err := humanize.ParseBytes(f.memory)
	if err != nil {
		return c, fmt.Errorf("--max-memory %q: expected a size such as 1GiB", f.memory)
	}
	c.Worker.MaxMemory = int64(memory)
	return c, c.Check()
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("arrow2zarr-beam: ")
	var f conversionFlags
	f.add(flag.CommandLine)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: arrow2zarr-beam [flags] INPUT... OUTPUT")
		flag.PrintDefaults()
	}
	flag.Parse()
	beam.Init() // of a worker, this does not return
	c, err := f.parse(flag.Args())
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	p, s := beam.NewPipelineWithRoot()
	zarrio.Convert(s, c)
	if err := beamx.Run(context.Background(), p); err != nil {
		log.Print(err)
		os.Exit(1)
	}
	// The workers may be elsewhere, so the output says how it went.
	status, err := arrowzarr.Status(context.Background(), c.Output)
	if err == nil && status.State != arrowzarr.StateComplete {
		err = fmt.Errorf("%s is %s", c.Output, status.State)
	}
	if err != nil {
		log.Print(err)
		os.Exit(1)
	}
	fmt.Println(c.Output)
}
