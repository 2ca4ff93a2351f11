// Command parquet adds a column to a Parquet file: the speed of each flight, computed in
// the memory of a device.
//
//	go run ./examples/parquet auto testdata/flights.parquet fast.parquet
//
// DEVICE is a name of cudabuf.OpenDevice, such as auto, cpu or cuda:0.
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: parquet DEVICE INPUT OUTPUT")
	}
	if err := convert(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

// speed is in kilometres per hour, from miles and minutes. It is null where one of them is.
var speed = columns.Divide(columns.Multiply(columns.Field("distance"), 1.609344*60), columns.Field("air_time"))

// convert writes the flights of input, with their speeds, to output.
func convert(ctx context.Context, deviceName, input, output string) error {
	device, err := cudabuf.OpenDevice(deviceName)
	if err != nil {
		return err
	}
	source, err := file.OpenParquetFile(input, false)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	// Memory of this allocator is copied to the device fastest.
	parquet, err := pqarrow.NewFileReader(source, pqarrow.ArrowReadProperties{BatchSize: 1 << 17}, device.HostAllocator())
	if err != nil {
		return err
	}
	flights, err := parquet.GetRecordReader(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer flights.Release()
	fast, err := arrowbuf.MapReader(flights, func(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
		moved, err := arrowbuf.CopyTo(batch, device)
		if err != nil {
			return nil, err
		}
		defer moved.Release()
		result, err := columns.With(moved, "speed", speed) // computed on the device
		if err != nil {
			return nil, err
		}
		defer result.Release()
		return arrowbuf.ToHost(result)
	})
	if err != nil {
		return err
	}
	defer fast.Release()
	return write(fast, output)
}

func write(batches array.RecordReader, output string) error {
	target, err := os.Create(output)
	if err != nil {
		return err
	}
	w, err := pqarrow.NewFileWriter(batches.Schema(), target, nil, pqarrow.DefaultWriterProps())
	for err == nil && batches.Next() {
		err = w.Write(batches.RecordBatch())
	}
	if err = errors.Join(err, batches.Err()); err == nil {
		return w.Close() // closes the file too
	}
	return errors.Join(err, target.Close(), os.Remove(output))
}
