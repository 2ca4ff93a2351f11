package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// parser parses the configuration of a codec. The caller rejects keys that remain in
// config. depth is the number of shards around the codec.
type parser func(config *metajson.Object, depth int) (Codec, error)

// registry holds the codecs that [Register] adds.
var registry = struct {
	sync.RWMutex
	parsers map[string]parser
}{parsers: map[string]parser{}}

// Register makes the codec of the given name available in metadata. parse gets the
// configuration: a JSON object, which is {} if absent. It returns an [ArrayCodec], an
// [ArrayBytesCodec] or a [BytesCodec]. It must be safe for concurrent use, and must
// reject unknown keys. A codec with several names is registered under each of them.
//
// Register returns an error if the name is empty or taken.
func Register(name string, parse func(configuration json.RawMessage) (Codec, error)) error {
	if name == "" || parse == nil {
		return fmt.Errorf("codec.Register: empty name or nil function for codec %q", name)
	}
	registry.Lock()
	defer registry.Unlock()
	if _, taken := lookup(name); taken {
		return fmt.Errorf("codec.Register: the name %q is taken", name)
	}
	registry.parsers[name] = func(config *metajson.Object, _ int) (Codec, error) {
		raw, err := config.TakeAll()
		if err != nil {
			return nil, err
		}
		c, err := parse(raw)
		if err != nil {
			return nil, err
		}
		return c, checkKind(c)
	}
	return nil
}

// lookup returns the parser of a codec. The caller holds a lock of the registry.
func lookup(name string) (parser, bool) {
	if parse, ok := builtins[name]; ok {
		return parse, true
	}
	parse, ok := registry.parsers[name]
	return parse, ok
}

// checkKind returns an error unless c is a codec of a known kind.
func checkKind(c Codec) error {
	switch c.(type) {
	case nil:
		return errors.New("codec is nil")
	case ArrayCodec, chunkCodec, ArrayBytesCodec, BytesCodec:
		return nil
	}
	return fmt.Errorf("codec %q is %T, want an ArrayCodec, ArrayBytesCodec or BytesCodec", c.Name(), c)
}

func parseCodec(ext metajson.Extension, depth int) (Codec, error) {
	registry.RLock()
	parse, ok := lookup(ext.Name)
	registry.RUnlock()
	if why, known := refused[strings.TrimPrefix(ext.Name, numcodecs)]; known && !ok {
		return nil, fmt.Errorf("codec %q %s: %w", ext.Name, why, errors.ErrUnsupported)
	}
	if !ok {
		return nil, fmt.Errorf("codec %q: %w", ext.Name, errors.ErrUnsupported)
	}
	if id, of := strings.CutPrefix(ext.Name, numcodecs); of { // zarr-python also reads the form of Zarr v2
		var given string
		if ok, err := ext.Config.DecodeOptional("id", &given); err != nil || ok && given != id {
			return nil, fmt.Errorf("codec %q with id %q: %w", ext.Name, given, errors.Join(err, errors.ErrUnsupported))
		}
		ext.Config.DropNulls() // None is the default in Python
	}
	c, err := parse(ext.Config, depth)
	if err != nil {
		return nil, fmt.Errorf("codec %q: %w", ext.Name, err)
	}
	return c, ext.Config.CheckEmpty()
}

// builtins are the codecs of this package by name. It is never modified.
var builtins map[string]parser

// Parsers of shards parse codec lists, which an initializer cannot express.
func init() {
	builtins = map[string]parser{
		"bitround":         withConfig(parseBitRound),
		"blosc":            withConfig(parseBlosc),
		"bytes":            withConfig(parseBytes),
		"cast_value":       withConfig(parseCastValue),
		"crc32c":           constant(CRC32C{}),
		"endian":           withConfig(parseBytes), // a name of drafts
		"gzip":             withConfig(parseGzip),
		"packbits":         withConfig(parsePackBits),
		"reshape":          withConfig(parseReshape),
		"scale_offset":     withConfig(parseScaleOffset),
		"sharding_indexed": parseSharding,
		"transpose":        withConfig(parseTranspose),
		"vlen-bytes":       constant(VLenBytes{}),
		"vlen-utf8":        constant(VLenUTF8{}),
		"zarrs.squeeze":    constant(Squeeze{}),
		"zstd":             withConfig(parseZstd),

		"numcodecs.adler32":          parseLocation(func(l Location) Codec { return Adler32{Location: l} }),
		"numcodecs.astype":           withConfig(parseAsType),
		"numcodecs.base64":           constant(Base64{}),
		"numcodecs.bitround":         withConfig(parseBitRound),
		"numcodecs.blosc":            withConfig(parseNumcodecsBlosc),
		"numcodecs.bz2":              withConfig(parseBZ2),
		"numcodecs.categorize":       withConfig(parseCategorize),
		"numcodecs.crc32":            parseLocation(func(l Location) Codec { return CRC32{Location: l} }),
		"numcodecs.crc32c":           parseLocation(func(l Location) Codec { return CRC32C{Location: l} }),
		"numcodecs.delta":            withConfig(parseDelta),
		"numcodecs.fixedscaleoffset": withConfig(parseFixedScaleOffset),
		"numcodecs.fletcher32":       constant(Fletcher32{}),
		"numcodecs.gzip":             withConfig(parseNumcodecsGzip),
		"numcodecs.jenkins_lookup3":  withConfig(parseJenkins),
		"numcodecs.json2":            withConfig(parseJSON2),
		"numcodecs.lz4":              withConfig(parseLZ4),
		"numcodecs.lzma":             withConfig(parseLZMA),
		"numcodecs.msgpack2":         withConfig(parseMsgPack2),
		"numcodecs.packbits":         constant(NumcodecsPackBits{}),
		"numcodecs.quantize":         withConfig(parseQuantize),
		"numcodecs.shuffle":          withConfig(parseShuffle),
		"numcodecs.vlen-array":       withConfig(parseVLenArray),
		"numcodecs.vlen-bytes":       constant(VLenBytes{}),
		"numcodecs.vlen-utf8":        constant(VLenUTF8{}),
		"numcodecs.zlib":             withConfig(parseZlib),
		"numcodecs.zstd":             withConfig(parseNumcodecsZstd),
	}
}

// refused are known codecs that this package lacks, without the prefix of numcodecs, and
// why. They may be registered.
var refused = map[string]string{
	"pcodec": "needs the import of package zarr/codec/pcodec",
	"pickle": "would run code from the chunk",
	"zfp":    "needs the import of package zarr/codec/zfpy",
	"zfpy":   "needs the import of package zarr/codec/zfpy",
}

// withConfig returns the parser of a codec that contains no other codecs.
func withConfig(parse func(*metajson.Object) (Codec, error)) parser {
	return func(config *metajson.Object, _ int) (Codec, error) { return parse(config) }
}

// constant returns the parser of a codec without a configuration.
func constant(c Codec) parser {
	return func(*metajson.Object, int) (Codec, error) { return c, nil }
}
