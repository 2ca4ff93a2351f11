package lz4_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/lz4"
)

// encoder returns the encoder with some options.
func encoder(o quiver.EncodeOptions) batchtest.Function {
	return func(b compress.Batch) ([]compress.Result, error) { return quiver.Encode(b, o) }
}

var format = batchtest.Format{
	Name: "lz4.Encode", Bound: quiver.Bound, MaxSize: quiver.MaxSize, Encode: encoder(quiver.EncodeOptions{}), Decode: decodeBatch,
	DecodeOnHost: func(in []byte, n int) ([]byte, error) {
		out := make([]byte, n)
		return out, quiver.DecodeBlock(out, in)
	},
}

// encode encodes a batch of inputs at odd places of one buffer.
func encode(t *testing.T, dev arrowbuf.Device, inputs [][]byte, o quiver.EncodeOptions) ([][]byte, []compress.Result) {
	t.Helper()
	return format.Run(t, dev, encoder(o), inputs, nil)
}

func TestEncodedBatchesDecode(t *testing.T) {
	format.DecodesWhatItEncodes(t, map[string]batchtest.Function{
		"default":    format.Encode,
		"fast":       encoder(quiver.EncodeOptions{Acceleration: 5, Scratch: 1}),
		"some steps": encoder(quiver.EncodeOptions{Scratch: 1 << 20}),
	}, 0, 1, 4, 5, 11, 12, 13, 14, 20, 100, 3000, 65_535, 65_536, 65_537, 131_073, 300_000)
}

func TestOnlyAnInputWhoseOutputIsTooSmallFails(t *testing.T) { format.FailsOnlyWithoutRoom(t) }

func TestEncodeChecksItsArguments(t *testing.T) { format.ChecksBatches(t) }

func TestDevicesEncodeTheSameBytes(t *testing.T) {
	format.EncodesTheSameOnAllDevices(t, format.Encode, encoder(quiver.EncodeOptions{Scratch: 1 << 20}))
}

func TestBatchesOfManyAndOfHugeInputsEncode(t *testing.T) { format.EncodesManyAndHugeInputs(t) }

func FuzzEncode(f *testing.F) { format.FuzzEncode(f) }
