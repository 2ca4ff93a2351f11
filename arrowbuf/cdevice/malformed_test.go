//go:build linux || darwin

package cdevice

import (
	"encoding/binary"
	"math"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

var everything = arrow.StructOf(
	arrow.Field{Name: "text", Type: arrow.BinaryTypes.String},
	arrow.Field{Name: "lists", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
	arrow.Field{Name: "views", Type: arrow.BinaryTypes.StringView},
	arrow.Field{Name: "codes", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
	arrow.Field{Name: "union", Type: arrow.SparseUnionOf([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{0})},
	arrow.Field{Name: "runs", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int64)},
	arrow.Field{Name: "fixed", Type: arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Boolean)},
	arrow.Field{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8)},
)

// buffer is a place of the array of buffers.
func (c *Array) buffer(i int) *uintptr { return (*uintptr)(pointer(c.buffers + 8*uintptr(i))) }

// offset is one of 32-bit offsets, of the host's memory.
func (c *Array) int32(buffer, i int) *int32 {
	return (*int32)(pointer(*c.buffer(buffer) + 4*uintptr(i)))
}

func TestMalformedArraysAreRefusedByPath(t *testing.T) {
	const text, lists, views, codes, union, runs, fixed, maps = 0, 1, 2, 3, 4, 5, 6, 7
	n := func(root *Array, path ...int) *Array {
		for _, i := range path {
			root = root.parts()[i]
		}
		return root
	}
	for name, tt := range map[string]struct {
		wrong func(a *Array)
		path  string
		says  string
	}{
		"a negative length":         {func(a *Array) { n(a, text).length = -1 }, `"text"`, "-1 elements"},
		"a negative offset":         {func(a *Array) { n(a, text).offset = -1 }, `"text"`, "offset -1"},
		"an end without end":        {func(a *Array) { n(a, text).offset = math.MaxInt64 - 3 }, `"text"`, "elements at offset"},
		"too many nulls":            {func(a *Array) { n(a, text).nulls = 99 }, `"text"`, "99 of 20"},
		"less than unknown nulls":   {func(a *Array) { n(a, text).nulls = -2 }, `"text"`, "-2 of 20"},
		"nulls and no bitmap":       {func(a *Array) { n(a, text).nulls = 1 }, `"text"`, "no validity bitmap"},
		"a buffer too few":          {func(a *Array) { n(a, text).nBuffers = 2 }, `"text"`, "2 buffers of a type with 3"},
		"a negative buffer count":   {func(a *Array) { n(a, text).nBuffers = -1 }, `"text"`, "-1 buffers"},
		"views without sizes":       {func(a *Array) { n(a, views).nBuffers = 2 }, `"views"`, "2 buffers"},
		"views with all buffers":    {func(a *Array) { n(a, views).nBuffers = math.MaxInt64 }, `"views"`, "buffers of a type"},
		"no buffers":                {func(a *Array) { n(a, text).buffers = 0 }, `"text"`, "array of 3 buffers is missing"},
		"no offsets":                {func(a *Array) { *n(a, text).buffer(1) = 0 }, `"text"`, "buffer 1: the buffer of 84 bytes is missing"},
		"no values":                 {func(a *Array) { *n(a, text).buffer(2) = 0 }, `"text"`, "buffer 2"},
		"no sizes":                  {func(a *Array) { c := n(a, views); *c.buffer(int(c.nBuffers) - 1) = 0 }, `"views"`, "sizes of"},
		"a negative size":           {func(a *Array) { c := n(a, views); *(*int64)(pointer(*c.buffer(int(c.nBuffers) - 1))) = -5 }, `"views"`, "-5 bytes"},
		"offsets that go down":      {func(a *Array) { *n(a, text).int32(1, 20) = -1 }, `"text"`, "offsets from"},
		"offsets below zero":        {func(a *Array) { *n(a, text).int32(1, 0) = -7 }, `"text"`, "offsets from -7"},
		"offsets beyond the items":  {func(a *Array) { *n(a, lists).int32(1, 22) = 1000 }, `"lists"`, "needs 1000"},
		"too few items":             {func(a *Array) { n(a, lists, 0).length = 2 }, `"lists"`, "child 0 has 2 elements"},
		"no items":                  {func(a *Array) { *(*uintptr)(pointer(n(a, lists).children)) = 0 }, `"lists.item"`, "missing"},
		"no children":               {func(a *Array) { n(a, lists).children = 0 }, `"lists"`, "children is missing"},
		"a child too many":          {func(a *Array) { n(a, lists).nChildren = 2 }, `"lists"`, "2 children of a type with 1"},
		"a negative child count":    {func(a *Array) { n(a, lists).nChildren = -1 }, `"lists"`, "-1 children"},
		"a child that is released":  {func(a *Array) { n(a, lists, 0).release = 0 }, `"lists.item"`, "released"},
		"no dictionary":             {func(a *Array) { n(a, codes).dictionary = 0 }, `"codes"`, "a dictionary at 0x0"},
		"a dictionary too many":     {func(a *Array) { n(a, text).dictionary = n(a, codes).dictionary }, `"text"`, "a dictionary at"},
		"a malformed dictionary":    {func(a *Array) { (*Array)(pointer(n(a, codes).dictionary)).length = -3 }, `"codes.dictionary"`, "-3"},
		"a union with a bitmap":     {func(a *Array) { n(a, union).nBuffers = 2 }, `"union"`, "2 buffers of a type with 1"},
		"a short union":             {func(a *Array) { n(a, union, 0).length = 1 }, `"union"`, "needs 28"},
		"run ends that are short":   {func(a *Array) { n(a, runs, 0).length = 1 }, `"runs"`, "runs end at"},
		"no run ends":               {func(a *Array) { n(a, runs, 0).length = 0 }, `"runs"`, "without a run"},
		"fewer values than runs":    {func(a *Array) { n(a, runs, 1).length = 1 }, `"runs"`, "run ends"},
		"short fixed lists":         {func(a *Array) { n(a, fixed, 0).length = 59 }, `"fixed"`, "needs 96"},
		"more lists than there can": {func(a *Array) { n(a, fixed).length = math.MaxInt64 / 2 }, `"fixed"`, "lists of 3"},
		"a null key":                {func(a *Array) { k := n(a, maps, 0, 0); k.nulls = 1; *k.buffer(0) = *k.buffer(1) }, `"map"`, "keys are null"},
		"a short map":               {func(a *Array) { n(a, maps, 0, 1).length = 0 }, `"map.entries"`, "child 1 has 0"},
		"more bytes than there are": {func(a *Array) { n(a, union).length, n(a, union).offset = 1<<62, 1<<62-2 }, `"union"`, ""},
		"a short column":            {func(a *Array) { n(a, fixed).length = 3 }, "", "child 6 has 3"},
		"null rows":                 {func(a *Array) { a.nulls = 2; *a.buffer(0) = *n(a, text).buffer(2) }, "", "2 of the rows are null"},
		"rows with another buffer":  {func(a *Array) { a.nBuffers = 2 }, "", "2 buffers of a type with 1"},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			g := newGenerator(t)
			arr := g.array(everything, 20, false)
			out := exported(t, arr, arrowbuf.CPU())
			arr.Release()
			releases := lost(out)
			tt.wrong(&out.array)
			_, err := ImportBatch(out, arrow.NewSchema(everything.Fields(), nil))
			require.ErrorIs(t, err, arrow.ErrInvalid)
			assert.ErrorContains(t, err, tt.path)
			assert.ErrorContains(t, err, tt.says)
			assert.True(t, out.Released())
			releases()
		})
	}
}

// lost returns what ends the structs that a test makes look released.
func lost(out *DeviceArray) (end func()) {
	child := out.array.parts()[1].parts()[0]
	private := child.private
	return func() {
		if n, ok := given.Load(private); ok && n.(*arrayNode).array.release == 0 {
			endArray(&n.(*arrayNode).array)
		}
	}
}

func TestArraysThatAreReleasedOrNoneAreRefused(t *testing.T) {
	for _, in := range []*DeviceArray{nil, {}} {
		_, err := ImportArray(in, arrow.Null)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		_, err = ImportBatch(in, arrow.NewSchema(nil, nil))
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	}
	clean(t)
	g := newGenerator(t)
	arr := g.array(everything, 3, false)
	defer arr.Release()
	_, err := ImportArray(exported(t, arr, arrowbuf.CPU()), nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportBatch(exported(t, arr, arrowbuf.CPU()), nil)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportArray(exported(t, arr, arrowbuf.CPU()), arrow.PrimitiveTypes.Int8)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	out := exported(t, arr, arrowbuf.CPU())
	out.deviceType = 10
	_, err = ImportArray(out, everything)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	assert.ErrorContains(t, err, "device(10):-1")
}

func TestUnalignedValuesOfAGPUAreRefused(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		g := newGenerator(t)
		host := g.array(arrow.PrimitiveTypes.Int32, 20, false)
		defer host.Release()
		arr := upload(t, dev, host)
		defer arr.Release()
		out := exported(t, arr, dev)
		*out.array.buffer(1) += 2
		out.array.length = 10
		_, err := ImportArray(out, arrow.PrimitiveTypes.Int32, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		assert.ErrorContains(t, err, "no multiple of 4")

		out = exported(t, host, arrowbuf.CPU())
		*out.array.buffer(1) += 2
		out.array.length = 10
		back, err := ImportArray(out, arrow.PrimitiveTypes.Int32)
		require.NoError(t, err, "the host reads them")
		back.Release()
	})
}

func TestSizesOfViewsMayBeOrdinaryMemoryOfTheHost(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		clean(t)
		g := newGenerator(t)
		host := g.array(arrow.BinaryTypes.StringView, 20, true)
		defer host.Release()
		for _, on := range []arrowbuf.Device{dev, dev.Host()} {
			arr := upload(t, on, host)
			out := exported(t, arr, on)
			arr.Release()
			n := int(out.array.nBuffers)
			sizes := append([]uintptr{}, addresses(*out.array.buffer(n - 1), int64(n-3))...)
			*out.array.buffer(n - 1) = addressOf(&sizes[0])
			back, err := ImportArray(out, host.DataType(), dev)
			require.NoError(t, err)
			requireEqual(t, host, back)
			back.Release()
		}
	})
}

func TestMalformedSchemasAreRefusedByPath(t *testing.T) {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	text := func(s string) uintptr { return keep(&pinned, append([]byte(s), 0)) }
	number := func(n int32) uintptr { return keep(&pinned, binary.NativeEndian.AppendUint32(nil, uint32(n))) }
	format := func(at int, f string) func(s *Schema) {
		return func(s *Schema) { s.parts()[at].format = text(f) }
	}
	for name, tt := range map[string]struct {
		wrong func(s *Schema)
		path  string
	}{
		"no format":               {func(s *Schema) { s.parts()[0].format = 0 }, `"text"`},
		"an empty format":         {format(0, ""), `"text"`},
		"an unknown format":       {format(0, "q"), `"text"`},
		"an unknown nested one":   {format(0, "+q"), `"text"`},
		"an unknown parameter":    {format(0, "i:3"), `"text"`},
		"a type without its own":  {format(0, "w"), `"text"`},
		"a negative width":        {format(0, "w:-1"), `"text"`},
		"a width that is none":    {format(0, "w:a"), `"text"`},
		"a width too many":        {format(0, "w:99999999999"), `"text"`},
		"half a decimal":          {format(0, "d:5"), `"text"`},
		"a decimal of words":      {format(0, "d:a,b"), `"text"`},
		"a decimal of 7 bits":     {format(0, "d:5,2,7"), `"text"`},
		"a decimal too precise":   {format(0, "d:99,2"), `"text"`},
		"a time zone of nothing":  {format(0, "tsx:"), `"text"`},
		"lists of nothing":        {format(1, "+w:0"), `"lists"`},
		"lists without a size":    {format(1, "+w"), `"lists"`},
		"a list without items":    {format(0, "+l"), `"text"`},
		"a struct with a child":   {format(1, "i"), `"lists"`},
		"runs with a child":       {format(1, "+r"), `"lists"`},
		"a map of a number":       {format(1, "+m"), `"lists"`},
		"a union without ids":     {format(4, "+us:"), `"union"`},
		"a union of 200":          {format(4, "+us:200"), `"union"`},
		"a union of words":        {format(4, "+ud:x"), `"union"`},
		"a union with -1":         {format(4, "+us:-1"), `"union"`},
		"run ends of int64 text":  {func(s *Schema) { s.parts()[5].parts()[0].format = text("u") }, `"runs"`},
		"no children":             {func(s *Schema) { s.parts()[1].children = 0 }, `"lists"`},
		"a missing child":         {func(s *Schema) { *(*uintptr)(pointer(s.parts()[1].children)) = 0 }, `"lists"`},
		"a negative child count":  {func(s *Schema) { s.parts()[1].nChildren = -1 }, `"lists"`},
		"a schema in itself":      {func(s *Schema) { *(*uintptr)(pointer(s.parts()[1].children)) = addressOf(s.parts()[1]) }, "nested deeper"},
		"negative metadata":       {func(s *Schema) { s.parts()[0].metadata = number(-1) }, `"text"`},
		"text as indices":         {func(s *Schema) { s.parts()[0].dictionary = addressOf(s.parts()[1]) }, `"text"`},
		"a malformed dictionary":  {func(s *Schema) { (*Schema)(pointer(s.parts()[3].dictionary)).format = text("?") }, `"codes.dictionary"`},
		"an extension of its own": {func(s *Schema) { s.parts()[0].metadata = addressOf(&badTag[0]) }, `"text"`},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			var s Schema
			require.NoError(t, ExportSchema(arrow.NewSchema(everything.Fields(), nil), &s))
			tt.wrong(&s)
			_, err := ImportSchema(&s)
			require.ErrorIs(t, err, arrow.ErrInvalid)
			assert.ErrorContains(t, err, tt.path)
			assert.True(t, s.Released())
		})
	}
}

// badTag is metadata of the test's extension type that it does not take.
var badTag, _ = encodeMetadata(arrow.NewMetadata([]string{extensionName, extensionData}, []string{"quiver.test.cdevice.tagged", "?"}))

func TestSchemasThatAreReleasedOrNoneAreRefused(t *testing.T) {
	clean(t)
	for _, in := range []*Schema{nil, {}} {
		_, err := ImportSchema(in)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		_, err = ImportField(in)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	}
	var s Schema
	require.NoError(t, ExportField(arrow.Field{Type: arrow.Null}, &s))
	_, err := ImportSchema(&s)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	assert.ErrorContains(t, err, "of null, not of a struct")
}

func TestUnknownExtensionTypesStayInTheMetadata(t *testing.T) {
	clean(t)
	field := arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8,
		Metadata: arrow.NewMetadata([]string{extensionName, extensionData, "k"}, []string{"nobody.knows", "", "v"})}
	var s Schema
	require.NoError(t, ExportField(field, &s))
	back, err := ImportField(&s)
	require.NoError(t, err)
	assert.True(t, field.Equal(back))
}

func TestWhatCHasNoWordForIsNotExported(t *testing.T) {
	clean(t)
	var s Schema
	for _, tt := range []struct {
		field arrow.Field
		want  error
	}{
		{arrow.Field{Name: "a\x00b", Type: arrow.Null}, arrow.ErrInvalid},
		{arrow.Field{Type: &arrow.TimestampType{TimeZone: "a\x00b"}}, arrow.ErrInvalid},
		{arrow.Field{}, arrow.ErrInvalid},
		{arrow.Field{Type: newTagged(newTagged(arrow.Null))}, arrow.ErrNotImplemented},
		{arrow.Field{Type: &arrow.TimestampType{Unit: 9}}, arrow.ErrNotImplemented},
	} {
		err := ExportField(arrow.Field{Name: "outer", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.Null})}, &s)
		require.NoError(t, err)
		s.Release()
		assert.ErrorIs(t, ExportField(tt.field, &s), tt.want)
		assert.True(t, s.Released())
	}
	nested := arrow.Field{Name: "outer", Type: arrow.ListOfField(arrow.Field{Name: "in\x00ner", Type: arrow.Null})}
	err := ExportField(nested, &s)
	assert.ErrorContains(t, err, `"in\x00ner"`)
}
