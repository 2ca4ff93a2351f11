package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cmd/internal/progress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/device"
)

// convertFlags are the flags of convert, not parsed further.
type convertFlags struct {
	device, maxMemory               string
	codecs                          []string
	chunkRows, shardRows            int64
	columns, exclude                []string
	skipUnsupported                 bool
	jobs                            int
	index                           string
	storeConcurrency                int
	checkpoint                      time.Duration
	resume                          bool
	input                           arrowzarr.InputOptions
	overwrite, progress, noProgress bool
	json, verbose, quiet            bool
}

func newConvertCommand() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert INPUT... OUTPUT",
		Short: "Convert Arrow, Parquet, CSV or JSON lines to a Zarr group",
		Long: `Convert reads INPUT and writes OUTPUT, a Zarr v3 group with one child per
column: a directory, a ZIP file if the name ends in .zip, or an object store
(s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH).

INPUT is an Arrow IPC file (Feather version 2), an Arrow IPC stream, a Parquet file, CSV
or JSON lines, or a folder or pattern of some, or a URL (s3, gs, az, https). The content
says which it is, or the extension: .csv, .tsv, .json, .jsonl, .ndjson, also with .gz,
.zst or .bz2. INPUT "-" is standard input. Several inputs of one schema are read one
after the other.

OUTPUT appears only when it is complete.

CODEC is none, zstd[:LEVEL], gzip[:LEVEL], lz4, blosc:INNER[:LEVEL[:SHUFFLE]] or
auto[:EFFORT]. INNER is blosclz, lz4, lz4hc, snappy, zlib or zstd; SHUFFLE is shuffle,
bitshuffle or noshuffle. EFFORT is fast, balanced or small: a sample of each array
decides. CLASS is int, float, bool, text, binary, time or decimal, and is that of an
array: masks are bool, offsets and codes int. COLUMN is the name of a column, and
column:NAME of one that is named like a class. A column's codec comes first.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			f.input.More = args[1:last]
			return runConvert(cmd, f, args[0], args[last])
		},
	}
	appendHelp(cmd, `  arrow2zarr convert flights.parquet flights.zarr
  arrow2zarr convert flights.arrow flights.zarr --device cuda --codec zstd -v
  arrow2zarr convert flights.arrow flights.zarr --columns '*_delay,origin' --overwrite
  arrow2zarr convert flights.parquet flights.zarr --codec auto --codec float=blosc:zstd:5:shuffle
  arrow2zarr convert big.arrow big.zarr --chunk-rows 65536 --shard-rows 4194304
  producer | arrow2zarr convert - table.zarr --json`)
	f.addDeviceFlag(cmd.Flags())
	f.addTableFlags(cmd.Flags())
	f.addWorkFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&f.resume, "resume", false, "continue a conversion to OUTPUT that was killed, if there is one")
	flags.DurationVar(&f.checkpoint, "checkpoint", arrowzarr.DefaultCheckpoint, "time between two checkpoints, from which --resume continues")
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace OUTPUT if it is a Zarr hierarchy")
	f.addOutputFlags(cmd)
	return cmd
}

// addOutputFlags adds the flags of what a command prints. It must have that of JSON.
func (f *convertFlags) addOutputFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.progress, "progress", false, "show progress even if standard error is not a terminal")
	flags.BoolVar(&f.noProgress, "no-progress", false, "do not show progress")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print more: the device, and the rate of each stage")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	cmd.MarkFlagsMutuallyExclusive("progress", "no-progress")
	for _, other := range []string{"json", "verbose", "progress"} {
		cmd.MarkFlagsMutuallyExclusive("quiet", other)
	}
}

// addDeviceFlag adds the flag of the device.
func (f *convertFlags) addDeviceFlag(flags *pflag.FlagSet) {
	flags.StringVar(&f.device, "device", "auto", "auto, cpu, cuda, cuda:N, cuda_managed:N or GPU-UUID; auto is a GPU if records show that it is faster")
}

// addTableFlags adds the flags that decide what the output is.
func (f *convertFlags) addTableFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.codecs, "codec", nil, fmt.Sprintf("[CLASS= or COLUMN=]CODEC, as arrow2zarr convert --help describes it; may be repeated (default %s)", arrowzarr.DefaultCodec))
	flags.Int64Var(&f.chunkRows, "chunk-rows", 0, fmt.Sprintf("rows in a chunk (default %d, fewer where rows are wide)", arrowzarr.DefaultChunkRows))
	flags.Int64Var(&f.shardRows, "shard-rows", 0, "rows in a shard, a multiple of --chunk-rows (default: none, or of 64 MiB in an object store)")
	flags.StringSliceVar(&f.columns, "columns", nil, "names or patterns (*, ?, [a-z]) of the columns to convert (default all)")
	flags.StringSliceVar(&f.exclude, "exclude", nil, "names or patterns of columns to leave out")
	flags.BoolVar(&f.skipUnsupported, "skip-unsupported", false, "leave out columns that cannot be converted, and name them")
	addInputFlags(flags, &f.input)
	flags.StringVar(&f.index, "index", "auto", "auto or none: the index of the root as a data frame")
}

// addWorkFlags adds the flags of how a process works, and of its summary.
func (f *convertFlags) addWorkFlags(flags *pflag.FlagSet) {
	flags.IntVar(&f.jobs, "jobs", 0, "chunks encoded at once (default: one per core)")
	flags.StringVar(&f.maxMemory, "max-memory", "1GiB", "most memory to use")
	flags.IntVar(&f.storeConcurrency, "store-concurrency", 0, fmt.Sprintf("requests to an object store at once (default %d)", arrowzarr.DefaultStoreConcurrency))
	flags.BoolVar(&f.json, "json", false, "print a summary as one JSON object")
}

func runConvert(cmd *cobra.Command, f convertFlags, input, output string) error {
	return f.withDevice(cmd, func(options arrowzarr.Options) error {
		stop := func() {}
		if f.wantsProgress(cmd.ErrOrStderr()) {
			options.Progress = &arrowzarr.Progress{}
			stop = progress.Show(cmd.ErrOrStderr(), options.Progress)
		}
		report, err := arrowzarr.Convert(cmd.Context(), input, output, options)
		stop()
		if err != nil {
			return err
		}
		if f.quiet {
			return nil
		}
		if f.json {
			return writeSummary(json.NewEncoder(cmd.OutOrStdout()).Encode(report))
		}
		return writeSummary(printReport(cmd.OutOrStdout(), report, f.verbose))
	})
}

// withDevice calls do with the options, and the device in them open.
func (f convertFlags) withDevice(cmd *cobra.Command, do func(arrowzarr.Options) error) (err error) {
	options, err := f.options()
	if err != nil {
		return err
	}
	device, why, closeDevice, err := openDevice(f.device)
	if err != nil {
		return err
	}
	defer func() {
		if e := closeDevice(); e != nil && err == nil {
			err = &arrowzarr.Error{Part: arrowzarr.PartDevice, Err: e}
		}
	}()
	if f.device == "auto" && device.Type() != arrowbuf.DeviceCPU && !options.FasterOnDevice() {
		device, why = arrowbuf.CPU(), fmt.Sprintf("%s is not known to be faster with this codec", device)
	}
	if err := keepMemory(device); err != nil {
		return err
	}
	options.Device = device
	if f.verbose && why != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "device %s (%s)\n", device, why)
	}
	debug.SetMemoryLimit(options.GoMemoryLimit())
	return do(options)
}

// keepMemory makes a GPU keep freed memory. Batches of chunks have many sizes, and the
// built-in pool frees idle memory before it allocates, which waits for the kernels. A
// driver without memory pools gets a pool that keeps whole allocations.
func keepMemory(device arrowbuf.Device) error {
	gpu, ok := arrowbuf.As[*cudabuf.Device](device)
	if !ok {
		return nil
	}
	pool, err := gpu.NewPool(cudabuf.PoolOptions{Kind: cudabuf.StreamOrderedPool})
	if err != nil {
		pool, err = gpu.NewPool(cudabuf.PoolOptions{Slack: -1})
	}
	if err == nil {
		err = gpu.SetPool(pool)
	}
	if err != nil {
		return &arrowzarr.Error{Part: arrowzarr.PartDevice, Err: err}
	}
	return nil
}

func (f convertFlags) options() (arrowzarr.Options, error) {
	var options arrowzarr.Options
	for _, text := range f.codecs {
		if err := options.AddCodec(text); err != nil {
			return options, fmt.Errorf("--codec: %w", err)
		}
	}
	memory, err := parseSize(f.maxMemory)
	if err != nil {
		return options, fmt.Errorf("--max-memory %q: %w", f.maxMemory, err)
	}
	if f.index != "" && f.index != "auto" && f.index != "none" {
		return options, fmt.Errorf("--index %q: expected auto or none", f.index)
	}
	options.NoIndex = f.index == "none"
	options.Input = f.input
	options.ChunkRows, options.ShardRows = f.chunkRows, f.shardRows
	options.Columns, options.Exclude, options.SkipUnsupported = f.columns, f.exclude, f.skipUnsupported
	options.Jobs, options.MaxMemory = f.jobs, memory
	options.Overwrite = f.overwrite
	options.StoreConcurrency, options.Resume, options.Checkpoint = f.storeConcurrency, f.resume, f.checkpoint
	return options, nil
}

// parseSize parses a number of bytes such as 512M, 1.5GiB or 4gb. A single letter is
// binary, as for most programs that limit memory.
func parseSize(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if letter := strings.ToLower(text); letter != "" && strings.ContainsAny(letter[len(letter)-1:], "kmgt") {
		text += "iB"
	}
	size, err := humanize.ParseBytes(text)
	if err != nil {
		return 0, errors.New("expected a size such as 512M or 4GiB")
	}
	if size > 1<<60 {
		return 0, errors.New("more than 1 EiB")
	}
	return int64(size), nil
}

// addInputFlags adds the flags about an input.
func addInputFlags(flags *pflag.FlagSet, o *arrowzarr.InputOptions) {
	flags.StringVar(&o.Format, "format", "", "csv, tsv or json, if neither the content nor the extension says so")
	flags.StringVar(&o.Delimiter, "delimiter", "", "the character between the fields of a row of CSV, such as ';' (default: a comma)")
	flags.StringVar(&o.Types, "types", "", "types of columns of CSV and JSON lines, such as 'id:int64,zip:text' (default: by the first rows)")
	flags.Var((*inferRows)(&o.InferRows), "infer-rows", fmt.Sprintf("rows that say the types of CSV and JSON lines: a number, or all (default %d)", arrowzarr.InferRows))
}

// inferRows is the flag of InputOptions.InferRows.
type inferRows int

func (r *inferRows) Type() string { return "ROWS" }

func (r *inferRows) String() string {
	switch *r {
	case 0:
		return ""
	case arrowzarr.AllRows:
		return "all"
	}
	return strconv.Itoa(int(*r))
}

func (r *inferRows) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == "all":
		n = arrowzarr.AllRows
	case err != nil || n < 1:
		return errors.New("expected a number above 0, or all")
	}
	*r = inferRows(n)
	return nil
}

// wantsProgress reports whether to draw a progress bar. By default, it is drawn on a
// terminal.
func (f convertFlags) wantsProgress(stderr io.Writer) bool {
	if f.quiet {
		return false
	}
	if f.progress || f.noProgress {
		return f.progress
	}
	file, ok := stderr.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// printReport prints a report for people, and returns the first error of writing.
func printReport(out io.Writer, r *arrowzarr.Report, verbose bool) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s: %s rows, %d columns, %s as %s in %s (%.2f:1), %.2f s, %s/s on %s\n",
		r.Output, humanize.Comma(r.Rows), r.Columns, humanize.IBytes(uint64(r.RawBytes)), r.Codec,
		humanize.IBytes(uint64(r.StoredBytes)), ratio(r.RawBytes, r.StoredBytes), r.Seconds,
		humanize.IBytes(uint64(r.BytesPerSecond)), r.Device)
	for _, node := range slices.Sorted(maps.Keys(r.Renamed)) {
		fmt.Fprintf(w, "  column %q is at %s\n", r.Renamed[node], node)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "  column %q of type %s is left out: %s\n", s.Name, s.Type, s.Reason)
	}
	if !verbose {
		return w.Flush()
	}
	if r.Compressor != "" {
		fmt.Fprintf(w, "  compressed by %s\n", r.Compressor)
	}
	for _, path := range slices.Sorted(maps.Keys(r.Codecs)) {
		fmt.Fprintf(w, "  %s is stored as %s\n", path, r.Codecs[path])
	}
	if r.DeviceReason != "" {
		fmt.Fprintf(w, "  on %s, since %s\n", r.Device, r.DeviceReason)
	}
	for _, e := range r.Engines {
		fmt.Fprintf(w, "  %s encoded %s chunks on the %s, %s\n", e.Codec, humanize.Comma(e.Chunks), e.Engine, humanize.IBytes(uint64(e.Bytes)))
	}
	if r.Nested > 0 {
		fmt.Fprintf(w, "  %d nested columns assembled on the host\n", r.Nested)
	}
	printStages(w, r.Stages)
	return w.Flush()
}

// printStages prints the rate of each stage.
func printStages(w io.Writer, stages []arrowzarr.Stage) {
	for _, s := range stages {
		if s.Bytes > 0 {
			fmt.Fprintf(w, "  %-8s %10s in %7.3f s, %s/s\n", s.Name,
				humanize.IBytes(uint64(s.Bytes)), s.Seconds, humanize.IBytes(uint64(s.BytesPerSecond)))
		}
	}
}

func ratio(raw, stored int64) float64 {
	if stored == 0 {
		return 1
	}
	return float64(raw) / float64(stored)
}

// openDriver opens the CUDA driver. Tests replace it by a simulated driver.
var openDriver = cudabuf.Open

// openDevice is device.Open, with errors of the device marked as such. An invalid name is
// an error of usage.
func openDevice(name string) (dev arrowbuf.Device, why string, closing func() error, err error) {
	dev, why, closing, err = device.Open(name, openDriver)
	if err != nil && !errors.Is(err, cudabuf.ErrInvalidName) {
		err = &arrowzarr.Error{Part: arrowzarr.PartDevice, Err: err}
	}
	return dev, why, closing, err
}
