package zstd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/zstd"
)

// encoder returns the encoder with some options.
func encoder(o quiver.EncodeOptions) batchtest.Function {
	return func(b compress.Batch) ([]compress.Result, error) { return quiver.Encode(b, o) }
}

var format = batchtest.Format{
	Name: "zstd.Encode", Bound: quiver.Bound, MaxSize: compress.MaxSize, Encode: encoder(quiver.EncodeOptions{}),
	Decode:       func(b compress.Batch) ([]compress.Result, error) { return quiver.Decode(b, compress.DecodeOptions{}) },
	DecodeOnHost: func(in []byte, n int) ([]byte, error) { return quiver.DecodeFrames(nil, in, int64(n)) },
}

// encode encodes a batch of inputs at odd places of one buffer.
func encode(t *testing.T, dev arrowbuf.Device, inputs [][]byte, o quiver.EncodeOptions) ([][]byte, []compress.Result) {
	t.Helper()
	return format.Run(t, dev, encoder(o), inputs, nil)
}

func TestEncodedBatchesDecode(t *testing.T) {
	most := 300_000
	if testing.Short() {
		most = 140_000
	}
	encoders := map[string]batchtest.Function{}
	for _, o := range []quiver.EncodeOptions{{}, {Level: 1, Checksum: true}, {Level: -5, Scratch: 1}, {Level: 9, Scratch: 1 << 20}} {
		encoders[fmt.Sprintf("level %d", o.Level)] = encoder(o)
	}
	format.DecodesWhatItEncodes(t, encoders, 0, 1, 2, 7, 8, 9, 100, 255, 256, 257, 3000, 65_535, 65_536, 65_537, 131_073, most)
}

func TestOnlyAnInputWhoseOutputIsTooSmallFails(t *testing.T) { format.FailsOnlyWithoutRoom(t) }

func TestEncodeChecksItsArguments(t *testing.T) {
	format.ChecksBatches(t)
	_, err := quiver.Encode(compress.Batch{}, quiver.EncodeOptions{Level: 23})
	require.ErrorContains(t, err, "level 23")
}

func TestDevicesEncodeTheSameBytes(t *testing.T) {
	for _, level := range []int{0, 1} {
		format.EncodesTheSameOnAllDevices(t, encoder(quiver.EncodeOptions{Level: level}), encoder(quiver.EncodeOptions{Level: level, Scratch: 1 << 20}))
	}
}

func TestBatchesOfManyAndOfHugeInputsEncode(t *testing.T) { format.EncodesManyAndHugeInputs(t) }

func FuzzEncode(f *testing.F) { format.FuzzEncode(f) }
