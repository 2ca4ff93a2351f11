package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// BloscShuffle is the transposition of elements before compression.
type BloscShuffle string

// The transpositions of Blosc. BloscAuto, which only numcodecs has, is BloscBits for
// elements of one byte, otherwise BloscBytes. It is the default.
const (
	BloscAuto  BloscShuffle = ""
	BloscNone  BloscShuffle = "noshuffle"
	BloscBytes BloscShuffle = "shuffle"
	BloscBits  BloscShuffle = "bitshuffle"
)

// numcodecsShuffles are the transpositions as numcodecs numbers them, from -1.
var numcodecsShuffles = []BloscShuffle{BloscAuto, BloscNone, BloscBytes, BloscBits}

// Blosc shuffles and compresses into Blosc version 1 chunks (Zarr core 3.1, "blosc
// codec"). A read of a part of a chunk on the host decodes only the blocks that have it.
type Blosc struct {
	// Compressor is the format. Zarr names it as String does.
	Compressor blosc.Compressor
	// Level is 0 (stored) to 9.
	Level int
	// Shuffle is BloscAuto if empty. Zarr v3 requires another value in metadata, which
	// [List.Complete] sets.
	Shuffle BloscShuffle
	// TypeSize is the size of an element in bytes: 0 means that of the elements that
	// the array-to-bytes codec encodes. Zarr v3 requires it in metadata if Shuffle is
	// not BloscNone; List.Complete sets it.
	TypeSize int
	// BlockSize is in bytes; 0 means a suitable one.
	BlockSize int

	numcodecs bool // metadata has the form of numcodecs
}

// Name returns "blosc", or "numcodecs.blosc" for a codec that metadata called so.
func (b Blosc) Name() string {
	if b.numcodecs {
		return numcodecs + "blosc"
	}
	return "blosc"
}

// Configuration returns the fields in the form that belongs to the name.
func (b Blosc) Configuration() any {
	if b.numcodecs {
		_, config := b.v2()
		return config
	}
	m := metajson.Members{{Key: "cname", Value: b.Compressor.String()}, {Key: "clevel", Value: b.Level}}
	if b.Shuffle != BloscAuto {
		m = append(m, metajson.Member{Key: "shuffle", Value: b.Shuffle})
	}
	if b.TypeSize != 0 {
		m = append(m, metajson.Member{Key: "typesize", Value: b.TypeSize})
	}
	return append(m, metajson.Member{Key: "blocksize", Value: b.BlockSize})
}

func (b Blosc) v2() (string, metajson.Members) {
	shuffle := -1
	for i, s := range numcodecsShuffles {
		if s == b.Shuffle {
			shuffle = i - 1
		}
	}
	return "blosc", metajson.Members{
		{Key: "cname", Value: b.Compressor.String()}, {Key: "clevel", Value: b.Level},
		{Key: "shuffle", Value: shuffle}, {Key: "blocksize", Value: b.BlockSize},
	}
}

// parseBlosc tolerates missing keys: their defaults are those of zarr-python.
func parseBlosc(config *metajson.Object) (Codec, error) {
	b := Blosc{Compressor: blosc.Zstd, Level: 5}
	if err := b.parse(config); err != nil {
		return nil, err
	}
	given, err := config.DecodeOptional("shuffle", &b.Shuffle)
	if err == nil && given && b.Shuffle == BloscAuto {
		err = errors.New("shuffle is empty")
	}
	if err != nil {
		return nil, err
	}
	if raw, ok := config.Take("typesize"); ok && string(raw) != "null" { // zarr-python has None
		if err := metajson.Decode("typesize", raw, &b.TypeSize); err != nil {
			return nil, err
		}
		if b.TypeSize < 1 && b.Shuffle != BloscNone {
			return nil, fmt.Errorf("typesize %d is not positive", b.TypeSize)
		}
	}
	return b, b.check()
}

// parseNumcodecsBlosc parses the form of numcodecs and of Zarr v2.
func parseNumcodecsBlosc(config *metajson.Object) (Codec, error) {
	b := Blosc{Compressor: blosc.LZ4, Level: 5, numcodecs: true}
	if err := b.parse(config); err != nil {
		return nil, err
	}
	shuffle := 1
	if _, err := config.DecodeOptional("shuffle", &shuffle); err != nil {
		return nil, err
	}
	if shuffle < -1 || shuffle >= len(numcodecsShuffles)-1 {
		return nil, fmt.Errorf("shuffle %d is not within -1 to 2", shuffle)
	}
	b.Shuffle = numcodecsShuffles[shuffle+1]
	if raw, ok := config.Take("typesize"); ok && string(raw) != "null" {
		if err := json.Unmarshal(raw, &b.TypeSize); err != nil {
			return nil, fmt.Errorf("typesize: %w", err)
		}
	}
	return b, b.check()
}

// parse parses what both forms share.
func (b *Blosc) parse(config *metajson.Object) error {
	var name string
	given, err := config.DecodeOptional("cname", &name)
	if err != nil {
		return err
	}
	if given {
		if b.Compressor, err = blosc.ParseCompressor(name); err != nil {
			return err
		}
	}
	if _, err := config.DecodeOptional("clevel", &b.Level); err != nil {
		return err
	}
	_, err = config.DecodeOptional("blocksize", &b.BlockSize)
	return err
}

func (b Blosc) check() error {
	switch {
	case b.Compressor > blosc.Zstd:
		return fmt.Errorf("blosc: unknown compressor %d", b.Compressor)
	case b.Level < 0 || b.Level > 9:
		return fmt.Errorf("blosc: level %d is not within 0 to 9", b.Level)
	case b.TypeSize < 0 || b.BlockSize < 0:
		return fmt.Errorf("blosc: typesize %d and blocksize %d, want at least 0", b.TypeSize, b.BlockSize)
	}
	for _, s := range numcodecsShuffles {
		if s == b.Shuffle {
			return nil
		}
	}
	return fmt.Errorf("blosc: unknown shuffle %q", b.Shuffle)
}

// forElements returns the codec for bytes that are elements of the given size.
func (b Blosc) forElements(size int64) Blosc {
	if b.TypeSize == 0 {
		b.TypeSize = int(min(max(size, 1), 256))
	}
	if b.Shuffle == BloscAuto && !b.numcodecs {
		b.Shuffle = b.shuffle()
	}
	return b
}

// shuffle returns the transposition that BloscAuto means.
func (b Blosc) shuffle() BloscShuffle {
	switch {
	case b.Shuffle != BloscAuto:
		return b.Shuffle
	case b.TypeSize <= 1:
		return BloscBits
	default:
		return BloscBytes
	}
}

// Encode appends the encoding of src to dst.
func (b Blosc) Encode(dst, src []byte) ([]byte, error) {
	return blosc.EncodeChunk(dst, src, b.options())
}

func (b Blosc) options() blosc.Options {
	o := blosc.Options{Compressor: b.Compressor, Level: b.Level, TypeSize: max(b.TypeSize, 1), BlockSize: b.BlockSize}
	switch b.shuffle() {
	case BloscBits:
		o.Shuffle = blosc.BitShuffle
	case BloscBytes:
		o.Shuffle = blosc.ByteShuffle
	}
	return o
}

// Decode returns the decoding of src: at most limit bytes. As in numcodecs, bytes after the
// chunk are ignored.
func (Blosc) Decode(dst, src []byte, limit int64) ([]byte, error) {
	return blosc.DecodeChunk(dst, bloscChunk(src), limit)
}

// decodeRange decodes the blocks that have bytes of the range.
func (Blosc) decodeRange(dst, src []byte, from, size int64) error {
	return blosc.DecodeRange(dst, bloscChunk(src), from, size)
}

// bloscChunk returns src without the bytes after a chunk.
func bloscChunk(src []byte) []byte {
	if n, err := blosc.ChunkSize(src); err == nil {
		return src[:n]
	}
	return src
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (Blosc) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio returns that of zstd, which is the largest of the formats.
func (Blosc) MaxRatio() int64 { return Zstd{}.MaxRatio() }
