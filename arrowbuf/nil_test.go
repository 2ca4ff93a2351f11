package arrowbuf_test

import (
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

func errorOf[T any](_ T, err error) error { return err }

func TestNilAndZeroValuesReturnErrors(t *testing.T) {
	cpu := arrowbuf.CPU()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	harmless, panics := apitest.Harmless, apitest.Panics
	calls := map[string]func() error{
		"As":                func() error { return harmless(func() { arrowbuf.As[arrowbuf.Device](nil) }) },
		"BitwiseEqual":      func() error { return harmless(func() { arrowbuf.BitwiseEqual(nil, nil) }) },
		"BufferOf":          func() error { return errorOf(arrowbuf.BufferOf(nil)) },
		"CPU":               func() error { return harmless(func() { arrowbuf.CPU() }) },
		"CatchHostAccess":   func() error { return arrowbuf.CatchHostAccess(nil, func() error { return nil }) },
		"CheckHost":         func() error { return arrowbuf.CheckHost(nil) },
		"CheckHostMemory":   func() error { return arrowbuf.CheckHostMemory(-1) },
		"CheckRange":        func() error { return arrowbuf.CheckRange(0, 1, 0) },
		"CopyArrayTo":       func() error { return errorOf(arrowbuf.CopyArrayTo(nil, cpu)) },
		"CopyBufferToHost":  func() error { return errorOf(arrowbuf.CopyBufferToHost(nil, cpu.HostAllocator())) },
		"CopyChunkedTo":     func() error { return errorOf(arrowbuf.CopyChunkedTo(nil, cpu)) },
		"CopyTableTo":       func() error { return errorOf(arrowbuf.CopyTableTo(nil, cpu)) },
		"CopyTo":            func() error { return errorOf(arrowbuf.CopyTo(nil, cpu)) },
		"DeviceOf":          func() error { return harmless(func() { arrowbuf.DeviceOf(nil) }) },
		"DeviceType.String": func() error { return harmless(func() { _ = arrowbuf.DeviceType(0).String() }) },
		"FromArrow":         func() error { return harmless(func() { arrowbuf.FromArrow(nil) }) },
		"HostBytes":         func() error { return harmless(func() { arrowbuf.HostBytes(nil) }) },
		"MapReader":         func() error { return errorOf(arrowbuf.MapReader(nil, nil)) },
		"NewArray":          func() error { return panics(func() { arrowbuf.NewArray(nil) }, arrow.ErrInvalid) },
		"NewArrayOn":        func() error { return panics(func() { arrowbuf.NewArrayOn(nil, nil) }, arrow.ErrInvalid) },
		"NewChunkedSlice":   func() error { return panics(func() { arrowbuf.NewChunkedSlice(nil, 0, 0) }, arrow.ErrInvalid) },
		"NewReader":         func() error { return errorOf(arrowbuf.NewReader(nil, cpu)) },
		"NewReaderFunc":     func() error { return readAll(arrowbuf.NewReaderFunc(nil, nil, nil)) },
		"NewRecordBatch":    func() error { return errorOf(arrowbuf.NewRecordBatch(nil, nil, 0)) },
		"NewSlice":          func() error { return panics(func() { arrowbuf.NewSlice(nil, 0, 0) }, arrow.ErrInvalid) },
		"NewTableReader":    func() error { return readAll(arrowbuf.NewTableReader(nil, 0)) },
		"OnHost":            func() error { return harmless(func() { arrowbuf.OnHost(nil) }) },
		"SliceFrom":         func() error { return errorOf(arrowbuf.SliceFrom(nil, 0)) },
		"ToHost":            func() error { return errorOf(arrowbuf.ToHost(nil)) },
		"WithReader":        func() error { return errorOf(arrowbuf.CopyTo(emptyBatch(schema), cpu, arrowbuf.WithReader(nil, 0))) },
		"WithStream":        func() error { return errorOf(arrowbuf.CopyTo(emptyBatch(schema), cpu, arrowbuf.WithStream(nil))) },
		"WithSeparateAllocations": func() error {
			return errorOf(arrowbuf.CopyTo(nil, cpu, arrowbuf.WithSeparateAllocations()))
		},
		"WrapArrow":    func() error { return harmless(func() { arrowbuf.WrapArrow(nil) }) },
		"WrapExternal": func() error { return harmless(func() { arrowbuf.WrapExternal(nil, nil).Release() }) },
		"WrapHost":     func() error { return errorOf(arrowbuf.WrapHost(nil)) },
		"NewRecordBatchWithMetadata": func() error {
			return errorOf(arrowbuf.NewRecordBatchWithMetadata(schema, []arrow.Array{nil}, 0, arrow.Metadata{}))
		},
	}
	ofNil := callsOfArray(nil)
	for name, call := range callsOfArray(new(arrowbuf.Array)) {
		calls["Array."+name] = both(call, ofNil[name])
	}
	ofNil = callsOfBatch(nil)
	for name, call := range callsOfBatch(new(arrowbuf.RecordBatch)) {
		calls["RecordBatch."+name] = both(call, ofNil[name])
	}
	apitest.NilSafe(t, ".", calls)
}

// both returns a call that fails if one of two calls does.
func both(first, second func() error) func() error {
	return func() error {
		if err := first(); err == nil {
			return nil
		}
		return second()
	}
}

// callsOfArray calls each method of a zero or nil array.
func callsOfArray(a *arrowbuf.Array) map[string]func() error {
	harmless, panics := apitest.Harmless, apitest.Panics
	return map[string]func() error{
		"Data":             func() error { return harmless(func() { a.Data().Len() }) },
		"DataType":         func() error { return harmless(func() { _ = a.DataType().String() }) },
		"Device":           func() error { return harmless(func() { _ = a.Device().String() }) },
		"GetOneForMarshal": func() error { return panics(func() { a.GetOneForMarshal(0) }, arrowbuf.ErrOutOfRange) },
		"IsNull":           func() error { return harmless(func() { a.IsNull(0) }) },
		"IsValid":          func() error { return harmless(func() { a.IsValid(0) }) },
		"Len":              func() error { return harmless(func() { a.Len() }) },
		"MarshalJSON":      func() error { return harmless(func() { _, _ = a.MarshalJSON() }) },
		"NullBitmapBytes":  func() error { return harmless(func() { a.NullBitmapBytes() }) },
		"NullN":            func() error { return harmless(func() { a.NullN() }) },
		"Release":          func() error { return panics(a.Release, arrowbuf.ErrReleased) },
		"Retain":           func() error { return panics(a.Retain, arrowbuf.ErrReleased) },
		"Slice":            func() error { return panics(func() { a.Slice(0, 1) }, arrowbuf.ErrOutOfRange) },
		"String":           func() error { return harmless(func() { _ = a.String() }) },
		"Validate":         func() error { return a.Validate() },
		"ValidateFull":     func() error { return a.ValidateFull() },
		"ValueStr":         func() error { return panics(func() { a.ValueStr(0) }, arrowbuf.ErrOutOfRange) },
	}
}

// callsOfBatch calls each method of a zero or nil batch.
func callsOfBatch(b *arrowbuf.RecordBatch) map[string]func() error {
	harmless, panics := apitest.Harmless, apitest.Panics
	return map[string]func() error{
		"Column":       func() error { return panics(func() { b.Column(0) }, arrowbuf.ErrOutOfRange) },
		"ColumnName":   func() error { return panics(func() { b.ColumnName(0) }, arrowbuf.ErrOutOfRange) },
		"Columns":      func() error { return harmless(func() { b.Columns() }) },
		"MarshalJSON":  func() error { return harmless(func() { _, _ = b.MarshalJSON() }) },
		"Metadata":     func() error { return harmless(func() { b.Metadata() }) },
		"NewSlice":     func() error { return panics(func() { b.NewSlice(0, 1) }, arrowbuf.ErrOutOfRange) },
		"NumCols":      func() error { return harmless(func() { b.NumCols() }) },
		"NumRows":      func() error { return harmless(func() { b.NumRows() }) },
		"Release":      func() error { return panics(b.Release, arrowbuf.ErrReleased) },
		"Retain":       func() error { return panics(b.Retain, arrowbuf.ErrReleased) },
		"Schema":       func() error { return harmless(func() { _ = b.Schema().String() }) },
		"SetColumn":    func() error { return errorOf(b.SetColumn(0, nil)) },
		"String":       func() error { return harmless(func() { _ = b.String() }) },
		"Validate":     func() error { return b.Validate() },
		"ValidateFull": func() error { return b.ValidateFull() },
	}
}

func emptyBatch(schema *arrow.Schema) arrow.RecordBatch {
	return array.NewRecordBatch(schema, []arrow.Array{array.MakeArrayOfNull(arrowbuf.CPU().HostAllocator(), arrow.PrimitiveTypes.Int8, 0)}, 0)
}

// readAll reads to the end, and returns the reader's error.
func readAll(r array.RecordReader) error {
	defer r.Release()
	_ = r.Schema().String()
	for r.Next() {
		_ = r.RecordBatch()
	}
	return r.Err()
}

// Each argument is nil alone, beside live values of the others.
func TestEachNilArgumentReturnsAnError(t *testing.T) {
	cpu := arrowbuf.CPU()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	batch, err := arrowbuf.CopyTo(emptyBatch(schema), cpu)
	require.NoError(t, err)
	t.Cleanup(batch.Release)
	values, err := arrowbuf.CopyArrayTo(batch.Column(0), cpu)
	require.NoError(t, err)
	t.Cleanup(values.Release)
	buffer, err := cpu.Alloc(8)
	require.NoError(t, err)
	t.Cleanup(buffer.Release)
	table := array.NewTableFromRecords(schema, []arrow.RecordBatch{batch})
	t.Cleanup(table.Release)
	chunked := arrow.NewChunked(arrow.PrimitiveTypes.Int8, []arrow.Array{values})
	t.Cleanup(chunked.Release)
	reader := arrowbuf.NewReaderFunc(schema, func() (arrow.RecordBatch, error) { return nil, io.EOF }, nil)
	t.Cleanup(reader.Release)
	apitest.Zeros{
		Functions: map[string]any{
			"As": arrowbuf.As[arrowbuf.Device], "BitwiseEqual": arrowbuf.BitwiseEqual, "BufferOf": arrowbuf.BufferOf, "CPU": nil,
			"CatchHostAccess": arrowbuf.CatchHostAccess, "CheckHost": arrowbuf.CheckHost, "CheckHostMemory": arrowbuf.CheckHostMemory,
			"CheckRange": arrowbuf.CheckRange, "CopyArrayTo": arrowbuf.CopyArrayTo, "CopyBufferToHost": arrowbuf.CopyBufferToHost,
			"CopyChunkedTo": arrowbuf.CopyChunkedTo, "CopyTableTo": arrowbuf.CopyTableTo, "CopyTo": arrowbuf.CopyTo, "DeviceOf": arrowbuf.DeviceOf,
			"FromArrow": arrowbuf.FromArrow, "HostBytes": arrowbuf.HostBytes, "MapReader": arrowbuf.MapReader, "NewArray": arrowbuf.NewArray,
			"NewArrayOn": arrowbuf.NewArrayOn, "NewChunkedSlice": arrowbuf.NewChunkedSlice, "NewReader": arrowbuf.NewReader, "NewReaderFunc": arrowbuf.NewReaderFunc,
			"NewRecordBatch": arrowbuf.NewRecordBatch, "NewRecordBatchWithMetadata": arrowbuf.NewRecordBatchWithMetadata, "NewSlice": arrowbuf.NewSlice,
			"NewTableReader": arrowbuf.NewTableReader, "OnHost": arrowbuf.OnHost, "SliceFrom": arrowbuf.SliceFrom, "ToHost": arrowbuf.ToHost,
			"WithReader": arrowbuf.WithReader, "WithSeparateAllocations": nil, "WithStream": arrowbuf.WithStream, "WrapArrow": arrowbuf.WrapArrow, "WrapExternal": arrowbuf.WrapExternal, "WrapHost": arrowbuf.WrapHost,
		},
		Values: map[string]any{"Array": nil, "RecordBatch": nil, "DeviceType": arrowbuf.DeviceCPU}, // TestNilAndZeroValuesReturnErrors
		Args:   []any{cpu, batch, values, values.Data(), buffer, buffer.Arrow(), table, chunked, reader, schema, cpu.HostAllocator()},
		Panics: arrow.ErrInvalid,
	}.Run(t, ".")
}
