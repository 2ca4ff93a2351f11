package arrowzarr_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// An Arrow file is converted to Zarr, and one column is read.
func ExampleConvert() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	input, output := filepath.Join(dir, "weather.arrow"), filepath.Join(dir, "weather.zarr")
	if err := writeWeather(input); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	report, err := arrowzarr.Convert(ctx, input, output, arrowzarr.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Rows, "rows,", report.Columns, "columns from an", report.Format)

	group, err := zarr.OpenGroup(ctx, store.NewLocal(output), "")
	if err != nil {
		log.Fatal(err)
	}
	temp, err := group.OpenArray(ctx, "temp")
	if err != nil {
		log.Fatal(err)
	}
	values, err := temp.Read(ctx, zarr.Prototype{}, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer values.Release()
	degrees, err := ndview.ToHost[float32](values.(*ndview.NDBuffer))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("temp", degrees)

	// Output:
	// 3 rows, 2 columns from an Arrow IPC file
	// temp [21.5 23 18.25]
}

// The options select columns, chunks, shards and a codec. Progress can be read from any
// goroutine while the conversion runs.
func ExampleConvert_options() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	input, output := filepath.Join(dir, "weather.arrow"), filepath.Join(dir, "weather.zarr")
	if err := writeWeather(input); err != nil {
		log.Fatal(err)
	}

	progress := &arrowzarr.Progress{}
	_, err = arrowzarr.Convert(context.Background(), input, output, arrowzarr.Options{
		Columns:   []string{"temp"},
		Codec:     arrowzarr.Codec{Name: "gzip", Level: 6},
		ChunkRows: 2,
		ShardRows: 4,
		Progress:  progress,
	})
	if err != nil {
		log.Fatal(err)
	}
	rows, _ := progress.Rows()
	fmt.Println(rows, "rows")

	found, err := arrowzarr.Inspect(context.Background(), output, arrowzarr.InspectOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range found.Columns {
		fmt.Println(c.Name, c.Type, c.Shape, "chunks", c.Chunks, "shards", c.Shards, c.Codecs)
	}
	// Output:
	// 3 rows
	// _index int64 [3] chunks [3] shards [] [bytes blosc]
	// temp float32 [3] chunks [2] shards [4] [bytes gzip]
}

// Any rows of a finished table are read as a record batch. Only the chunks that have them
// are decoded.
func ExampleOpenTable() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	input, output := filepath.Join(dir, "weather.arrow"), filepath.Join(dir, "weather.zarr")
	if err := writeWeather(input); err != nil {
		log.Fatal(err)
	}
	if _, err := arrowzarr.Convert(ctx, input, output, arrowzarr.Options{}); err != nil {
		log.Fatal(err)
	}

	table, err := arrowzarr.OpenTable(ctx, output, arrowzarr.TableOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	fmt.Println(table.NumRows(), "rows")
	batch, err := table.Read(ctx, 1, 3, "station")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.Column(0))
	batch.Release()

	reader, err := table.Reader(ctx, 0, table.NumRows())
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Release()
	for reader.Next() {
		fmt.Println(reader.RecordBatch().NumRows(), reader.RecordBatch().Column(1))
	}
	if err := reader.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 rows
	// ["JFK" "LGA"]
	// 3 [21.5 23 18.25]
}

// writeWeather writes a table of two columns.
func writeWeather(path string) error {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "station", Type: arrow.BinaryTypes.String},
		{Name: "temp", Type: arrow.PrimitiveTypes.Float32},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"EWR", "JFK", "LGA"}, nil)
	b.Field(1).(*array.Float32Builder).AppendValues([]float32{21.5, 23, 18.25}, nil)
	batch := b.NewRecordBatch()
	defer batch.Release()

	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w, err := ipc.NewFileWriter(file, ipc.WithSchema(schema))
	if err != nil {
		return err
	}
	if err := w.Write(batch); err != nil {
		return err
	}
	return w.Close()
}
