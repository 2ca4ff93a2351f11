package cdevice_test

import (
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/cdevice"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

func errorOf[T any](_ T, err error) error { return err }

// firstOf returns the first of several errors, or nil if one is nil.
func firstOf(all ...error) error {
	for _, err := range all {
		if err == nil {
			return nil
		}
	}
	return all[0]
}

func TestNilAndZeroValuesReturnErrors(t *testing.T) {
	harmless, panics := apitest.Harmless, apitest.Panics
	cpu := arrowbuf.CPU()
	schema := arrow.NewSchema(nil, nil)
	var (
		cSchema, noSchema            = new(cdevice.Schema), (*cdevice.Schema)(nil)
		cArray, noArray              = new(cdevice.Array), (*cdevice.Array)(nil)
		deviceArray, noDeviceArray   = new(cdevice.DeviceArray), (*cdevice.DeviceArray)(nil)
		stream, noStream             = new(cdevice.Stream), (*cdevice.Stream)(nil)
		deviceStream, noDeviceStream = new(cdevice.DeviceStream), (*cdevice.DeviceStream)(nil)
		reader, noReader             = new(cdevice.Reader), (*cdevice.Reader)(nil)
	)
	apitest.NilSafe(t, ".", map[string]func() error{
		"Array.Release":           func() error { return harmless(func() { noArray.Release(); cArray.Release() }) },
		"Array.Released":          func() error { return harmless(func() { noArray.Released(); cArray.Released() }) },
		"DeviceArray.Device":      func() error { return harmless(func() { noDeviceArray.Device(); deviceArray.Device() }) },
		"DeviceArray.Release":     func() error { return harmless(func() { noDeviceArray.Release(); deviceArray.Release() }) },
		"DeviceArray.Released":    func() error { return harmless(func() { noDeviceArray.Released(); deviceArray.Released() }) },
		"DeviceStream.DeviceType": func() error { return harmless(func() { noDeviceStream.DeviceType(); deviceStream.DeviceType() }) },
		"DeviceStream.Release":    func() error { return harmless(func() { noDeviceStream.Release(); deviceStream.Release() }) },
		"DeviceStream.Released":   func() error { return harmless(func() { noDeviceStream.Released(); deviceStream.Released() }) },
		"ExportArray": func() error {
			return firstOf(cdevice.ExportArray(nil, nil, nil), cdevice.ExportArray(nil, nil, deviceArray), cdevice.ExportArray(nil, cpu, deviceArray))
		},
		"ExportBatch": func() error {
			return firstOf(cdevice.ExportBatch(nil, nil, nil), cdevice.ExportBatch(nil, nil, deviceArray), cdevice.ExportBatch(nil, cpu, deviceArray))
		},
		"ExportCPUArray":  func() error { return firstOf(cdevice.ExportCPUArray(nil, nil), cdevice.ExportCPUArray(nil, cArray)) },
		"ExportCPUBatch":  func() error { return firstOf(cdevice.ExportCPUBatch(nil, nil), cdevice.ExportCPUBatch(nil, cArray)) },
		"ExportCPUStream": func() error { return firstOf(cdevice.ExportCPUStream(nil, nil), cdevice.ExportCPUStream(nil, stream)) },
		"ExportField": func() error {
			return firstOf(cdevice.ExportField(arrow.Field{}, nil), cdevice.ExportField(arrow.Field{}, cSchema))
		},
		"ExportSchema": func() error {
			return firstOf(cdevice.ExportSchema(nil, nil), cdevice.ExportSchema(nil, cSchema), cdevice.ExportSchema(schema, nil))
		},
		"ExportStream": func() error {
			r := arrowbuf.NewReaderFunc(schema, nil, nil)
			defer r.Release()
			return firstOf(cdevice.ExportStream(nil, nil, nil), cdevice.ExportStream(nil, cpu, deviceStream), cdevice.ExportStream(r, nil, deviceStream), cdevice.ExportStream(r, cpu, nil))
		},
		"ImportArray": func() error {
			return firstOf(errorOf(cdevice.ImportArray(nil, nil)), errorOf(cdevice.ImportArray(deviceArray, nil, nil)))
		},
		"ImportBatch": func() error {
			return firstOf(errorOf(cdevice.ImportBatch(nil, nil)), errorOf(cdevice.ImportBatch(deviceArray, nil, nil)))
		},
		"ImportCPUArray": func() error {
			return firstOf(errorOf(cdevice.ImportCPUArray(nil, nil)), errorOf(cdevice.ImportCPUArray(cArray, nil)))
		},
		"ImportCPUBatch": func() error {
			return firstOf(errorOf(cdevice.ImportCPUBatch(nil, nil)), errorOf(cdevice.ImportCPUBatch(cArray, nil)))
		},
		"ImportCPUStream": func() error {
			return firstOf(errorOf(cdevice.ImportCPUStream(nil)), errorOf(cdevice.ImportCPUStream(stream)))
		},
		"ImportField": func() error { return firstOf(errorOf(cdevice.ImportField(nil)), errorOf(cdevice.ImportField(cSchema))) },
		"ImportSchema": func() error {
			return firstOf(errorOf(cdevice.ImportSchema(nil)), errorOf(cdevice.ImportSchema(cSchema)))
		},
		"ImportStream": func() error {
			return firstOf(errorOf(cdevice.ImportStream(nil)), errorOf(cdevice.ImportStream(deviceStream, nil)))
		},
		"Reader.Err":         func() error { return firstOf(noReader.Err(), reader.Err()) },
		"Reader.Next":        func() error { return harmless(func() { noReader.Next(); reader.Next() }) },
		"Reader.Record":      func() error { return harmless(func() { noReader.Record(); reader.Record() }) },
		"Reader.RecordBatch": func() error { return harmless(func() { noReader.RecordBatch(); reader.RecordBatch() }) },
		"Reader.Release": func() error {
			return firstOf(panics(noReader.Release, arrowbuf.ErrReleased), panics(reader.Release, arrowbuf.ErrReleased))
		},
		"Reader.Retain": func() error {
			return firstOf(panics(noReader.Retain, arrowbuf.ErrReleased), panics(new(cdevice.Reader).Retain, arrowbuf.ErrReleased))
		},
		"Reader.Schema":   func() error { return harmless(func() { noReader.Schema(); reader.Schema() }) },
		"Schema.Release":  func() error { return harmless(func() { noSchema.Release(); cSchema.Release() }) },
		"Schema.Released": func() error { return harmless(func() { noSchema.Released(); cSchema.Released() }) },
		"Stream.Release":  func() error { return harmless(func() { noStream.Release(); stream.Release() }) },
		"Stream.Released": func() error { return harmless(func() { noStream.Released(); stream.Released() }) },
	})
}

// Each argument is nil alone, beside live values of the others.
func TestEachNilArgumentReturnsAnError(t *testing.T) {
	cpu := arrowbuf.CPU()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	values := array.MakeArrayOfNull(cpu.HostAllocator(), arrow.PrimitiveTypes.Int8, 1)
	defer values.Release()
	batch := array.NewRecordBatch(schema, []arrow.Array{values}, 1)
	defer batch.Release()
	reader := arrowbuf.NewReaderFunc(schema, func() (arrow.RecordBatch, error) { return nil, io.EOF }, nil)
	defer reader.Release()
	apitest.Zeros{
		Functions: map[string]any{
			"ExportArray": cdevice.ExportArray, "ExportBatch": cdevice.ExportBatch, "ExportCPUArray": cdevice.ExportCPUArray, "ExportCPUBatch": cdevice.ExportCPUBatch,
			"ExportCPUStream": cdevice.ExportCPUStream, "ExportField": cdevice.ExportField, "ExportSchema": cdevice.ExportSchema, "ExportStream": cdevice.ExportStream,
			"ImportArray": cdevice.ImportArray, "ImportBatch": cdevice.ImportBatch, "ImportCPUArray": cdevice.ImportCPUArray, "ImportCPUBatch": cdevice.ImportCPUBatch,
			"ImportCPUStream": cdevice.ImportCPUStream, "ImportField": cdevice.ImportField, "ImportSchema": cdevice.ImportSchema, "ImportStream": cdevice.ImportStream,
		},
		Values: map[string]any{
			"Array": new(cdevice.Array), "DeviceArray": new(cdevice.DeviceArray), "DeviceStream": new(cdevice.DeviceStream), "Schema": new(cdevice.Schema),
			"Stream": new(cdevice.Stream), "Reader": nil,
		},
		Args: []any{cpu, schema, values, batch, reader, arrow.PrimitiveTypes.Int8},
	}.Run(t, ".")
}
