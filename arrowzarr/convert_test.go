package arrowzarr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

var (
	none  = arrowzarr.Codec{Name: "none"}
	gzip  = arrowzarr.Codec{Name: "gzip", Level: 6}
	lz4s  = arrowzarr.Codec{Name: "lz4"}
	zstd1 = arrowzarr.Codec{Name: "zstd", Level: 1}
	fast  = arrowzarr.Codec{Name: "zstd", Level: -5}
)

// encodings are the formats of inputs that hold the same table.
var encodings = map[string]func(tabletest.Table, testing.TB) []byte{
	"file":        func(t tabletest.Table, tb testing.TB) []byte { return t.File(tb) },
	"stream":      func(t tabletest.Table, tb testing.TB) []byte { return t.Stream(tb) },
	"LZ4 file":    func(t tabletest.Table, tb testing.TB) []byte { return t.File(tb, ipc.WithLZ4()) },
	"zstd stream": func(t tabletest.Table, tb testing.TB) []byte { return t.Stream(tb, ipc.WithZstd()) },
}

// conversions are combinations of batch lengths, shares of nulls, chunks and codecs.
// Not all combinations are here, because most of a test's time is for its files.
var conversions = []struct {
	name         string
	lengths      []int     // of the batches
	nulls        []float64 // shares of nulls, in turn
	chunk, shard int64
	codec        arrowzarr.Codec
	from         string
}{
	{"one chunk", []int{25}, []float64{0}, 0, 0, zstd1, "file"},
	{"one chunk with nulls", []int{25}, []float64{0.3}, 0, 0, none, "stream"},
	{"one chunk of nulls", []int{25}, []float64{1}, 0, 0, gzip, "LZ4 file"},
	{"one chunk of many batches", []int{3, 1, 11, 0, 20, 5}, []float64{0}, 0, 0, none, "file"},
	{"one chunk of batches with and without nulls", []int{9, 16, 0, 1, 10}, []float64{0, 0.4, 0}, 0, 0, fast, "zstd stream"},
	{"chunks of 1 row", []int{2, 0, 1}, []float64{0, 0, 0.5}, 1, 0, none, "stream"},
	{"chunks of 1 row in shards", []int{5, 8}, []float64{0.3}, 1, 4, zstd1, "file"},
	{"chunks of 7 rows", []int{3, 8, 1, 4}, []float64{0}, 7, 0, gzip, "zstd stream"},
	{"chunks of 7 rows with nulls", []int{3, 8, 0, 5}, []float64{0.4}, 7, 0, lz4s, "file"},
	{"chunks of 7 rows with nulls in the last", []int{15, 5}, []float64{0, 0.5}, 7, 0, none, "LZ4 file"},
	{"chunks of 7 rows of nulls", []int{10, 6}, []float64{1}, 7, 0, zstd1, "stream"},
	{"chunks of 7 rows that are batches", []int{7, 7}, []float64{0}, 7, 0, lz4s, "file"},
	{"chunks of 7 rows in shards", []int{9, 30, 1, 50}, []float64{0}, 7, 21, zstd1, "file"},
	{"chunks of 7 rows in shards with nulls", []int{9, 30, 1, 50}, []float64{0, 0.3}, 7, 21, lz4s, "stream"},
	{"chunks of 7 rows in shards of nulls", []int{40}, []float64{1}, 7, 14, gzip, "file"},
	{"a chunk that is a shard", []int{10, 10}, []float64{0.2}, 7, 7, fast, "zstd stream"},
	{"chunks longer than the input", []int{10, 3}, []float64{0.2}, 1000, 2000, zstd1, "file"},
	{"a batch of no rows", []int{0}, []float64{0}, 0, 0, zstd1, "file"},
	{"no batches", nil, nil, 0, 0, zstd1, "stream"},
	{"no batches for shards", nil, nil, 7, 21, lz4s, "file"},
}

// Every value of every supported type is in the output, on every device. The metadata
// is byte-identical on all devices.
func TestEveryTypeConvertsOnEveryDevice(t *testing.T) {
	for seed, c := range conversions {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && seed%3 != 1 { // these have all codecs and most encodings
				t.Skip("takes a second")
			}
			t.Parallel()
			want := tabletest.RandomTable(uint64(seed), c.lengths, c.nulls...)
			input := inputFile(t, encodings[c.from](want, t))
			options := arrowzarr.Options{Codec: c.codec, ChunkRows: c.chunk, ShardRows: c.shard}
			onCPU, report := convertFile(t, input, options)
			requireTable(t, want, onCPU)
			assert.Equal(t, want.Rows(), report.Rows)
			assert.Equal(t, len(tabletest.Types), report.Columns)
			assert.Equal(t, c.codec.String(), report.Codec)
			assert.Equal(t, "cpu", report.Device)
			cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
				options := options
				options.Device = dev
				onDevice, report := convertFile(t, input, options)
				requireTable(t, want, onDevice)
				if c.codec == none || c.codec == gzip {
					assert.Equal(t, "cpu", report.Device)
					assert.Contains(t, report.DeviceReason, "cuda:0 has nothing to encode with the codec "+c.codec.String())
				} else {
					assert.Equal(t, "cuda:0", report.Device)
				}
				require.Equal(t, documents(t, onCPU), documents(t, onDevice))
			})
		})
	}
}

func TestJobsDoNotChangeTheOutput(t *testing.T) {
	want := tabletest.RandomTable(77, []int{40, 3, 60}, 0.2)
	input := inputFile(t, want.File(t))
	for _, jobs := range []int{1, 2, 8} {
		output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 15, ShardRows: 30, Jobs: jobs})
		requireTable(t, want, output)
	}
}

func TestConvertSelectsColumns(t *testing.T) {
	whole := tabletest.RandomTable(5, []int{10, 10}, 0.5)
	chosen := []string{whole.Schema.Field(30).Name, whole.Schema.Field(2).Name, whole.Schema.Field(15).Name}
	for name, encode := range encodings {
		t.Run(name, func(t *testing.T) {
			output, report := convertCodes(t, encode(whole, t), arrowzarr.Options{Columns: chosen})
			assert.Equal(t, 3, report.Columns)
			// In the order of the input, not of the option.
			requireTable(t, whole.Choose(2, 15, 30), output)
		})
	}
}

func TestInputsWithoutColumnsConvert(t *testing.T) {
	nothing := arrow.NewSchema(nil, nil)
	for name, input := range map[string]tabletest.Table{
		"no batches": {Schema: nothing},
		"no rows":    {Schema: nothing, Batches: []arrow.RecordBatch{array.NewRecordBatch(nothing, nil, 0)}},
		"3 rows":     {Schema: nothing, Batches: []arrow.RecordBatch{array.NewRecordBatch(nothing, nil, 3)}},
	} {
		for _, encode := range encodings {
			output, report := convertCodes(t, encode(input, t), arrowzarr.Options{})
			root := openRoot(t, output)
			assert.Empty(t, root.Metadata().Consolidated, name)
			assert.Equal(t, []any{}, root.Metadata().Attributes["column-order"], name)
			assert.Equal(t, input.Rows(), report.Rows, name)
		}
	}
}

// Rows without values take no memory, so there can be 2^62 of them.
func TestManyRowsWithoutValuesConvert(t *testing.T) {
	const many = 1 << 62
	nothing := arrow.NewSchema(nil, nil)
	for name, input := range map[string]tabletest.Table{
		"no columns":   {Schema: nothing, Batches: []arrow.RecordBatch{array.NewRecordBatch(nothing, nil, many)}},
		"null columns": tabletest.Single("null", array.NewNull(many)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, options := range []arrowzarr.Options{{}, {ChunkRows: 7, ShardRows: 21}} {
				output, report := convertCodes(t, input.Stream(t), options)
				assert.Equal(t, int64(many), report.Rows)
				assert.Equal(t, json.Number(fmt.Sprint(many)), openRoot(t, output).Metadata().Attributes["num_rows"])
			}
			input.Batches = append(input.Batches, input.Batches[0], input.Batches[0])
			message := refuse(t, arrowzarr.PartInput, inputFile(t, input.Stream(t)), arrowzarr.Options{})
			assert.Contains(t, message, "more rows than can be counted")
		})
	}
}

// Files of other implementations, of every version, byte order and compression, convert
// to the values that arrow-go reads, and are restored as they are.
func TestGoldenFilesConvertAndAreRestored(t *testing.T) {
	root := filepath.Join("..", "..", "shared", "data")
	golden := filepath.Join(root, "arrow-testing", "arrow-ipc-stream", "integration", "*")
	for _, pattern := range []string{filepath.Join(golden, "*.stream"), filepath.Join(golden, "*.arrow_file"), filepath.Join(root, "parquet-testing", "*.parquet")} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		if len(files) == 0 {
			if os.Getenv("CI") != "" {
				t.Fatal("no golden files")
			}
			t.Skip("no golden files")
		}
		for i, path := range files {
			if testing.Short() && i%4 != 0 {
				continue
			}
			t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
				t.Parallel()
				output, _ := convertFile(t, path, arrowzarr.Options{})
				requireTable(t, readTable(t, path), output)
				requireVerified(t, path, output)
			})
		}
	}
}

func TestConvertCancelledBeforeItBegins(t *testing.T) {
	noGoroutinesLeft(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	columns := tabletest.RandomTable(1, []int{20}, 0.2)
	for _, content := range [][]byte{columns.File(t), columns.Stream(t), tabletest.Single("a", tabletest.Texts("x")).Parquet(t)} {
		output := filepath.Join(t.TempDir(), "output.zarr")
		_, err := arrowzarr.Convert(ctx, inputFile(t, content), output, arrowzarr.Options{})
		require.ErrorIs(t, err, context.Canceled)
		requireOnly(t, filepath.Dir(output))
	}
}

// If a read blocks in the middle of a batch, a conversion ends with its context. It
// leaves no file, no memory and no goroutine, because the pipe has deadlines.
func TestConvertCancelledWhileReadBlocks(t *testing.T) {
	noGoroutinesLeft(t)
	stream := tabletest.RandomTable(1, []int{50, 50, 50, 50}, 0.2).Stream(t)
	run := func(t *testing.T, dev arrowbuf.Device) {
		ctx, cancel := context.WithCancelCause(t.Context())
		input := pipe(t, stream[:len(stream)*2/3], func() { cancel(errors.New("enough")) })
		output := filepath.Join(t.TempDir(), "output.zarr")
		_, err := arrowzarr.Convert(ctx, input, output, arrowzarr.Options{Device: dev, ChunkRows: 10, ShardRows: 20})
		require.EqualError(t, err, "enough")
		requireOnly(t, filepath.Dir(output))
	}
	t.Run("cpu", func(t *testing.T) { run(t, arrowbuf.CPU()) })
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { run(t, dev) })
}

// pipe returns a named pipe with some bytes, which stays open after them. It calls then
// when all bytes are written.
func pipe(t *testing.T, content []byte, then func()) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if !assert.NoError(t, err) {
			return
		}
		_, err = w.Write(content)
		assert.NoError(t, err)
		then()
		<-t.Context().Done()
		assert.NoError(t, w.Close())
	}()
	t.Cleanup(func() { <-done })
	return path
}

// A conversion that is cancelled at its n-th call of the device stops. Copies to the host
// are few: those of adjacent chunks are one.
func TestConvertCancelledDuringDeviceCalls(t *testing.T) {
	noGoroutinesLeft(t)
	columns := tabletest.RandomTable(1, []int{100, 100}, 0.2)
	for name, content := range map[string][]byte{"file": columns.File(t), "stream": columns.Stream(t)} {
		for call, nth := range map[string]int{"cuMemAlloc": 1, "cuMemcpyHtoDAsync": 2, "cuLaunchKernel": 20, "cuMemcpyDtoHAsync": 3} {
			t.Run(name+" "+call, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				dev := simulatedDevice(t, cudatest.Config{Fail: func(made string, n int) cudabuf.Result {
					if made == call && n == nth {
						cancel()
					}
					return 0
				}})
				output := filepath.Join(t.TempDir(), "output.zarr")
				_, err := arrowzarr.Convert(ctx, inputFile(t, content), output, arrowzarr.Options{Device: dev, ChunkRows: 15, Jobs: 2})
				require.ErrorIs(t, err, context.Canceled)
				requireOnly(t, filepath.Dir(output))
			})
		}
	}
}

// A mapped file that is truncated during the conversion is an error, not a crash.
func TestFileTruncatedDuringConvertIsAnError(t *testing.T) {
	var batches []arrow.Array
	for i := range 400 {
		batches = append(batches, tabletest.Random(tabletest.NewRand(uint64(i)), arrow.PrimitiveTypes.Int64, 1000, 0.1))
	}
	input := inputFile(t, tabletest.Single("c", batches...).File(t))
	progress := &arrowzarr.Progress{}
	ctx, cancel := context.WithCancel(t.Context())
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		for done, _ := progress.Rows(); done == 0 && ctx.Err() == nil; done, _ = progress.Rows() {
			continue
		}
		assert.NoError(t, os.Truncate(input, 100_000))
	}()
	output := filepath.Join(t.TempDir(), "output.zarr")
	_, err := arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{ChunkRows: 500, Progress: progress})
	cancel()
	<-cut
	if err != nil { // the conversion may end before the file is truncated
		requirePart(t, arrowzarr.PartInput, err)
		requireOnly(t, filepath.Dir(output))
	}
}

const (
	outOfMemory    = cudabuf.Result(2)
	illegalAddress = cudabuf.Result(700)
	launchFailed   = cudabuf.Result(719)
	unknown        = cudabuf.Result(999)
)

// failing makes driver calls of one name fail, from the n-th call on.
type failing struct {
	mu     sync.Mutex
	call   string // empty for none
	from   int
	result cudabuf.Result
	seen   map[string]int // number of calls by name since arm
}

func (f *failing) arm(call string, from int, result cudabuf.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call, f.from, f.result, f.seen = call, from, result, map[string]int{}
}

func (f *failing) ask(call string, _ int) cudabuf.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[call]++
	if call == f.call && f.seen[call] >= f.from {
		return f.result
	}
	return 0
}

func (f *failing) calls(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[name]
}

// If any call of the driver fails, the error is one of the device, no file is left, and
// all memory is released.
func TestDeviceFailuresLeaveNothingBehind(t *testing.T) {
	columns := tabletest.RandomTable(1, []int{10, 30}, 0.3)
	input := inputFile(t, columns.Stream(t))
	options := arrowzarr.Options{ChunkRows: 16, Jobs: 2}
	for call, result := range map[string]cudabuf.Result{
		"cuMemAlloc":          outOfMemory,
		"cuMemHostAlloc":      outOfMemory,
		"cuMemcpyHtoDAsync":   unknown,
		"cuMemcpyDtoHAsync":   illegalAddress,
		"cuMemcpyDtoDAsync":   unknown,
		"cuModuleLoadData":    unknown,
		"cuModuleGetFunction": unknown,
		"cuLaunchKernel":      launchFailed,
		"cuStreamSynchronize": unknown,
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			total := callsOf(t, call, input, options)
			require.Positive(t, total, "the conversion makes no such call, so this tests nothing")
			for _, from := range []int{1, 2, total/2 + 1, total} {
				t.Run(fmt.Sprintf("from %d of %d on", from, total), func(t *testing.T) {
					fail := &failing{}
					fail.arm("", 0, 0)
					dev := simulatedDevice(t, cudatest.Config{Fail: fail.ask})
					fail.arm(call, min(from, total), result)
					defer fail.arm("", 0, 0) // releasing memory must succeed
					options := options
					options.Device = dev
					output := filepath.Join(t.TempDir(), "output.zarr")
					_, err := arrowzarr.Convert(t.Context(), input, output, options)
					if err == nil && fail.calls(call) < min(from, total) {
						requireOnly(t, filepath.Dir(output), "output.zarr")
						return // in another order, fewer calls are made
					}
					require.Error(t, err)
					requirePart(t, arrowzarr.PartDevice, err)
					assert.Contains(t, err.Error(), result.Name())
					requireOnly(t, filepath.Dir(output))
				})
			}
		})
	}
}

// callsOf returns the number of driver calls of one name in a conversion.
func callsOf(t *testing.T, call, input string, options arrowzarr.Options) int {
	t.Helper()
	fail := &failing{}
	fail.arm("", 0, 0)
	options.Device = simulatedDevice(t, cudatest.Config{Fail: fail.ask})
	fail.arm("", 0, 0)
	_, err := arrowzarr.Convert(t.Context(), input, filepath.Join(t.TempDir(), "output.zarr"), options)
	require.NoError(t, err)
	return fail.calls(call)
}

func simulatedDevice(t *testing.T, c cudatest.Config) *cudabuf.Device {
	t.Helper()
	dev, err := cudatest.Start(t, c).Device(0)
	require.NoError(t, err)
	return dev
}

// A chunk that is larger than the memory of the device is an error of the device.
func TestDeviceOutOfMemoryIsAnError(t *testing.T) {
	input := inputFile(t, tabletest.RandomTable(2, []int{3000}, 0.2).File(t))
	dev := simulatedDevice(t, cudatest.Config{MemoryBytes: 64 << 10})
	output := filepath.Join(t.TempDir(), "output.zarr")
	_, err := arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{Device: dev})
	requirePart(t, arrowzarr.PartDevice, err)
	require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	requireOnly(t, filepath.Dir(output))
}

// cudatest fails the test if memory of the device is left.
func TestRefusedInputsLeaveNoDeviceMemory(t *testing.T) {
	stream := tabletest.RandomTable(1, []int{20, 20}, 0.3).Stream(t)
	for _, cut := range []int{len(stream) - 9, len(stream) * 2 / 3, len(stream) / 3, 50} {
		cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
			refuse(t, arrowzarr.PartInput, inputFile(t, stream[:cut]), arrowzarr.Options{Device: dev, ChunkRows: 4})
		})
	}
}

func init() {
	tasks["small files"] = convertToSmallFiles
	tasks["small disk"] = convertToSmallDisk
}

// convertToSmallFiles converts with a limit of 4 KiB per file.
func convertToSmallFiles(input, output string) outcome {
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		return outcome{Wrong: err.Error()}
	}
	_, err := arrowzarr.Convert(context.Background(), input, output, arrowzarr.Options{Codec: none})
	return result(err)
}

// convertToSmallDisk converts to a file system of 256 KiB, and checks that no file is
// left.
func convertToSmallDisk(input, dir string) outcome {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		return outcome{Wrong: "no mount: " + err.Error()}
	}
	_, err := arrowzarr.Convert(context.Background(), input, filepath.Join(dir, "output.zarr"), arrowzarr.Options{Codec: none, ChunkRows: 1000})
	o := result(err)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		o.Wrong = "something is left"
	}
	if err := unix.Unmount(dir, 0); err != nil {
		o.Wrong = err.Error()
	}
	return o
}

func manyNumbers(t *testing.T) string {
	return inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int64, 100_000, 0)).File(t))
}

func TestFileSizeLimitIsAnOutputError(t *testing.T) {
	dir := t.TempDir()
	o := inChild(t, "small files", manyNumbers(t), filepath.Join(dir, "output.zarr"))
	assert.Empty(t, o.Wrong)
	assert.Equal(t, arrowzarr.PartOutput, o.Part, o.Message)
	assert.Contains(t, o.Message, "file too large")
	requireOnly(t, dir)
}

func TestFullDiskIsAnOutputError(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	o := inChild(t, "small disk", manyNumbers(t), t.TempDir())
	if strings.HasPrefix(o.Wrong, "no mount") {
		t.Skip(o.Wrong)
	}
	require.Empty(t, o.Wrong)
	assert.Equal(t, arrowzarr.PartOutput, o.Part, o.Message)
	assert.Contains(t, o.Message, "no space left on device")
}

// More columns than leave memory for values are refused before a value is read.
func TestTooManyColumnsForTheMemoryAreRefused(t *testing.T) {
	value := tabletest.Floats(1)
	fields := make([]arrow.Field, 20_000)
	columns := make([]arrow.Array, len(fields))
	for i := range fields {
		fields[i], columns[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: value.DataType()}, value
	}
	input := inputFile(t, tabletest.New(fields, columns).Stream(t))
	message := refuse(t, arrowzarr.PartUsage, input, arrowzarr.Options{MaxMemory: 256 << 20})
	assert.Contains(t, message, "20000 columns take about 156 MiB, which leaves too little of --max-memory for their values: choose some with --columns, or raise --max-memory to 281 MiB")
	convertFile(t, input, arrowzarr.Options{MaxMemory: 256 << 20, Columns: []string{"c1?"}})
}
