package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// numbers returns a batch of two columns of 8-byte numbers and one of text, 24 bytes per
// row. They compress well, because the tests are not about writing.
func numbers(rows int) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "name", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Reserve(rows)
	ids, values, names := b.Field(0).(*array.Int64Builder), b.Field(1).(*array.Float64Builder), b.Field(2).(*array.StringBuilder)
	names.ReserveData(4 * rows)
	for i := range rows {
		ids.Append(int64(i % 1000))
		names.Append("name")
		if i%10 == 0 {
			values.AppendNull()
		} else {
			values.Append(float64(i % 100))
		}
	}
	return b.NewRecordBatch()
}

// Memory stays below --max-memory for every format, size of batches and number of cores.
// All inputs are larger than --max-memory.
func TestMemoryStaysUnderItsLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if raceDetector {
		t.Skip("the race detector multiplies the memory that a program takes")
	}
	const limit = 256 << 20
	pieces := func(w io.Writer, rows, times int, open func(io.Writer, *arrow.Schema) (batchWriter, error)) error {
		batch := numbers(rows)
		out, err := open(w, batch.Schema())
		if err != nil {
			return err
		}
		for range times {
			if err := out.Write(batch); err != nil {
				return err
			}
		}
		return out.Close()
	}
	tests := []struct {
		name        string
		rows, times int
		open        func(io.Writer, *arrow.Schema) (batchWriter, error)
		piped       bool
		cores       int // 0: all of the machine
		flags       []string
	}{
		{"stream", 200_000, 64, asStream, true, 0, nil},
		{"stream of large batches", 800_000, 16, asStream, true, 0, nil},
		{"stream of batches that fill what is held", 4 << 20, 4, asStream, true, 0, nil},
		{"stream of small batches", 5_000, 2500, asStream, true, 0, nil},
		{"stream to shards", 200_000, 64, asStream, true, 0, []string{"--chunk-rows", "50000", "--shard-rows", "1000000"}},
		{"stream without compression", 200_000, 64, asStream, true, 0, []string{"--codec", "none"}},
		{"compressed stream", 200_000, 64, asZstdStream, true, 0, nil},
		{"file", 200_000, 64, asFile, false, 0, nil},
		{"file on many cores", 200_000, 64, asFile, false, 16, nil},
		{"file of one batch", 12_800_000, 1, asFile, false, 0, nil},
		{"file to large chunks on many cores", 3_200_000, 4, asFile, false, 16, []string{"--chunk-rows", "1048576"}},
		{"file to costly chunks on many cores", 3_200_000, 4, asFile, false, 16, []string{"--codec", "zstd:15"}},
		{"file to codecs of samples", 200_000, 64, asFile, false, 0, []string{"--codec", "auto"}},
		{"file to Blosc on many cores", 3_200_000, 4, asFile, false, 16, []string{"--codec", "blosc:zstd:7"}},
		{"compressed file", 200_000, 64, asZstdFile, false, 0, nil},
		{"Parquet file", 1_000_000, 12, asParquet, false, 0, nil},
		{"Parquet file of one row group", 12_000_000, 1, asParquet, false, 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			output := outputPath(t)
			used := filepath.Join(t.TempDir(), "status")
			input := "-"
			if !test.piped {
				input = filepath.Join(t.TempDir(), "input")
				file, err := os.Create(input)
				require.NoError(t, err)
				require.NoError(t, pieces(struct{ io.Writer }{file}, test.rows, test.times, test.open))
				require.NoError(t, file.Close())
			}
			args := append([]string{"convert", input, output, "--device", "cpu", "--json", "--max-memory", fmt.Sprint(limit)}, test.flags...)
			c := command(t, args...)
			c.Env = append(c.Env, asCommand+"="+used)
			if test.cores > 0 {
				c.Env = append(c.Env, fmt.Sprint("GOMAXPROCS=", test.cores))
			}
			var stdout, stderr strings.Builder
			c.Stdout, c.Stderr = &stdout, &stderr
			if test.piped {
				stdin, err := c.StdinPipe()
				require.NoError(t, err)
				require.NoError(t, c.Start())
				assert.NoError(t, pieces(stdin, test.rows, test.times, test.open))
				_ = stdin.Close()
			} else {
				require.NoError(t, c.Start())
			}
			require.NoError(t, c.Wait(), stderr.String())
			var report arrowzarr.Report
			require.NoError(t, json.Unmarshal([]byte(stdout.String()), &report))
			assert.Equal(t, int64(test.rows*test.times), report.Rows)
			assert.Greater(t, report.RawBytes, int64(limit))
			peak := peakRSS(t, used)
			t.Logf("peak %d MiB of %d, chunks of %d rows", peak>>20, limit>>20, report.ChunkRows)
			assert.Less(t, peak, int64(limit))
		})
	}
}

// Restore takes no more than --max-memory, though the values of its rows are far larger.
func TestMemoryOfRestoreStaysUnderItsLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if raceDetector {
		t.Skip("the race detector multiplies the memory that a program takes")
	}
	const limit, rows, values = 256 << 20, 100_000, 1000
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: kind}, {Name: "n", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range rows {
		require.NoError(t, b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(strings.Repeat(fmt.Sprint(i%values, " "), 4000)))
		b.Field(1).(*array.Float64Builder).Append(float64(i))
	}
	input, output := filepath.Join(t.TempDir(), "input.arrow"), outputPath(t)
	file, err := os.Create(input)
	require.NoError(t, err)
	w, err := asFile(file, schema)
	require.NoError(t, err)
	require.NoError(t, w.Write(b.NewRecordBatch()))
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
	_, err = arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{})
	require.NoError(t, err)
	for _, name := range []string{"restored.parquet", "restored.arrow"} {
		used, restored := filepath.Join(t.TempDir(), "status"), filepath.Join(t.TempDir(), name)
		c := command(t, "restore", output, restored, "--quiet", "--max-memory", fmt.Sprint(limit))
		c.Env = append(c.Env, asCommand+"="+used)
		printed, err := c.CombinedOutput()
		require.NoError(t, err, string(printed))
		peak := peakRSS(t, used)
		t.Logf("%s: peak %d MiB of %d", name, peak>>20, limit>>20)
		assert.Less(t, peak, int64(limit))
		verified, err := arrowzarr.Verify(t.Context(), restored, output, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
	}
}

// The values of a Parquet dictionary take more than their share of --max-memory.
func TestMemoryOfLargeDictionariesStaysUnderItsLimit(t *testing.T) {
	const values, groups = 3_000_000, 2
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: arrow.BinaryTypes.String}}, nil)
	requirePeak(t, values*groups, func(file io.Writer) {
		properties := parquet.NewWriterProperties(parquet.WithDictionaryPageSizeLimit(1<<30), parquet.WithMaxRowGroupLength(1<<40))
		w, err := pqarrow.NewFileWriter(schema, file, properties, pqarrow.DefaultWriterProps())
		require.NoError(t, err)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for group := range groups {
			for i := range values {
				// The order differs between row groups, so values are found far from each other.
				b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("value number %d", (i*(6*group+1))%values))
			}
			require.NoError(t, w.Write(b.NewRecordBatch()))
		}
		require.NoError(t, w.AppendKeyValueMetadata("ARROW:schema", dictionarySchema(t)))
		require.NoError(t, w.Close())
	})
}

// What is known of the columns takes more memory than the values of few rows, and all values
// of more rows take more than there is.
func TestMemoryOfManyColumnsStaysUnderItsLimit(t *testing.T) {
	tests := map[string]struct {
		columns, rows, times int
		open                 func(io.Writer, *arrow.Schema) (batchWriter, error)
	}{
		"few rows of Parquet":       {10_000, 100, 1, asParquet},
		"Parquet":                   {3_000, 12_000, 1, asParquet},
		"IPC file of short batches": {3_000, 100, 20, asFile},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			requirePeak(t, int64(test.rows*test.times), func(file io.Writer) {
				values := array.NewFloat64Builder(memory.DefaultAllocator)
				for i := range test.rows {
					values.Append(float64(i))
				}
				column := values.NewArray()
				fields, all := make([]arrow.Field, test.columns), make([]arrow.Array, test.columns)
				for i := range fields {
					fields[i], all[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: column.DataType(), Nullable: true}, column
				}
				batch := array.NewRecordBatch(arrow.NewSchema(fields, nil), all, int64(test.rows))
				w, err := test.open(file, batch.Schema())
				require.NoError(t, err)
				for range test.times {
					require.NoError(t, w.Write(batch))
				}
				require.NoError(t, w.Close())
			})
		})
	}
}

// requirePeak requires that a file is converted under 256 MiB, to an equal table.
func requirePeak(t *testing.T, rows int64, write func(file io.Writer)) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if raceDetector {
		t.Skip("the race detector multiplies the memory that a program takes")
	}
	const limit = 256 << 20
	input, output := filepath.Join(t.TempDir(), "input"), outputPath(t)
	file, err := os.Create(input)
	require.NoError(t, err)
	write(struct{ io.Writer }{file})
	require.NoError(t, file.Close())
	used := filepath.Join(t.TempDir(), "status")
	c := command(t, "convert", input, output, "--device", "cpu", "--json", "--max-memory", fmt.Sprint(limit))
	c.Env = append(c.Env, asCommand+"="+used, "TMPDIR="+t.TempDir())
	printed, err := c.Output()
	require.NoError(t, err)
	var report arrowzarr.Report
	require.NoError(t, json.Unmarshal(printed, &report))
	assert.Equal(t, rows, report.Rows)
	peak := peakRSS(t, used)
	t.Logf("peak %d MiB of %d", peak>>20, limit>>20)
	assert.Less(t, peak, int64(limit))
	verified, err := arrowzarr.Verify(t.Context(), input, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

// dictionarySchema returns the encoded Arrow schema of a column d of dictionaries.
func dictionarySchema(t *testing.T) string {
	t.Helper()
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	var message strings.Builder
	w := ipc.NewWriter(&message, ipc.WithSchema(arrow.NewSchema([]arrow.Field{{Name: "d", Type: kind}}, nil)))
	require.NoError(t, w.Close())
	return base64.StdEncoding.EncodeToString([]byte(message.String()))
}

type batchWriter interface {
	Write(arrow.RecordBatch) error
	Close() error
}

func asStream(w io.Writer, s *arrow.Schema) (batchWriter, error) {
	return ipc.NewWriter(w, ipc.WithSchema(s)), nil
}

func asZstdStream(w io.Writer, s *arrow.Schema) (batchWriter, error) {
	return ipc.NewWriter(w, ipc.WithSchema(s), ipc.WithZstd()), nil
}

func asFile(w io.Writer, s *arrow.Schema) (batchWriter, error) {
	return ipc.NewFileWriter(w, ipc.WithSchema(s))
}

func asZstdFile(w io.Writer, s *arrow.Schema) (batchWriter, error) {
	return ipc.NewFileWriter(w, ipc.WithSchema(s), ipc.WithZstd())
}

func asParquet(w io.Writer, s *arrow.Schema) (batchWriter, error) {
	properties := parquet.NewWriterProperties(parquet.WithDictionaryDefault(false), parquet.WithMaxRowGroupLength(1<<40))
	return pqarrow.NewFileWriter(s, w, properties, pqarrow.DefaultWriterProps())
}

// peakRSS returns the peak of the resident memory of a process, which wrote its status to
// path before it ended. wait4 does not do: for a child, it includes the parent's memory
// before the exec.
func peakRSS(t *testing.T, path string) int64 {
	t.Helper()
	status, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	require.Fail(t, "no VmHWM", string(status))
	return 0
}
