package arrowzarr_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// table is a schema and its batches.
type table struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
}

// newTable returns a table of batches, each given as its columns.
func newTable(fields []arrow.Field, batches ...[]arrow.Array) table {
	t := table{schema: arrow.NewSchema(fields, nil)}
	for _, columns := range batches {
		rows := int64(0)
		if len(columns) > 0 {
			rows = int64(columns[0].Len())
		}
		t.batches = append(t.batches, array.NewRecordBatch(t.schema, columns, rows))
	}
	return t
}

// single returns a table of one column, with one batch per array.
func single(name string, batches ...arrow.Array) table {
	columns := make([][]arrow.Array, len(batches))
	for i, b := range batches {
		columns[i] = []arrow.Array{b}
	}
	return newTable([]arrow.Field{{Name: name, Type: batches[0].DataType(), Nullable: true}}, columns...)
}

// column returns the arrays of one column, one per batch.
func (t table) column(i int) []arrow.Array {
	var chunks []arrow.Array
	for _, b := range t.batches {
		chunks = append(chunks, b.Column(i))
	}
	return chunks
}

func (t table) rows() int64 {
	var n int64
	for _, b := range t.batches {
		n += b.NumRows()
	}
	return n
}

// stream returns the table as an Arrow IPC stream.
func (t table) stream(tb testing.TB, options ...ipc.Option) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, append(options, ipc.WithSchema(t.schema))...)
	for _, b := range t.batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// file returns the table as an Arrow IPC file.
func (t table) file(tb testing.TB, options ...ipc.Option) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w, err := ipc.NewFileWriter(&buf, append(options, ipc.WithSchema(t.schema))...)
	require.NoError(tb, err)
	for _, b := range t.batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// parquet returns the table as a Parquet file, with one row group per batch.
func (t table) parquet(tb testing.TB, options ...parquet.WriterProperty) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(t.schema, &buf, parquet.NewWriterProperties(options...), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	require.NoError(tb, err)
	for _, b := range t.batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// inputFile writes an input to a folder of its own. The folder of the output then has
// no other file.
func inputFile(tb testing.TB, content []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "input")
	require.NoError(tb, os.WriteFile(path, content, 0o666))
	return path
}

// convert converts an input and checks that it leaves no file but the output. It
// returns the path of the output and the report.
func convertCodes(tb testing.TB, input []byte, options arrowzarr.Options) (string, *arrowzarr.Report) {
	tb.Helper()
	return convertFile(tb, inputFile(tb, input), options)
}

func convertFile(tb testing.TB, input string, options arrowzarr.Options) (string, *arrowzarr.Report) {
	tb.Helper()
	output := filepath.Join(tb.TempDir(), "output.zarr")
	report, err := arrowzarr.Convert(tb.Context(), input, output, options)
	require.NoError(tb, err)
	requireOnly(tb, filepath.Dir(output), filepath.Base(output))
	return output, report
}

// refuse checks that converting an input fails in one part and leaves no file. It
// returns the text of the error.
func refuse(tb testing.TB, part arrowzarr.Part, input string, options arrowzarr.Options) string {
	tb.Helper()
	output := filepath.Join(tb.TempDir(), "output.zarr")
	report, err := arrowzarr.Convert(tb.Context(), input, output, options)
	require.Error(tb, err)
	assert.Nil(tb, report)
	requirePart(tb, part, err)
	requireOnly(tb, filepath.Dir(output))
	return err.Error()
}

func requirePart(tb testing.TB, part arrowzarr.Part, err error) {
	tb.Helper()
	var failure *arrowzarr.Error
	require.ErrorAs(tb, err, &failure)
	require.Equal(tb, part, failure.Part, "the part that %q is blamed on", err)
}

// requireOnly checks that a directory has exactly these entries.
func requireOnly(tb testing.TB, dir string, names ...string) {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(tb, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.ElementsMatch(tb, names, found, "entries of the output's directory")
}

// noGoroutinesLeft fails the test if it ends with more goroutines than now. Such a test
// must not run in parallel with others.
func noGoroutinesLeft(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		stacks := make([]byte, 1<<20)
		ok := assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 5*time.Millisecond) // Eventually has one
		if !ok {
			t.Logf("goroutines:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	})
}

// choose returns the table with only some columns.
func (t table) choose(indices ...int) table {
	var fields []arrow.Field
	for _, i := range indices {
		fields = append(fields, t.schema.Field(i))
	}
	chosen := table{schema: arrow.NewSchema(fields, nil)}
	for _, b := range t.batches {
		var columns []arrow.Array
		for _, i := range indices {
			columns = append(columns, b.Column(i))
		}
		chosen.batches = append(chosen.batches, array.NewRecordBatch(chosen.schema, columns, b.NumRows()))
	}
	return chosen
}

// fromJSON returns an array of the values in a JSON list.
func fromJSON(tb testing.TB, t arrow.DataType, values string) arrow.Array {
	tb.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, t)
	require.NoError(tb, b.UnmarshalJSON([]byte(values)))
	return b.NewArray()
}

// encoded returns a dictionary array. An index of -1 is a null.
func encoded(index arrow.DataType, dictionary arrow.Array, indices ...int) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, index)
	for _, i := range indices {
		if i < 0 {
			b.AppendNull()
		} else if err := b.AppendValueFromString(fmt.Sprint(i)); err != nil {
			panic(err)
		}
	}
	return array.NewDictionaryArray(&arrow.DictionaryType{IndexType: index, ValueType: dictionary.DataType()}, b.NewArray(), dictionary)
}

// texts returns an array of strings; "-" is a null.
func texts(values ...string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, v := range values {
		if v == "-" {
			b.AppendNull()
		} else {
			b.Append(v)
		}
	}
	return b.NewArray()
}

// numbered returns an array of n distinct strings.
func numbered(from, n int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range n {
		b.Append(fmt.Sprintf("value %d", from+i))
	}
	return b.NewArray()
}

func floats(values ...float64) arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return b.NewArray()
}

// TestMain runs the tests. In a child process of a test it runs one task.
func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		os.Exit(runChild(task))
	}
	useMemoryForFiles()
	os.Exit(m.Run())
}

// useMemoryForFiles makes tests write their thousands of small files to memory, if
// there is enough, because creating them on a disk takes most of the time. TMPDIR
// overrides it.
func useMemoryForFiles() {
	const shared = "/dev/shm"
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") == "" && unix.Statfs(shared, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > 1<<30 {
		if err := os.Setenv("TMPDIR", shared); err != nil {
			panic(err)
		}
	}
}

// childTask is the environment variable with the task of a child process.
const childTask = "ARROWZARR_TEST_TASK"

// outcome is the result of a conversion in a child process.
type outcome struct {
	Part     arrowzarr.Part // that failed; 0 for none
	Message  string
	Wrong    string // how the output differs from the input
	PeakRSS  int64  // in bytes, after the conversion
	Unmarked bool   // the error is no *Error
}

var tasks = map[string]func(input, output string) outcome{}

// runChild is the main function of a child process. It prints an outcome.
func runChild(task string) int {
	o := tasks[task](os.Args[1], os.Args[2])
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return 1
	}
	return 0
}

// inChild converts in a child process, which must end within 20 s.
func inChild(tb testing.TB, task, input, output string) outcome {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], input, output)
	child.Env = append(os.Environ(), childTask+"="+task, "GORACE=atexit_sleep_ms=0")
	var stdout, stderr bytes.Buffer
	child.Stdout, child.Stderr = &stdout, &stderr
	err := child.Run()
	require.NoError(tb, ctx.Err(), "the conversion takes more than 20 s")
	require.NoError(tb, err, "the child ends with\n%s", tail(stderr.String()))
	require.NotContains(tb, stderr.String(), "panic")
	var o outcome
	require.NoError(tb, json.Unmarshal(stdout.Bytes(), &o))
	return o
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

// result returns the outcome of a conversion that returned err.
func result(err error) outcome {
	o := outcome{PeakRSS: peakRSS()}
	if err == nil {
		return o
	}
	o.Message = err.Error()
	var failure *arrowzarr.Error
	if o.Unmarked = !errors.As(err, &failure); !o.Unmarked {
		o.Part = failure.Part
	}
	return o
}

// peakRSS returns the peak of this process's resident memory, in bytes. wait4 does not
// do: for a child, it includes the parent's memory before the exec.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return -1
}

// supported is every type that converts to plain or nullable arrays, in every unit and
// layout. Dictionaries have tests of their own.
var supported = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
	arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
	arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
	&arrow.FixedSizeBinaryType{ByteWidth: 5},
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
	arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
	&arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Millisecond},
	&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Oslo"},
	arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns,
	&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: 0},
	&arrow.Decimal128Type{Precision: 38, Scale: 10}, &arrow.Decimal256Type{Precision: 76, Scale: -3},
	arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32),
	arrow.FixedSizeListOf(5, arrow.FixedWidthTypes.Boolean),
	arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16)),
	arrow.Null,
	extensions.NewUUIDType(), extensions.NewBool8Type(),
	extensions.NewOpaqueType(arrow.BinaryTypes.String, "rope", "maker"),
}

// sampleTable returns a table of all supported types with batches of these lengths. Each
// array is a slice of a longer one. Batch i has share i, modulo their number, of nulls.
func sampleTable(seed uint64, lengths []int, nulls ...float64) table {
	rng := newRand(seed)
	fields := make([]arrow.Field, len(supported))
	for i, t := range supported {
		fields[i] = arrow.Field{Name: fmt.Sprintf("%02d %s", i, t.ID()), Type: t, Nullable: true}
	}
	var batches [][]arrow.Array
	for b, n := range lengths {
		columns := make([]arrow.Array, len(fields))
		for i, f := range fields {
			before, after := rng.IntN(10), rng.IntN(10)
			whole := sample(rng, f.Type, before+n+after, nulls[b%len(nulls)])
			columns[i] = array.NewSlice(whole, int64(before), int64(before+n))
		}
		batches = append(batches, columns)
	}
	return newTable(fields, batches...)
}

// sample returns an array of random values, of which a share is null.
func sample(rng *rand.Rand, t arrow.DataType, n int, nulls float64) arrow.Array {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return array.NewExtensionArrayWithStorage(ext, sample(rng, ext.StorageType(), n, nulls))
	}
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for range n {
		appendSample(rng, b, nulls)
	}
	return b.NewArray()
}

var words = []string{"", "a", "straße", "日本語", "\x00", "NA", "a text that does not fit into a view's twelve bytes"}

func appendSample(rng *rand.Rand, b array.Builder, nulls float64) {
	_, isRuns := b.(*array.RunEndEncodedBuilder)
	if rng.Float64() < nulls && !isRuns {
		b.AppendNull()
		return
	}
	bits := rng.Uint64()
	word := words[rng.IntN(len(words))]
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(bits&1 == 1)
	case *array.Int8Builder:
		b.Append(int8(bits))
	case *array.Int16Builder:
		b.Append(int16(bits))
	case *array.Int32Builder:
		b.Append(int32(bits))
	case *array.Int64Builder:
		b.Append(int64(bits))
	case *array.Uint8Builder:
		b.Append(uint8(bits))
	case *array.Uint16Builder:
		b.Append(uint16(bits))
	case *array.Uint32Builder:
		b.Append(uint32(bits))
	case *array.Uint64Builder:
		b.Append(bits)
	case *array.Float16Builder:
		b.Append(float16.FromBits(uint16(bits)))
	case *array.Float32Builder:
		b.Append(math.Float32frombits(uint32(bits)))
	case *array.Float64Builder:
		b.Append(math.Float64frombits(bits))
	case interface{ Append(string) }:
		b.Append(word)
	case interface{ AppendString(string) }:
		b.AppendString(word + "\xff") // bytes need not be text
	case *array.FixedSizeBinaryBuilder:
		b.Append(randomBytes(rng, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth))
	case *array.Date32Builder:
		b.Append(arrow.Date32(bits))
	case *array.Date64Builder:
		b.Append(arrow.Date64(int32(bits)) * 86_400_000)
	case *array.Time32Builder:
		b.Append(arrow.Time32(bits % 86_400))
	case *array.Time64Builder:
		b.Append(arrow.Time64(bits % 86_400_000_000))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(bits >> 1))
	case *array.DurationBuilder:
		b.Append(-arrow.Duration(bits >> 1))
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(bits))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(bits))
	case *array.Decimal128Builder:
		b.Append(decimal128.New(int64(rng.Uint64()), bits))
	case *array.Decimal256Builder:
		b.Append(decimal256.New(rng.Uint64(), rng.Uint64(), rng.Uint64(), bits))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(bits))
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: int32(bits), Milliseconds: int32(bits >> 32)})
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(bits), Days: int32(bits >> 32), Nanoseconds: int64(rng.Uint64())})
	case *array.Int32DictionaryBuilder:
		if err := b.Append(int32(bits % 9)); err != nil {
			panic(err)
		}
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(word); err != nil {
			panic(err)
		}
	case *array.MapBuilder:
		b.Append(true)
		for range rng.IntN(4) {
			appendSample(rng, b.KeyBuilder(), 0)
			appendSample(rng, b.ItemBuilder(), nulls)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendSample(rng, b.FieldBuilder(i), nulls)
		}
	case array.UnionBuilder:
		t := b.Type().(arrow.UnionType)
		child := rng.IntN(len(t.Fields()))
		b.Append(t.TypeCodes()[child])
		for i := range t.Fields() {
			if i == child {
				appendSample(rng, b.Child(i), nulls)
			} else if t.Mode() == arrow.SparseMode {
				b.Child(i).AppendEmptyValue()
			}
		}
	case *array.RunEndEncodedBuilder:
		b.Append(1 + bits%3)
		appendSample(rng, b.ValueBuilder(), nulls)
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			appendSample(rng, b.ValueBuilder(), nulls)
		}
	case array.VarLenListLikeBuilder:
		n := rng.IntN(4)
		b.AppendWithSize(true, n)
		for range n {
			appendSample(rng, b.ValueBuilder(), nulls)
		}
	default:
		panic(fmt.Sprintf("no sample for %T", b))
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint64())
	}
	return b
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
