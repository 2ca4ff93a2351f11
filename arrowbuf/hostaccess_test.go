package arrowbuf_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/csv"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestCatchHostAccessNamesColumn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 30, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String,
			arrow.ListOf(arrow.BinaryTypes.LargeString), &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		values := func(i int) []byte { return moved.Column(i).Data().Buffers()[1].Bytes() }
		for name, c := range map[string]struct {
			touch func()
			want  string
		}{
			"a value": {func() {
				raw := array.NewInt32Data(moved.Column(0).Data())
				defer raw.Release()
				sink = byte(raw.Value(3))
			}, `byte 12 of 120 of buffer 1 of column 0, "a", of type int32, on cuda:0`},
			"a constructor": {func() {
				data := moved.Column(1).Data()
				defer data.Release() // arrow-go has retained the data before the panic
				array.MakeFromData(data)
			}, `byte 120 of 124 of buffer 1 of column 1, "b", of type utf8, on cuda:0`},
			"a child":        {func() { touch(moved.Column(2).Data().Children()[0]) }, `of buffer 1 of column 2, "c.item", of type large_utf8, on cuda:0`},
			"a dictionary":   {func() { touch(moved.Column(3).Data().Dictionary()) }, `of buffer 1 of column 3, "d.dictionary", of type utf8, on cuda:0`},
			"a copy":         {func() { bytes.Clone(values(0)) }, `of buffer 1 of column 0, "a"`},
			"a write":        {func() { clear(values(0)) }, `of buffer 1 of column 0, "a"`},
			"the last bytes": {func() { sink = values(0)[119] }, `byte 119 of 120 of buffer 1 of column 0, "a"`},
		} {
			t.Run(name, func(t *testing.T) {
				err := arrowbuf.CatchHostAccess(moved, func() error { c.touch(); return nil })
				require.ErrorIs(t, err, arrowbuf.ErrDeviceMemory)
				assert.ErrorContains(t, err, c.want)
				assert.ErrorContains(t, err, "call ToHost first")
			})
		}
	})
}

var sink byte

func touch(data arrow.ArrayData) { sink = data.Buffers()[1].Bytes()[0] }

func TestCatchHostAccessNamesMemoryOfOtherBatches(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 3, arrow.PrimitiveTypes.Int32)
		other := alloc(t, dev, 10).Arrow()
		defer other.Release()
		for name, batch := range map[string]arrow.RecordBatch{"on the host": host, "on the device": copyBatch(t, host, dev)} {
			err := arrowbuf.CatchHostAccess(batch, func() error { sink = other.Bytes()[7]; return nil })
			assert.ErrorIs(t, err, arrowbuf.ErrDeviceMemory, name)
			assert.ErrorContains(t, err, "byte 7 of 10 of a buffer on cuda:0 that is not the batch's", name)
			if batch != host {
				batch.Release()
			}
		}
	})
}

func TestCatchHostAccessKeepsOtherFailures(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyBatch(t, randomBatch(t, checked(t), 3, arrow.PrimitiveTypes.Int32), dev)
		defer moved.Release()
		ran := false
		require.NoError(t, arrowbuf.CatchHostAccess(moved, func() error { ran = moved.Column(0).String() != ""; return nil }))
		assert.True(t, ran)
		mine := errors.New("mine")
		assert.Equal(t, mine, arrowbuf.CatchHostAccess(moved, func() error { return mine }))
		assert.PanicsWithError(t, "mine", func() { _ = arrowbuf.CatchHostAccess(moved, func() error { panic(mine) }) })
		assert.PanicsWithValue(t, "text", func() { _ = arrowbuf.CatchHostAccess(moved, func() error { panic("text") }) })
		func() {
			defer func() {
				err, ok := recover().(runtime.Error)
				require.True(t, ok)
				assert.NotErrorIs(t, err, arrowbuf.ErrDeviceMemory)
			}()
			_ = arrowbuf.CatchHostAccess(moved, func() error { var none *[1 << 20]byte; sink = none[9999]; return nil })
		}()
		refused := arrowbuf.CheckHost(moved)
		assert.Equal(t, refused, arrowbuf.CatchHostAccess(moved, func() error { return refused }), "an error that names the column already")
	})
}

func TestCheckHostNamesFirstColumnOnDevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		mem := checked(t)
		host := randomBatch(t, mem, 20, arrow.PrimitiveTypes.Int32, arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}))
		require.NoError(t, arrowbuf.CheckHost(host))
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		err := arrowbuf.CheckHost(moved)
		assert.ErrorIs(t, err, arrowbuf.ErrDeviceMemory)
		assert.ErrorContains(t, err, `column 0, "a", of type int32, is in the memory of cuda:0`)
		mixed, err := arrowbuf.NewRecordBatch(host.Schema(), []arrow.Array{host.Column(0), moved.Column(1)}, 20)
		require.NoError(t, err)
		defer mixed.Release()
		assert.ErrorContains(t, arrowbuf.CheckHost(mixed), `column 1, "b.x", of type int8,`)
		back, err := arrowbuf.ToHost(mixed)
		require.NoError(t, err)
		defer back.Release()
		assert.NoError(t, arrowbuf.CheckHost(back))
		assert.True(t, array.RecordEqual(host, back))
		again, err := arrowbuf.ToHost(back)
		require.NoError(t, err)
		defer again.Release()
		assert.Equal(t, back, again, "without a copy")
	})
}

// outcome is what a call of arrow-go does with a batch on a device.
type outcome string

const (
	works  outcome = "works"                          // it accesses no device memory in place
	caught outcome = "an error that names the access" // under CatchHostAccess: column, type, device, byte
	first  outcome = "an error that names a column"   // under CatchHostAccess: the first column on a device
	ends   outcome = "the end of the program"         // call CheckHost or ToHost first
)

// arrowGoCalls are calls of arrow-go on a batch of 100 rows that is on a device: number
// int32, text utf8, list list<int32>, code dictionary<int8, utf8>. Each has nulls.
var arrowGoCalls = []struct {
	name string
	want outcome
	call func(b arrow.RecordBatch) error
}{
	{"array.NewSlice of int32", works, func(b arrow.RecordBatch) error { return use(array.NewSlice(b.Column(number), 1, 50)) }},
	{"array.NewSlice of int32, NullN", caught, func(b arrow.RecordBatch) error {
		array.NewSlice(b.Column(number), 1, 50).NullN()
		return nil
	}},
	{"array.NewSlice of utf8", caught, func(b arrow.RecordBatch) error { return use(array.NewSlice(b.Column(text), 1, 50)) }},
	{"array.MakeFromData of int32", works, func(b arrow.RecordBatch) error { return use(array.MakeFromData(b.Column(number).Data())) }},
	{"array.MakeFromData of utf8", caught, func(b arrow.RecordBatch) error { return use(array.MakeFromData(b.Column(text).Data())) }},
	{"array.Concatenate", caught, func(b arrow.RecordBatch) error {
		return used(array.Concatenate([]arrow.Array{b.Column(number), b.Column(number)}, memory.DefaultAllocator))
	}},
	{"array.Concatenate of utf8", caught, func(b arrow.RecordBatch) error {
		return used(array.Concatenate([]arrow.Array{b.Column(text), b.Column(text)}, memory.DefaultAllocator))
	}},
	{"array.Diff", caught, func(b arrow.RecordBatch) error {
		_, err := array.Diff(raw(b, number), raw(b, number))
		return err
	}},
	{"array.Equal", caught, func(b arrow.RecordBatch) error { array.Equal(raw(b, number), raw(b, number)); return nil }},
	{"array.RecordEqual of arrowbuf's arrays", first, func(b arrow.RecordBatch) error { array.RecordEqual(b, b); return nil }},
	{"array.Validate of list", caught, func(b arrow.RecordBatch) error { return array.Validate(raw(b, list)) }},
	{"array.ValidateRecord", first, func(b arrow.RecordBatch) error { return array.ValidateRecord(b) }},
	{"array.ValidateRecordFull", caught, func(b arrow.RecordBatch) error { return array.ValidateRecordFull(b) }},
	{"array.RecordToStructArray of int32", works, func(b arrow.RecordBatch) error { return use(array.RecordToStructArray(only(b, number))) }},
	{"array.RecordToStructArray", caught, func(b arrow.RecordBatch) error { return use(array.RecordToStructArray(b)) }},
	{"array.RecordToJSON", works, func(b arrow.RecordBatch) error { return array.RecordToJSON(b, io.Discard) }},
	{"array.NewTableReader, whole chunks", caught, func(b arrow.RecordBatch) error { return readTable(b, -1) }},
	{"array.NewTableReader, chunk size", caught, func(b arrow.RecordBatch) error { return readTable(b, 30) }},
	{"arrow-go's RecordBatch.NewSlice", caught, func(b arrow.RecordBatch) error {
		array.NewRecordBatch(b.Schema(), b.Columns(), b.NumRows()).NewSlice(1, 50)
		return nil
	}},
	{"array.DictionaryUnifier", caught, func(b arrow.RecordBatch) error {
		unifier, err := array.NewDictionaryUnifier(memory.DefaultAllocator, arrow.BinaryTypes.String)
		if err != nil {
			return err
		}
		return unifier.Unify(raw(b, code).(*array.Dictionary).Dictionary())
	}},
	{"array.Int32.Value", caught, func(b arrow.RecordBatch) error { sink = byte(raw(b, number).(*array.Int32).Value(1)); return nil }},
	{"arrow.NewChunked of slices", works, func(b arrow.RecordBatch) error {
		arrow.NewChunked(arrow.PrimitiveTypes.Int32, []arrow.Array{arrowbuf.NewSlice(b.Column(number), 1, 5)})
		return nil
	}},
	{"arrow.NewChunked of array.NewSlice", caught, func(b arrow.RecordBatch) error {
		arrow.NewChunked(arrow.PrimitiveTypes.Int32, []arrow.Array{array.NewSlice(b.Column(number), 1, 5)})
		return nil
	}},
	{"scalar.GetScalar", caught, func(b arrow.RecordBatch) error {
		_, err := scalar.GetScalar(raw(b, number), 1)
		return err
	}},
	{"csv.Writer", first, func(b arrow.RecordBatch) error {
		return csv.NewWriter(io.Discard, only(b, number).Schema()).Write(only(b, number))
	}},
	{"ipc.GetRecordBatchPayload of int32", works, func(b arrow.RecordBatch) error {
		payload, err := ipc.GetRecordBatchPayload(only(b, number))
		payload.Release()
		return err
	}},
	{"ipc.Writer of int32", caught, func(b arrow.RecordBatch) error {
		return ipc.NewWriter(new(bytes.Buffer), ipc.WithSchema(only(b, number).Schema())).Write(only(b, number))
	}},
	{"ipc.Writer of utf8", first, func(b arrow.RecordBatch) error {
		return ipc.NewWriter(new(bytes.Buffer), ipc.WithSchema(only(b, text).Schema())).Write(only(b, text))
	}},
	{"ipc.Writer of list", first, func(b arrow.RecordBatch) error {
		return ipc.NewWriter(new(bytes.Buffer), ipc.WithSchema(only(b, list).Schema())).Write(only(b, list))
	}},
	{"ipc.Writer of dictionary", first, func(b arrow.RecordBatch) error {
		return ipc.NewWriter(new(bytes.Buffer), ipc.WithSchema(only(b, code).Schema())).Write(only(b, code))
	}},
	{"ipc.Writer to a file", first, func(b arrow.RecordBatch) error { return writeFile(only(b, number)) }},
	{"ipc.FileWriter", first, func(b arrow.RecordBatch) error {
		w, err := ipc.NewFileWriter(new(bytes.Buffer), ipc.WithSchema(b.Schema()))
		if err != nil {
			return err
		}
		return w.Write(b)
	}},
	{"ipc.Writer, compressed", caught, func(b arrow.RecordBatch) error {
		return ipc.NewWriter(new(bytes.Buffer), ipc.WithSchema(only(b, number).Schema()), ipc.WithZstd()).Write(only(b, number))
	}},
	{"ipc.Writer, compressed concurrently", ends, func(b arrow.RecordBatch) error {
		return ipc.NewWriter(new(bytes.Buffer), ipc.WithSchema(only(b, number).Schema()), ipc.WithZstd(), ipc.WithCompressConcurrency(2)).Write(only(b, number))
	}},
	{"pqarrow.FileWriter.Write of int32", caught, func(b arrow.RecordBatch) error { return writeParquet(only(b, number)) }},
	{"pqarrow.FileWriter.Write of utf8", caught, func(b arrow.RecordBatch) error { return writeParquet(only(b, text)) }},
	{"pqarrow.FileWriter.Write of list", caught, func(b arrow.RecordBatch) error { return writeParquet(only(b, list)) }},
	{"pqarrow.WriteTable", caught, func(b arrow.RecordBatch) error {
		table := array.NewTableFromRecords(b.Schema(), []arrow.RecordBatch{b})
		return pqarrow.WriteTable(table, new(bytes.Buffer), 10, nil, pqarrow.DefaultWriterProps())
	}},
	{"compute.Add", ends, func(b arrow.RecordBatch) error {
		return usedDatum(compute.Add(oneThread(), compute.ArithmeticOptions{}, compute.NewDatum(b.Column(number)), compute.NewDatum(b.Column(number))))
	}},
	{"compute.CastArray", ends, func(b arrow.RecordBatch) error {
		return used(compute.CastArray(oneThread(), b.Column(number), compute.SafeCastOptions(arrow.PrimitiveTypes.Int64)))
	}},
	{"compute.TakeArray", ends, func(b arrow.RecordBatch) error {
		return used(compute.TakeArray(oneThread(), b.Column(number), positions()))
	}},
	{"compute.Take of a batch", ends, func(b arrow.RecordBatch) error {
		return usedDatum(compute.Take(oneThread(), *compute.DefaultTakeOptions(), compute.NewDatum(only(b, number)), compute.NewDatum(positions())))
	}},
	{"compute.Unique", ends, func(b arrow.RecordBatch) error {
		return usedDatum(compute.Unique(oneThread(), compute.NewDatum(b.Column(number))))
	}},
}

// The columns of the batch of arrowGoCalls.
const (
	number = iota
	text
	list
	code
)

// caseOfChild names the case of arrowGoCalls that a child process runs.
const caseOfChild = "QUIVER_HOST_ACCESS_CASE"

func TestHostAccessOfArrowGo(t *testing.T) {
	open := map[string]func() (*cudabuf.Driver, error){
		"simulated": func() (*cudabuf.Driver, error) { return cudatest.New(cudatest.Config{}), nil },
	}
	if cudatest.OnGPU() {
		open["cuda"] = cudabuf.Open
	}
	for kind, open := range open {
		t.Run(kind, func(t *testing.T) {
			d, err := open()
			require.NoError(t, err)
			defer func() { _ = d.Close() }() // it returns an error: arrow-go leaks where it faults
			dev, err := d.Device(0)
			require.NoError(t, err)
			host := randomBatch(t, memory.DefaultAllocator, 100, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int32),
				&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
			moved := copyBatch(t, withNulls(t, host), dev)
			for _, c := range arrowGoCalls {
				t.Run(c.name, func(t *testing.T) {
					run := func() error {
						return arrowbuf.CatchHostAccess(moved, func() error { return c.call(moved) })
					}
					if os.Getenv(caseOfChild) == t.Name() {
						t.Logf("the call returned %v", run())
						return
					}
					if c.want == ends {
						assert.Contains(t, runChild(t), "unexpected fault address")
						return
					}
					err := run()
					if c.want == works {
						assert.NoError(t, err)
						return
					}
					require.ErrorIs(t, err, arrowbuf.ErrDeviceMemory)
					assert.Regexp(t, `column \d, "[a-d][a-z.]*", of type .* on cuda:0`, err.Error())
					assert.Equal(t, c.want == caught, strings.Contains(err.Error(), "the host accessed byte "), err)
				})
			}
		})
	}
}

// runChild runs the current subtest in a child process, which must fail, and returns
// its output.
func runChild(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	parts := strings.Split(t.Name(), "/")
	for i := range parts {
		parts[i] = "^" + parts[i] + "$"
	}
	child := exec.Command(program, "-test.run="+strings.Join(parts, "/"))
	child.Env = append(os.Environ(), caseOfChild+"="+t.Name())
	out, err := child.CombinedOutput()
	require.Error(t, err, "the child process succeeded: %s", out)
	return string(out)
}

// withNulls returns a batch whose first element of each column is null, without a
// copy of the values.
func withNulls(t *testing.T, b arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	columns := make([]arrow.Array, b.NumCols())
	for i, c := range b.Columns() {
		bits := bytes.Repeat([]byte{0xff}, (c.Len()+7)/8)
		bits[0] = 0xfe
		buffers := append([]*memory.Buffer{memory.NewBufferBytes(bits)}, c.Data().Buffers()[1:]...)
		data := array.NewDataWithDictionary(c.DataType(), c.Len(), buffers, array.UnknownNullCount, 0, dictionaryOf(c))
		if children := c.Data().Children(); len(children) > 0 {
			data = array.NewData(c.DataType(), c.Len(), buffers, children, array.UnknownNullCount, 0)
		}
		columns[i] = array.MakeFromData(data)
	}
	return array.NewRecordBatch(b.Schema(), columns, b.NumRows())
}

func dictionaryOf(c arrow.Array) *array.Data {
	d, _ := c.Data().Dictionary().(*array.Data)
	return d
}

func use(arrow.Array) error                      { return nil }
func used(_ arrow.Array, err error) error        { return err }
func usedDatum(_ compute.Datum, err error) error { return err }
func raw(b arrow.RecordBatch, i int) arrow.Array { return array.MakeFromData(b.Column(i).Data()) }
func positions() arrow.Array                     { return host32(3, 1, 2) }

func host32(values ...int32) arrow.Array {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return b.NewArray()
}

// only returns a batch of some columns.
func only(b arrow.RecordBatch, columns ...int) arrow.RecordBatch {
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, i := range columns {
		fields, arrays = append(fields, b.Schema().Field(i)), append(arrays, b.Column(i))
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, b.NumRows())
}

// oneThread asks compute for as few goroutines as its ExecCtx allows.
func oneThread() context.Context {
	ctx := compute.DefaultExecCtx()
	ctx.NumParallel, ctx.ExecChannelSize = 1, 0
	return compute.SetExecCtx(context.Background(), ctx)
}

func readTable(b arrow.RecordBatch, rows int64) error {
	r := array.NewTableReader(array.NewTableFromRecords(b.Schema(), []arrow.RecordBatch{b}), rows)
	for r.Next() {
		if _, err := r.RecordBatch().MarshalJSON(); err != nil {
			return err
		}
	}
	return r.Err()
}

func writeFile(b arrow.RecordBatch) error {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	f, err := os.Create(filepath.Join(folder, "batch"))
	if err != nil {
		return err
	}
	defer f.Close()
	return ipc.NewWriter(f, ipc.WithSchema(b.Schema())).Write(b)
}

func writeParquet(b arrow.RecordBatch) error {
	w, err := pqarrow.NewFileWriter(b.Schema(), new(bytes.Buffer), nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	return w.Write(b)
}
