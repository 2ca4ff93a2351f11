package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// The codecs in this file encode the objects of Zarr v2, dtype |O. Objects that are no
// strings are errors wrapping errors.ErrUnsupported. Null is the empty string, and so is the
// number 0: zarr-python 2 padded chunks with it, its default fill value of objects.

// JSON2 stores strings as a JSON list, in nested lists for several axes. The dtype of
// NumPy and the shape follow the items (numcodecs, "json2").
type JSON2 struct{}

// MsgPack2 stores strings, or byte strings, as JSON2 does, in MessagePack (numcodecs,
// "msgpack2").
type MsgPack2 struct{}

// Categorize stores strings as numbers: 1 for the first label, 2 for the second, and 0
// for the empty string (numcodecs, "categorize"). Strings without a label are errors.
type Categorize struct {
	Labels []string
	// DType is the type of strings, such as "<U5" for element.UTF32(5), or "|O" if empty.
	DType string
	// AsType is the type of numbers: "|u1" if empty.
	AsType string
}

// Name returns "numcodecs.json2".
func (JSON2) Name() string { return numcodecs + "json2" }

// Name returns "numcodecs.msgpack2".
func (MsgPack2) Name() string { return numcodecs + "msgpack2" }

// Name returns "numcodecs.categorize".
func (Categorize) Name() string { return numcodecs + "categorize" }

// Configuration returns the parameters that numcodecs writes, for the text that this
// package writes.
func (JSON2) Configuration() any {
	return metajson.Members{
		{Key: "encoding", Value: "utf-8"}, {Key: "ensure_ascii", Value: false}, {Key: "indent", Value: nil},
		{Key: "separators", Value: []string{",", ":"}}, {Key: "skipkeys", Value: false}, {Key: "sort_keys", Value: true},
		{Key: "allow_nan", Value: true}, {Key: "check_circular", Value: true}, {Key: "strict", Value: true},
	}
}

// Configuration returns the parameters that numcodecs writes.
func (MsgPack2) Configuration() any {
	return metajson.Members{{Key: "raw", Value: false}, {Key: "use_bin_type", Value: true}, {Key: "use_single_float", Value: false}}
}

// Configuration returns the labels and the types.
func (c Categorize) Configuration() any {
	m := metajson.Members{{Key: "labels", Value: metajson.NonNil(c.Labels)}, {Key: "dtype", Value: "|O"}}
	if c.DType != "" {
		m[1].Value = c.DType
	}
	if c.AsType != "" {
		m = append(m, metajson.Member{Key: "astype", Value: c.AsType})
	}
	return m
}

// parseJSON2 ignores how other writers format text.
func parseJSON2(config *metajson.Object) (Codec, error) {
	var encoding string
	if _, err := config.DecodeOptional("encoding", &encoding); err != nil {
		return nil, err
	}
	if encoding != "" && encoding != "utf-8" && encoding != "ascii" {
		return nil, fmt.Errorf("encoding %q: %w", encoding, errors.ErrUnsupported)
	}
	for _, key := range []string{"ensure_ascii", "indent", "separators", "skipkeys", "sort_keys", "allow_nan", "check_circular", "strict"} {
		config.Take(key)
	}
	return JSON2{}, nil
}

// parseMsgPack2 ignores parameters that only affect writing, or values without a string.
func parseMsgPack2(config *metajson.Object) (Codec, error) {
	for _, key := range []string{"raw", "use_bin_type", "use_single_float"} {
		config.Take(key)
	}
	return MsgPack2{}, nil
}

func parseCategorize(config *metajson.Object) (Codec, error) {
	var c Categorize
	if err := config.DecodeRequired("labels", &c.Labels); err != nil {
		return nil, err
	}
	if _, err := config.DecodeOptional("dtype", &c.DType); err != nil {
		return nil, err
	}
	if c.DType == "|O" || c.DType == "O" || c.DType == "object" {
		c.DType = ""
	}
	if _, err := config.DecodeOptional("astype", &c.AsType); err != nil {
		return nil, err
	}
	return c, c.check()
}

func (c Categorize) asType() string {
	if c.AsType == "" {
		return "|u1"
	}
	return c.AsType
}

// stringType returns the type of decoded elements: strings of any length, or of a fixed
// one.
func (c Categorize) stringType() (element.Type, error) {
	if c.DType == "" {
		return element.String, nil
	}
	of, _, err := element.ParseV2([]byte(strconv.Quote(c.DType)))
	if err == nil && of != element.UTF32(int32(of.Size()/4)) {
		err = fmt.Errorf("dtype %q: %w", c.DType, errors.ErrUnsupported)
	}
	return of, err
}

func (c Categorize) check() error {
	if _, err := c.stringType(); err != nil {
		return err
	}
	n, _, err := parseNumber(c.asType())
	if err != nil {
		return err
	}
	if n.floating {
		return fmt.Errorf("categorize: astype %q, want an integer", c.AsType)
	}
	if _, high := n.limits(); uint64(len(c.Labels)) > high {
		return fmt.Errorf("categorize: %d labels do not fit astype %q", len(c.Labels), c.asType())
	}
	return nil
}

// itemReader reads the lists that JSON2 and MsgPack2 store.
type itemReader interface {
	// list begins a list. It returns its length, or -1 if that is unknown.
	list() (int64, error)
	// endList ends a list.
	endList() error
	// text appends a string to dst.
	text(dst []byte) ([]byte, error)
	// size returns an integer.
	size() (int64, error)
	// end returns an error unless everything was read.
	end() error
}

// readItems reads the items of a chunk, then the dtype and the shape.
func readItems(r itemReader, shape []int64) (*element.VLen, error) {
	if err := beginList(r, firstOr1(shape)+2); err != nil {
		return nil, err
	}
	var data []byte
	offsets := make([]int64, 1, grid.Size(shape)+1)
	var read func(shape []int64) error
	read = func(shape []int64) error {
		if len(shape) == 0 {
			var err error
			data, err = r.text(data)
			offsets = append(offsets, int64(len(data)))
			return err
		}
		if err := beginList(r, shape[0]); err != nil {
			return err
		}
		for range shape[0] {
			if err := read(shape[1:]); err != nil {
				return err
			}
		}
		return r.endList()
	}
	for range firstOr1(shape) {
		if err := read(shape[min(1, len(shape)):]); err != nil {
			return nil, err
		}
	}
	if _, err := r.text(nil); err != nil { // the dtype
		return nil, err
	}
	if err := beginList(r, int64(len(shape))); err != nil {
		return nil, err
	}
	for _, want := range shape {
		if got, err := r.size(); err != nil || got != want {
			return nil, fmt.Errorf("stored extent %d, want %d: %w", got, want, errors.Join(err, errItems))
		}
	}
	for range 2 { // of the shape and of everything
		if err := r.endList(); err != nil {
			return nil, err
		}
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return element.NewVLen(offsets, data, shape...)
}

// errItems reports that the stored items are not those of the chunk.
var errItems = errors.New("items do not fit the chunk")

func beginList(r itemReader, want int64) error {
	got, err := r.list()
	if err == nil && got >= 0 && got != want {
		return fmt.Errorf("list of %d: %w", got, errItems)
	}
	return err
}

func firstOr1(shape []int64) int64 {
	if len(shape) == 0 {
		return 1
	}
	return shape[0]
}

// itemWriter writes what an itemReader reads.
type itemWriter struct {
	list    func(dst []byte, n int) []byte
	next    func(dst []byte) []byte // between items
	endList func(dst []byte) []byte
	text    func(dst []byte, s []byte) ([]byte, error)
	dtype   []byte // the encoded dtype
	size    func(dst []byte, n int64) []byte
}

func (w itemWriter) write(dst []byte, v *element.VLen) ([]byte, error) {
	shape, at := v.Shape(), int64(0)
	var err error
	var write func(shape []int64, extra int) error
	write = func(shape []int64, extra int) error {
		if len(shape) == 0 {
			dst, err = w.text(dst, v.At(at))
			at++
			return err
		}
		dst = w.list(dst, int(shape[0])+extra)
		for i := range shape[0] {
			if i > 0 {
				dst = w.next(dst)
			}
			if err := write(shape[1:], 0); err != nil {
				return err
			}
		}
		if extra == 0 {
			dst = w.endList(dst)
		}
		return nil
	}
	if len(shape) == 0 {
		dst = w.list(dst, 3)
	}
	if err := write(shape, 2); err != nil {
		return nil, err
	}
	dst = append(w.next(dst), w.dtype...)
	dst = w.list(w.next(dst), len(shape))
	for i, n := range shape {
		if i > 0 {
			dst = w.next(dst)
		}
		dst = w.size(dst, n)
	}
	return w.endList(w.endList(dst)), nil
}

// objectSerializer returns the codec of a text format.
func objectSerializer(c Codec, in ChunkSpec, reader func(src []byte) itemReader, writer func(isText bool) itemWriter) (Serializer, error) {
	if !in.Type.IsVLen() {
		return Serializer{}, fmt.Errorf("codec %q encodes strings, got %s", c.Name(), in.Type)
	}
	isText := in.Type == element.String
	return Serializer{
		MaxSize: maxVLen,
		EncodeVLen: func(dst []byte, v *element.VLen) ([]byte, error) {
			if err := checkUTF8(v, isText); err != nil {
				return nil, err
			}
			return writer(isText).write(dst, v)
		},
		DecodeVLen: func(src []byte) (*element.VLen, error) {
			// An item takes at least one byte.
			if n := grid.Size(in.Shape); int64(len(src)) < n {
				return nil, fmt.Errorf("%d bytes are too few for %d strings", len(src), n)
			}
			v, err := readItems(reader(src), in.Shape)
			if err != nil {
				return nil, err
			}
			return v, checkUTF8(v, isText)
		},
	}, nil
}

// Serializer returns the codec for chunks of strings.
func (c JSON2) Serializer(in ChunkSpec) (Serializer, error) {
	if in.Type != element.String {
		return Serializer{}, fmt.Errorf("codec %q encodes string, got %s", c.Name(), in.Type)
	}
	return objectSerializer(c, in, func(src []byte) itemReader {
		return &jsonReader{json.NewDecoder(bytes.NewReader(src))}
	}, func(bool) itemWriter { return jsonWriter })
}

// Serializer returns the codec for chunks of strings or byte strings.
func (c MsgPack2) Serializer(in ChunkSpec) (Serializer, error) {
	return objectSerializer(c, in, func(src []byte) itemReader { return &msgpackReader{src} }, msgpackWriter)
}

type jsonReader struct{ *json.Decoder }

func (r *jsonReader) delim(want json.Delim) error {
	token, err := r.Token()
	if err == nil && token != want {
		err = fmt.Errorf("%v in place of %v: %w", token, want, errItems)
	}
	return err
}

func (r *jsonReader) list() (int64, error) { return -1, r.delim('[') }
func (r *jsonReader) endList() error       { return r.delim(']') }

func (r *jsonReader) text(dst []byte) ([]byte, error) {
	token, err := r.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case string:
		return append(dst, token...), nil
	case nil:
		return dst, nil
	case float64:
		if token == 0 {
			return dst, nil
		}
	}
	return nil, fmt.Errorf("object %v is no string: %w", token, errors.ErrUnsupported)
}

func (r *jsonReader) size() (int64, error) {
	token, err := r.Token()
	if err != nil {
		return 0, err
	}
	n, ok := token.(float64)
	if !ok || n != math.Trunc(n) || math.Abs(n) > 1<<53 {
		return 0, fmt.Errorf("%v in place of a size: %w", token, errItems)
	}
	return int64(n), nil
}

func (r *jsonReader) end() error {
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more text after the list")
	}
	return nil
}

var jsonWriter = itemWriter{
	list:    func(dst []byte, _ int) []byte { return append(dst, '[') },
	next:    func(dst []byte) []byte { return append(dst, ',') },
	endList: func(dst []byte) []byte { return append(dst, ']') },
	text: func(dst, s []byte) ([]byte, error) {
		raw, err := metajson.MarshalLine(string(s))
		return append(dst, raw...), err
	},
	dtype: []byte(`"|O"`),
	size:  func(dst []byte, n int64) []byte { return fmt.Append(dst, n) },
}

// Serializer returns the codec for chunks of strings.
func (c Categorize) Serializer(in ChunkSpec) (Serializer, error) {
	text, err := c.stringType()
	if err != nil {
		return Serializer{}, err
	}
	if in.Type != text {
		return Serializer{}, fmt.Errorf("codec %q encodes %s, got %s", c.Name(), text, in.Type)
	}
	of, order, err := parseNumber(c.asType())
	if err != nil {
		return Serializer{}, err
	}
	swap := func(raw []byte) {
		if order == Big {
			of.of.SwapBytes(raw, raw)
		}
	}
	codes := map[string]int64{"": 0}
	for i, label := range c.Labels {
		codes[label] = int64(i) + 1 // the last of equal labels, as in numcodecs
	}
	n := grid.Size(in.Shape)
	size, err := grid.ByteSize(in.Shape, int64(of.size))
	if err != nil {
		return Serializer{}, err
	}
	encode := func(dst []byte, v *element.VLen) ([]byte, error) {
		dst = slices.Grow(dst, int(size))
		raw := dst[len(dst) : len(dst)+int(size)]
		for i := range n {
			code, ok := codes[string(v.At(i))]
			if !ok {
				return nil, fmt.Errorf("element %d: %.40q has no label", i, v.At(i))
			}
			of.putInt(raw, int(i), code)
		}
		swap(raw)
		return dst[:len(dst)+int(size)], nil
	}
	decode := func(src []byte) (*element.VLen, error) {
		if int64(len(src)) != size {
			return nil, fmt.Errorf("%d bytes, want %d", len(src), size)
		}
		raw := slices.Clone(src)
		swap(raw)
		items := make([]string, n)
		for i := range items {
			code := of.int(raw, i)
			if uint64(code) > uint64(len(c.Labels)) {
				return nil, fmt.Errorf("element %d: code %d of %d labels", i, code, len(c.Labels))
			}
			if code > 0 {
				items[i] = c.Labels[code-1]
			}
		}
		return element.PackVLen(items, in.Shape...)
	}
	s := Serializer{MaxSize: size, Exact: true, EncodeVLen: encode, DecodeVLen: decode}
	if !text.IsVLen() {
		s = s.forFixedText(text, in.Shape)
	}
	return s, nil
}

// forFixedText returns a codec for strings of a fixed length, given that for any length.
func (s Serializer) forFixedText(text element.Type, shape []int64) Serializer {
	encode, decode := s.EncodeVLen, s.DecodeVLen
	s.EncodeVLen, s.DecodeVLen = nil, nil
	s.Encode = func(dst, src []byte) ([]byte, error) {
		v, err := fixedText(text, src, shape)
		if err != nil {
			return nil, err
		}
		return encode(dst, v)
	}
	s.Decode = func(dst, src []byte) error {
		v, err := decode(src)
		if err != nil {
			return err
		}
		values, err := text.FromVLen(v)
		if err != nil {
			return err
		}
		defer values.Release()
		return values.CopyToHost(dst)
	}
	return s
}

// fixedText returns elements of a fixed length as strings of any length.
func fixedText(of element.Type, raw []byte, shape []int64) (*element.VLen, error) {
	dtype, _ := of.DType()
	values, err := ndview.FromBytes(arrowbuf.CPU(), dtype, raw, shape...)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	return of.ToVLen(values)
}
