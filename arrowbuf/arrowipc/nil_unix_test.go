//go:build unix

package arrowipc_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
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
	harmless := apitest.Harmless
	cpu, null := arrowbuf.CPU(), []byte(nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{array.MakeArrayOfNull(cpu.HostAllocator(), arrow.PrimitiveTypes.Int8, 1)}, 1)
	metadata, err := arrowipc.EncodeSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	var (
		file, noFile       = new(arrowipc.FileWriter), (*arrowipc.FileWriter)(nil)
		writer, noWriter   = new(arrowipc.Writer), (*arrowipc.Writer)(nil)
		reader, noReader   = new(arrowipc.FileReader), (*arrowipc.FileReader)(nil)
		decoder, noDecoder = new(arrowipc.Decoder), (*arrowipc.Decoder)(nil)
		encoder, noEncoder = new(arrowipc.Encoder), (*arrowipc.Encoder)(nil)
		message, noMessage = new(arrowipc.Message), (*arrowipc.Message)(nil)
	)
	message0, err := arrowipc.EncodeRecordBatch(batch)
	if err != nil {
		t.Fatal(err)
	}
	defer message0.Release()
	emptyList, noEmptyList := new(arrowipc.EmptyListType), (*arrowipc.EmptyListType)(nil)
	apitest.NilSafe(t, ".", map[string]func() error{
		"EmptyListType.ArrayType": func() error { return harmless(func() { noEmptyList.ArrayType() }) },
		"EmptyListType.Deserialize": func() error {
			return firstOf(errorOf(noEmptyList.Deserialize(nil, "")), errorOf(emptyList.Deserialize(nil, "")))
		},
		"EmptyListType.ElemField": func() error { return harmless(func() { noEmptyList.ElemField(); emptyList.ElemField() }) },
		"EmptyListType.ExtensionEquals": func() error {
			return harmless(func() { noEmptyList.ExtensionEquals(nil); emptyList.ExtensionEquals(noEmptyList) })
		},
		"EmptyListType.ExtensionName": func() error { return harmless(func() { noEmptyList.ExtensionName() }) },
		"EmptyListType.Serialize":     func() error { return harmless(func() { noEmptyList.Serialize() }) },
		"EmptyListType.String":        func() error { return harmless(func() { _, _ = noEmptyList.String(), emptyList.String() }) },
		"NewEmptyListType":            func() error { return errorOf(arrowipc.NewEmptyListType(arrow.Field{})) },
		"CurrentMetadata":             func() error { return errorOf(arrowipc.CurrentMetadata(nil)) },
		"DecodeRecordBatch": func() error {
			return firstOf(errorOf(arrowipc.DecodeRecordBatch(nil, nil, nil, nil)), errorOf(arrowipc.DecodeRecordBatch(nil, schema, nil, cpu)))
		},
		"Decoder.Decode": func() error {
			return firstOf(errorOf(noDecoder.Decode(nil, nil)), errorOf(decoder.Decode(metadata, nil)), errorOf(decoder.Decode(message0.Metadata, nil)))
		},
		"Decoder.Release": func() error { return harmless(func() { noDecoder.Release(); decoder.Release() }) },
		"Decoder.Schema":  func() error { return harmless(func() { noDecoder.Schema(); decoder.Schema() }) },
		"EncodeRecordBatch": func() error {
			return firstOf(errorOf(arrowipc.EncodeRecordBatch(nil)), errorOf(arrowipc.EncodeRecordBatch(batch, nil)))
		},
		"EncodeSchema": func() error { return errorOf(arrowipc.EncodeSchema(nil)) },
		"Encoder.Encode": func() error {
			return firstOf(errorOf(noEncoder.Encode(nil)), errorOf(encoder.Encode(nil)), errorOf(encoder.Encode(batch)))
		},
		"Encoder.Release":          func() error { return harmless(func() { noEncoder.Release(); encoder.Release() }) },
		"Encoder.Schema":           func() error { return harmless(func() { noEncoder.Schema(); encoder.Schema() }) },
		"FileReader.NumBatches":    func() error { return harmless(func() { noReader.NumBatches(); reader.NumBatches() }) },
		"FileReader.RecordBatchAt": func() error { return firstOf(errorOf(noReader.RecordBatchAt(0)), errorOf(reader.RecordBatchAt(0))) },
		"FileWriter.Close":         func() error { return firstOf(noFile.Close(), file.Close()) },
		"FileWriter.Write":         func() error { return firstOf(noFile.Write(nil), file.Write(nil), file.Write(batch)) },
		"Inspect":                  func() error { return errorOf(arrowipc.Inspect(null)) },
		"MapFile": func() error {
			return firstOf(errorOf(arrowipc.MapFile("", nil)), errorOf(arrowipc.MapFile("nil_unix_test.go", nil)))
		},
		"Message.Parts":   func() error { return harmless(func() { _, _ = noMessage.Parts(); _, _ = message.Parts() }) },
		"Message.Release": func() error { return harmless(func() { noMessage.Release(); message.Release() }) },
		"Message.Type":    func() error { return harmless(func() { noMessage.Type(); message.Type() }) },
		"NewBufferReader": func() error {
			r := arrowipc.NewBufferReader(nil)
			return firstOf(errorOf(r.Read(make([]byte, 1))), errorOf(r.NextBuffer(1)))
		},
		"NewBufferWriter": func() error {
			w := arrowipc.NewBufferWriter(nil)
			return firstOf(errorOf(w.Write(make([]byte, 1))), errorOf(w.NextBuffer(1)))
		},
		"NewDecoder": func() error {
			return firstOf(errorOf(arrowipc.NewDecoder(nil, nil)), errorOf(arrowipc.NewDecoder(nil, cpu)))
		},
		"NewEncoder": func() error {
			return firstOf(errorOf(arrowipc.NewEncoder(nil)), errorOf(arrowipc.NewEncoder(schema, nil)))
		},
		"NewFileReader": func() error {
			return firstOf(errorOf(arrowipc.NewFileReader(nil, 100, cpu)), errorOf(arrowipc.NewFileReader(bytes.NewReader(nil), 0, nil)))
		},
		"NewFileReaderFromBuffer": func() error { return errorOf(arrowipc.NewFileReaderFromBuffer(nil, cpu)) },
		"NewFileWriter": func() error {
			return firstOf(errorOf(arrowipc.NewFileWriter(nil, schema)), errorOf(arrowipc.NewFileWriter(io.Discard, nil)))
		},
		"NewReader": func() error {
			return firstOf(errorOf(arrowipc.NewReader(nil, cpu)), errorOf(arrowipc.NewReader(bytes.NewReader(nil), nil)))
		},
		"NewWriter": func() error {
			return firstOf(errorOf(arrowipc.NewWriter(nil, schema)), errorOf(arrowipc.NewWriter(io.Discard, nil)))
		},
		"Parts.Len":     func() error { return harmless(func() { arrowipc.Parts(nil).Len(); arrowipc.Parts{{}}.Len() }) },
		"Parts.Release": func() error { return harmless(func() { arrowipc.Parts(nil).Release(); arrowipc.Parts{{}}.Release() }) },
		"Parts.Slice": func() error {
			return firstOf(errorOf(arrowipc.Parts(nil).Slice(0, 1)), errorOf(arrowipc.Parts{{}}.Slice(0, 1)))
		},
		"ReadMessage": func() error {
			_, _, first := arrowipc.ReadMessage(nil, cpu)
			_, _, second := arrowipc.ReadMessage(bytes.NewReader(null), nil)
			return firstOf(first, second)
		},
		"ReadMetadata":    func() error { return errorOf(arrowipc.ReadMetadata(nil)) },
		"ReadRecordBatch": func() error { return errorOf(arrowipc.ReadRecordBatch(nil, nil)) },
		"SerializeRecordBatch": func() error {
			return firstOf(errorOf(arrowipc.SerializeRecordBatch(nil, cpu)), errorOf(arrowipc.SerializeRecordBatch(batch, nil)))
		},
		"ValidateFile": func() error {
			return firstOf(errorOf(arrowipc.ValidateFile(nil, 0, 1, nil)), errorOf(arrowipc.ValidateFile(nil, 100, 1, nil)))
		},
		"WithCodec":           func() error { return errorOf(arrowipc.NewEncoder(schema, arrowipc.WithCodec(99))) },
		"WithDeltas":          func() error { return harmless(func() { _ = arrowipc.WithDeltas() }) },
		"WithMinSpaceSavings": func() error { return errorOf(arrowipc.NewEncoder(schema, arrowipc.WithMinSpaceSavings(-1))) },
		"Writer.Close":        func() error { return firstOf(noWriter.Close(), writer.Close()) },
		"Writer.Write":        func() error { return firstOf(noWriter.Write(nil), writer.Write(nil), writer.Write(batch)) },
	})
}

// Each argument is nil alone, beside live values of the others.
func TestEachNilArgumentReturnsAnError(t *testing.T) {
	cpu := arrowbuf.CPU()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{array.MakeArrayOfNull(cpu.HostAllocator(), arrow.PrimitiveTypes.Int8, 1)}, 1)
	defer batch.Release()
	var stream bytes.Buffer
	fileWriter, err := arrowipc.NewFileWriter(&stream, schema)
	require.NoError(t, err)
	require.NoError(t, fileWriter.Write(batch))
	writer, err := arrowipc.NewWriter(io.Discard, schema)
	require.NoError(t, err)
	encoder, err := arrowipc.NewEncoder(schema)
	require.NoError(t, err)
	defer encoder.Release()
	metadata, err := arrowipc.EncodeSchema(schema)
	require.NoError(t, err)
	decoder, err := arrowipc.NewDecoder(metadata, cpu)
	require.NoError(t, err)
	defer decoder.Release()
	message, err := arrowipc.EncodeRecordBatch(batch)
	require.NoError(t, err)
	defer message.Release()
	serialized, err := arrowipc.SerializeRecordBatch(batch, cpu)
	require.NoError(t, err)
	defer serialized.Release()
	emptyList, err := arrowipc.NewEmptyListType(schema.Field(0))
	require.NoError(t, err)
	apitest.Zeros{
		Functions: map[string]any{
			"CurrentMetadata": arrowipc.CurrentMetadata, "DecodeRecordBatch": arrowipc.DecodeRecordBatch, "EncodeRecordBatch": arrowipc.EncodeRecordBatch, "EncodeSchema": arrowipc.EncodeSchema,
			"NewEmptyListType": arrowipc.NewEmptyListType, "Inspect": arrowipc.Inspect, "MapFile": arrowipc.MapFile, "NewBufferReader": arrowipc.NewBufferReader, "NewBufferWriter": arrowipc.NewBufferWriter,
			"NewDecoder": arrowipc.NewDecoder, "NewEncoder": arrowipc.NewEncoder, "NewFileReader": arrowipc.NewFileReader,
			"NewFileReaderFromBuffer": arrowipc.NewFileReaderFromBuffer, "NewFileWriter": arrowipc.NewFileWriter, "NewReader": arrowipc.NewReader,
			"NewWriter": arrowipc.NewWriter, "ReadMessage": arrowipc.ReadMessage, "ReadMetadata": arrowipc.ReadMetadata, "ReadRecordBatch": arrowipc.ReadRecordBatch,
			"SerializeRecordBatch": arrowipc.SerializeRecordBatch, "ValidateFile": arrowipc.ValidateFile, "WithCodec": arrowipc.WithCodec, "WithDeltas": nil,
			"WithMinSpaceSavings": arrowipc.WithMinSpaceSavings,
		},
		Values: map[string]any{
			"Decoder": decoder, "EmptyListType": emptyList, "Encoder": encoder, "FileReader": nil, "FileWriter": fileWriter, "Message": message, "Parts": arrowipc.Parts(nil), "Writer": writer,
		},
		Args: []any{cpu, schema, batch, serialized, message.Metadata, bytes.NewReader(stream.Bytes()), int64(stream.Len()), "nil_unix_test.go"},
		Skip: []string{"Release", "Close"},
	}.Run(t, ".")
}
