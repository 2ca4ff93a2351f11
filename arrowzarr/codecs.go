package arrowzarr

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// Codec is a compressor and its settings.
type Codec struct {
	// Name is none, zstd, gzip, blosc, lz4 or auto. Zarr calls lz4 "numcodecs.lz4".
	// With auto, a sample of each array decides, as Effort says.
	Name string
	// Level is -131072..22 for zstd, 0..9 for gzip and blosc, otherwise 0.
	Level int
	// Inner is the compressor of blosc: blosclz, lz4, lz4hc, snappy, zlib or zstd.
	Inner string
	// Shuffle is that of blosc: shuffle, bitshuffle or noshuffle. "" is the usual one of
	// the type: noshuffle for text and bytes, bitshuffle for elements of one byte, and
	// otherwise shuffle.
	Shuffle string
	// Effort is that of auto: fast, balanced or small.
	Effort Effort
}

// DefaultCodec is zstd at level 1.
var DefaultCodec = Codec{Name: "zstd", Level: 1}

// codecForms are what ParseCodec parses.
const codecForms = "none, zstd[:LEVEL], gzip[:LEVEL], blosc:INNER[:LEVEL[:SHUFFLE]], lz4 or auto[:EFFORT]"

// ParseCodec parses a codec such as "none", "zstd:3", "gzip", "blosc:lz4:5:shuffle" or
// "auto:small".
func ParseCodec(text string) (Codec, error) {
	words := strings.Split(text, ":")
	c, rest := Codec{Name: words[0]}, words[1:]
	take := func() (word string, ok bool) {
		if len(rest) > 0 {
			word, rest, ok = rest[0], rest[1:], true
		}
		return word, ok
	}
	levels := false
	switch c.Name {
	case "zstd":
		c.Level, levels = 1, true
	case "gzip":
		c.Level, levels = 6, true
	case "blosc":
		c.Level, levels = 5, true
		c.Inner, _ = take()
	case "auto":
		c.Effort = Balanced
		if word, ok := take(); ok {
			c.Effort = Effort(word)
		}
	}
	if levels {
		if word, ok := take(); ok {
			var err error
			if c.Level, err = strconv.Atoi(word); err != nil {
				return Codec{}, fmt.Errorf("codec %q: expected a level that is a number", text)
			}
		}
	}
	if c.Name == "blosc" {
		if word, ok := take(); ok {
			c.Shuffle = word
			if word == "" {
				return Codec{}, fmt.Errorf("codec %q: expected shuffle, bitshuffle or noshuffle after the last colon", text)
			}
		}
	}
	if err := c.validate(); err != nil {
		return Codec{}, err
	}
	if len(rest) > 0 {
		return Codec{}, fmt.Errorf("codec %q: expected nothing after %q", text, c)
	}
	return c, nil
}

// validate returns an error unless the codec exists and can be set so.
func (c Codec) validate() error {
	var low, high int
	switch c.Name {
	case "none", "lz4":
	case "zstd":
		low, high = -131072, 22
	case "gzip":
		low, high = 0, 9
	case "blosc":
		low, high = 0, 9
		if _, err := blosc.ParseCompressor(c.Inner); err != nil {
			return fmt.Errorf("codec blosc with %q: expected blosclz, lz4, lz4hc, snappy, zlib or zstd", c.Inner)
		}
		if !slices.Contains([]string{"", "shuffle", "bitshuffle", "noshuffle"}, c.Shuffle) {
			return fmt.Errorf("codec blosc with %q: expected shuffle, bitshuffle or noshuffle", c.Shuffle)
		}
	case "auto":
		if autoCandidates[c.Effort] == nil {
			return fmt.Errorf("codec auto with %q: expected %s, %s or %s", c.Effort, Fast, Balanced, Small)
		}
	default:
		return fmt.Errorf("codec %q: expected %s", c.Name, codecForms)
	}
	switch {
	case c.Level < low || c.Level > high:
		return fmt.Errorf("codec %q: expected a level from %d to %d, not %d", c.Name, low, high, c.Level)
	case c.Name != "blosc" && (c.Inner != "" || c.Shuffle != ""), c.Name != "auto" && c.Effort != "":
		return fmt.Errorf("codec %q: it has no such settings: %+v", c.Name, c)
	}
	return nil
}

// String returns the codec in the form that ParseCodec parses.
func (c Codec) String() string {
	words := []string{c.Name}
	switch c.Name {
	case "zstd", "gzip":
		words = append(words, strconv.Itoa(c.Level))
	case "blosc":
		words = append(words, c.Inner, strconv.Itoa(c.Level))
		if c.Shuffle != "" {
			words = append(words, c.Shuffle)
		}
	case "auto":
		words = append(words, string(c.Effort))
	}
	return strings.Join(words, ":")
}

// codecs returns the compressor for an array of a class and a data type, as the tail of a
// Zarr codec list.
func (c Codec) codecs(class Class, t element.Type) []codec.Codec {
	switch c.Name {
	case "zstd":
		return []codec.Codec{codec.Zstd{Level: c.Level}}
	case "gzip":
		return []codec.Codec{codec.Gzip{Level: c.Level}}
	case "lz4":
		return []codec.Codec{codec.LZ4{}}
	case "blosc":
		inner, err := blosc.ParseCompressor(c.Inner)
		if err != nil {
			panic(err) // validate has checked it
		}
		size := int(min(max(t.Size(), 1), 255))
		shuffle := codec.BloscShuffle(c.Shuffle)
		switch {
		case shuffle != codec.BloscAuto:
		case class == ClassText, class == ClassBinary:
			shuffle = codec.BloscNone
		case size == 1:
			shuffle = codec.BloscBits
		default:
			shuffle = codec.BloscBytes
		}
		return []codec.Codec{codec.Blosc{Compressor: inner, Level: c.Level, Shuffle: shuffle, TypeSize: size}}
	default:
		return nil
	}
}

// codecOf returns the compressor of an array. It returns false if the array has others
// than those of Codec.
func codecOf(m *zarr.ArrayMetadata) (Codec, bool) {
	codecs := m.Codecs
	if len(codecs) == 1 {
		if sharding, ok := codecs[0].(codec.Sharding); ok {
			codecs = sharding.Codecs
		}
	}
	if len(codecs) == 1 {
		return Codec{Name: "none"}, true
	}
	if len(codecs) != 2 {
		return Codec{}, false
	}
	switch c := codecs[1].(type) {
	case codec.Zstd:
		return Codec{Name: "zstd", Level: c.Level}, true
	case codec.Gzip:
		return Codec{Name: "gzip", Level: c.Level}, true
	case codec.LZ4:
		return Codec{Name: "lz4"}, true
	case codec.Blosc:
		return Codec{Name: "blosc", Inner: c.Compressor.String(), Level: c.Level, Shuffle: string(c.Shuffle)}, true
	}
	return Codec{}, false
}

// implementation returns the name of the library that compresses.
func (c Codec) implementation() string {
	switch c.Name {
	case "zstd":
		return codec.ZstdImplementation()
	case "none":
		return ""
	default:
		return "Go"
	}
}

// tableBytes is the memory that an encoder takes besides a chunk of n bytes and its
// encoded form.
func (c Codec) tableBytes(n float64) float64 {
	const mib = 1 << 20
	switch c.Name {
	case "none":
		return 0
	case "gzip", "lz4":
		return mib
	case "blosc":
		const block = 1 * mib // the largest, which is shuffled to another and encoded to a third
		if c.Inner != blosc.Zstd.String() {
			return 3 * block
		}
		return 2*block + Codec{Name: "zstd", Level: blosc.ZstdLevel(c.Level)}.tableBytes(block)
	case "auto":
		most := 0.0
		for _, candidate := range autoCandidates[c.Effort] {
			most = max(most, candidate.tableBytes(n))
		}
		return most
	}
	// Measured with ZSTD_sizeof_CCtx of libzstd 1.5: the level determines the size
	// of the tables, but they have at most 16 bytes per byte of the chunk.
	byLevel := 0.75 * mib
	switch {
	case c.Level > 12:
		byLevel = 1024 * mib
	case c.Level > 9:
		byLevel = 49 * mib
	case c.Level > 7:
		byLevel = 13 * mib
	case c.Level > 5:
		byLevel = 7 * mib
	case c.Level > 2, c.Level == 0:
		byLevel = 4 * mib
	}
	return min(byLevel, 2*mib+16*n)
}

// Class is a class of types whose arrays can have a codec of their own.
type Class string

// The classes.
const (
	ClassInt     Class = "int" // also codes, offsets and indices
	ClassFloat   Class = "float"
	ClassBool    Class = "bool" // also masks
	ClassText    Class = "text"
	ClassBinary  Class = "binary"
	ClassTime    Class = "time" // dates, times, timestamps and durations
	ClassDecimal Class = "decimal"
)

var classes = []Class{ClassInt, ClassFloat, ClassBool, ClassText, ClassBinary, ClassTime, ClassDecimal}

// classOf returns the class of an array of the values of a type that is stored in
// one array.
func classOf(t arrow.DataType) Class {
	switch t = valueType(t); t.ID() {
	case arrow.FIXED_SIZE_LIST:
		return classOf(t.(*arrow.FixedSizeListType).Elem())
	case arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64:
		return ClassFloat
	case arrow.BOOL, arrow.NULL:
		return ClassBool
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return ClassText
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
		return ClassBinary
	case arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return ClassTime
	case arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL128, arrow.DECIMAL256:
		return ClassDecimal
	}
	return ClassInt
}

// class returns the class of the column's values, or codes.
func (c *column) class() Class {
	if c.kind == kindDictionary {
		return ClassInt
	}
	return classOf(c.storage)
}

// bufferClass returns the class of an array of a node.
func (n *node) bufferClass(buffer string) Class {
	switch buffer {
	case bufferMask:
		return ClassBool
	case bufferData:
		return classOf(n.typ)
	default:
		return ClassInt
	}
}

// AddCodec sets the codec of a class or a column, or the default one. The text is a
// codec, CLASS=CODEC, NAME=CODEC for the column of a name that is no class, or
// column:NAME=CODEC.
func (o *Options) AddCodec(text string) error {
	at := strings.LastIndexByte(text, '=')
	c, err := ParseCodec(text[at+1:])
	if err != nil {
		return err
	}
	if at < 0 {
		o.Codec = c
		return nil
	}
	target, isColumn := strings.CutPrefix(text[:at], "column:")
	if !isColumn && slices.Contains(classes, Class(target)) {
		if o.ClassCodecs == nil {
			o.ClassCodecs = map[Class]Codec{}
		}
		o.ClassCodecs[Class(target)] = c
		return nil
	}
	if o.ColumnCodecs == nil {
		o.ColumnCodecs = map[string]Codec{}
	}
	o.ColumnCodecs[target] = c
	return nil
}

// codecRules returns the codecs of the options as AddCodec parses them.
func (o Options) codecRules() []string {
	rules := []string{o.Codec.String()}
	for _, class := range slices.Sorted(maps.Keys(o.ClassCodecs)) {
		rules = append(rules, fmt.Sprintf("%s=%s", class, o.ClassCodecs[class]))
	}
	for _, name := range slices.Sorted(maps.Keys(o.ColumnCodecs)) {
		prefix := ""
		if slices.Contains(classes, Class(name)) || strings.HasPrefix(name, "column:") {
			prefix = "column:"
		}
		rules = append(rules, fmt.Sprintf("%s%s=%s", prefix, name, o.ColumnCodecs[name]))
	}
	return rules
}

// codecs returns every codec of the options.
func (o Options) codecs() codecSet {
	all := codecSet{o.Codec}
	all = slices.AppendSeq(all, maps.Values(o.ClassCodecs))
	return slices.AppendSeq(all, maps.Values(o.ColumnCodecs))
}

func (o Options) validateCodecs() error {
	for class := range o.ClassCodecs {
		if !slices.Contains(classes, class) {
			return fmt.Errorf("codec of the class %q: expected one of %v", class, classes)
		}
	}
	for _, c := range o.codecs() {
		if err := c.validate(); err != nil {
			return err
		}
	}
	return nil
}

// codecSet is the codecs of which any array may have one.
type codecSet []Codec

// tableBytes is the most that an encoder takes: see Codec.tableBytes.
func (s codecSet) tableBytes(n float64) float64 {
	most := 0.0
	for _, c := range s {
		most = max(most, c.tableBytes(n))
	}
	return most
}

// implementation returns the names of the libraries that compress.
func (s codecSet) implementation() string {
	var names []string
	for _, c := range s {
		of := codecSet{c}
		if c.Name == "auto" {
			of = autoCandidates[c.Effort]
		}
		for _, c := range of {
			if name := c.implementation(); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// columnCodecs are the codecs of the arrays of a column.
type columnCodecs struct {
	byClass map[Class]Codec
	chosen  map[string]Codec // by array: those that a sample decided
}

// codecsOf returns a function that returns the codecs of a column of a name. Columns
// without codecs of their own share a map, which takes more than all else that is known
// of a column of numbers.
func (o Options) codecsOf() func(name string) columnCodecs {
	shared := map[Class]Codec{}
	for _, class := range classes {
		shared[class] = o.Codec
		if c, ok := o.ClassCodecs[class]; ok {
			shared[class] = c
		}
	}
	return func(name string) columnCodecs {
		c, ok := o.ColumnCodecs[name]
		if !ok {
			return columnCodecs{byClass: shared}
		}
		own := map[Class]Codec{}
		for _, class := range classes {
			own[class] = c
		}
		return columnCodecs{byClass: own}
	}
}

// of returns the codec of an array.
func (c columnCodecs) of(array string, class Class) Codec {
	if chosen, ok := c.chosen[array]; ok {
		return chosen
	}
	given := c.byClass[class]
	if given.Name == "auto" {
		return given.Effort.unsampled()
	}
	return given
}

// compressors returns the codec of an array as the tail of a Zarr codec list.
func (c columnCodecs) compressors(array string, class Class, t element.Type) []codec.Codec {
	return c.of(array, class).codecs(class, t)
}

// hasAuto reports whether a sample decides some codec.
func (c columnCodecs) hasAuto() bool {
	for _, codec := range c.byClass {
		if codec.Name == "auto" {
			return true
		}
	}
	return false
}

// codecsOfNodes returns the codecs of the arrays of a hierarchy, by path.
func codecsOfNodes(nodes map[string]zarr.Node) map[string]string {
	all := map[string]string{}
	for path, node := range nodes {
		if m, ok := node.(*zarr.ArrayMetadata); ok {
			if c, ok := codecOf(m); ok {
				all[path] = c.String()
			}
		}
	}
	return all
}
