package arrowzarr_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dsnet/compress/bzip2"
	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// textFile writes a text to a new file of a name.
func textFile(t *testing.T, name, content string) string {
	t.Helper()
	return filepath.Join(sourcetest.WriteFiles(t, map[string][]byte{name: []byte(content)}), name)
}

// typesOf returns the schema of inputs as text.
func typesOf(t *testing.T, inputs ...string) string {
	t.Helper()
	schema, err := arrowzarr.SchemaOfSource(inputs...)
	require.NoError(t, err)
	var columns []string
	for _, f := range schema.Fields() {
		columns = append(columns, f.Name+" "+f.Type.String())
	}
	return strings.Join(columns, ", ")
}

func TestTypesOfCSVComeFromItsFirstRows(t *testing.T) {
	for values, want := range map[string]string{
		"1\n-2\n\n": "int64", "1\n2.5": "float64", "1e3\nNaN": "float64", "true\nFALSE": "bool", "2020-02-29": "date32",
		"2020-02-29T10:11:12\n2020-03-01": "timestamp[us]", "2020-02-29 10:11:12.123456789": "timestamp[ns]",
		"2020-02-29T10:11:12Z\n2020-02-29T10:11:12.5+02:00": "timestamp[us, tz=UTC]",
		"2020-02-29T10:11:12Z\n2020-02-29T10:11:12":         "utf8",
		"2020-02-30": "utf8", "007": "utf8", "1\ntrue": "utf8", "18446744073709551616": "utf8", "NA\nNULL": "utf8", "x": "utf8", "1\n2020-01-01": "utf8",
	} {
		path := textFile(t, "a.csv", "c,d\n"+strings.ReplaceAll(values, "\n", ",z\n")+",z\n")
		assert.Equal(t, "c "+want+", d utf8", typesOf(t, path), values)
	}
}

func TestCSVConverts(t *testing.T) {
	content := "id,name,when,\"a, b\"\r\n1,Ann,2020-01-02,1.5\r\n2,\"two\nlines, \"\"quoted\"\"\",,\r\n,,2021-12-31,-inf\r\n"
	want := []string{"1 Ann 2020-01-02 1.5", "2 two\nlines, \"quoted\" (null) (null)", "(null)  2021-12-31 -Inf"}
	gz, zst, bz := &bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}
	w := kgzip.NewWriter(gz)
	_, _ = w.Write([]byte(content))
	require.NoError(t, w.Close())
	z, err := zstd.NewWriter(zst)
	require.NoError(t, err)
	_, _ = z.Write([]byte(content))
	require.NoError(t, z.Close())
	b, err := bzip2.NewWriter(bz, nil)
	require.NoError(t, err)
	_, _ = b.Write([]byte(content))
	require.NoError(t, b.Close())
	for name, text := range map[string]string{
		"a.csv": content, "a.CSV": "\xef\xbb\xbf" + content,
		"a.tsv":    "id\tname\twhen\tx\r\n1\tAnn\t2020-01-02\t1.5\r\n2\t\"two\nlines, \"\"quoted\"\"\"\t\t\r\n\t\t2021-12-31\t-inf\r\n",
		"a.csv.gz": gz.String(), "a.csv.zst": zst.String(), "a.csv.bz2": bz.String(),
	} {
		path := textFile(t, name, text)
		assert.Equal(t, want, rowTexts(t, 4, path), name)
		output, report := convertFile(t, path, arrowzarr.Options{ChunkRows: 2})
		assert.EqualValues(t, 3, report.Rows)
		assert.Equal(t, map[bool]string{true: "TSV", false: "CSV"}[name == "a.tsv"], report.Format)
		verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
	}
}

func TestJSONLinesConvert(t *testing.T) {
	content := `{"id": 1, "tags": ["a", "b"], "at": {"x": 1.5, "when": "2020-01-02T03:04:05Z"}, "ok": true}
{"id": 2, "at": {"x": 2, "y": null}, "late": null, "tags": []}

{"ok": null, "tags": [null], "id": null, "at": null, "late": "x"}
`
	for _, name := range []string{"a.json", "a.jsonl", "a.ndjson", "a.txt"} {
		path := textFile(t, name, content)
		assert.Equal(t, "id int64, tags list<item: utf8, nullable>, at struct<x: float64 nullable, when: timestamp[us, tz=UTC] nullable, y: utf8 nullable>, ok bool, late utf8", typesOf(t, path))
		assert.Equal(t, []string{
			`1 ["a","b"] {"when":"2020-01-02T03:04:05Z","x":1.5,"y":null} true (null)`,
			`2 [] {"when":null,"x":2,"y":null} (null) (null)`,
			`(null) [null] (null) (null) x`,
		}, rowTexts(t, 5, path))
		output, report := convertFile(t, path, arrowzarr.Options{})
		assert.Equal(t, "JSON lines", report.Format)
		verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
	}
}

func TestJSONObjectsMayHaveSeveralLinesOrBeInAList(t *testing.T) {
	want := []string{`1 {"b":"}]"}`, "2 (null)", `3 {"b":"\\"}`}
	for _, content := range []string{
		"{\"n\": 1, \"o\": {\"b\": \"}]\"}} {\"n\": 2}\n{\"n\": 3, \"o\": {\"b\": \"\\\\\"}}",
		"{\n  \"n\": 1,\r\n  \"o\": {\n    \"b\": \"}]\"\n  }\n}\n{\"n\": 2\n}{\"n\": 3, \"o\": {\"b\": \"\\\\\"}}\n",
		"[{\"n\": 1, \"o\": {\"b\": \"}]\"}}, {\"n\": 2}\n,\n {\"n\": 3, \"o\": {\"b\": \"\\\\\"}}\n]\n",
		" [\n{\"n\":1,\"o\":{\"b\":\"}]\"}},{\"n\":2},{\"n\":3,\"o\":{\"b\":\"\\\\\"}}]",
	} {
		path := textFile(t, "a.json", content)
		assert.Equal(t, "n int64, o struct<b: utf8 nullable>", typesOf(t, path), content)
		assert.Equal(t, want, rowTexts(t, 2, path), content)
	}
	assert.Empty(t, typesOf(t, textFile(t, "a.json", "[ ]\n")))

	// Objects that cross the buffer of 64 KiB, and the MiB that types are inferred from.
	for _, list := range []bool{false, true} {
		content := strings.TrimSuffix(strings.Repeat("{\"n\": 7,\n \"t\": \""+strings.Repeat("x{", 30_000)+"\"},\n", 40), ",\n")
		if content = "[" + content + "]"; !list {
			content = strings.ReplaceAll(strings.Trim(content, "[]"), "},", "}")
		}
		path := textFile(t, "a.json", content)
		assert.Len(t, rowTexts(t, 2, path), 40)
	}
}

// DuckDB reads such columns as JSON, too.
func TestJSONOfSeveralKindsStaysJSON(t *testing.T) {
	path := textFile(t, "a.json", `{"v": {"a": 1.50}, "l": [1, [2]]}
{"v": [1, "x"], "l": null}
{"v": "t", "l": []}
{"v": null}
{"v": 1e2, "l": ["y"]}
`)
	schema, err := arrowzarr.SchemaOfSource(path)
	require.NoError(t, err)
	assert.Equal(t, "extension<arrow.json[storage_type=utf8]>", schema.Field(0).Type.String())
	assert.Equal(t, []string{`{"a":1.50} [1,[2]]`, `[1,"x"] (null)`, `"t" []`, `null (null)`, `1e2 ["y"]`}, rowTexts(t, 2, path))
	require.NoError(t, arrowzarr.ReadSource([]string{path}, []int{0}, 0, -1, func(b arrow.RecordBatch) { assert.Equal(t, 1, b.Column(0).NullN()) }))
	output, _ := convertFile(t, path, arrowzarr.Options{})
	verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

// many returns the first rows of which types are inferred, and a last one.
func many(header, row, last string) string {
	return header + strings.Repeat(row, arrowzarr.InferRows) + last
}

func TestValuesOfOtherTypesAreNamed(t *testing.T) {
	for want, test := range map[string][2]string{
		`line 10002, column "n": "x" is no int64`:                           {"a.csv", many("n,t\n", "1,a\n", "x,b\n")},
		`line 10002, column "n": "1.5" is no int64`:                         {"a.csv", many("n,t\n", "1,a\n", "1.5,b\n")},
		`line 10002, column "n": "007" is no int64`:                         {"a.csv", many("n,t\n", "1,a\n", "007,b\n")},
		`line 10002, column "n": "9223372036854775808" is no int64`:         {"a.csv", many("n\n", "1\n", "9223372036854775808\n")},
		`line 10002, column "n": "2020-01-01T10:00" is no date32`:           {"a.csv", many("n\n", "2020-01-01\n", "2020-01-01T10:00\n")},
		`column "n": "2020-01-01T10:00Z" is no timestamp[us]`:               {"a.csv", many("n\n", "2020-01-01T10:00\n", "2020-01-01T10:00Z\n")},
		`line 3: 3 columns, expected 2`:                                     {"a.csv", "n,t\n1,2\n1,2,3\n"},
		`line 2: 2 columns, expected 1 (separated by ',': see --delimiter)`: {"a.csv", "n;t\n1;2,5\n"},
		`line 2, column "n": "caf\xe9": text that is not UTF-8`:             {"a.csv", "n\ncaf\xe9\n"},
		`name of column 1, "caf\xe9": text that is not UTF-8`:               {"a.csv", "caf\xe9\n1\n"},
		`line 2: text that is not UTF-8`:                                    {"a.json", "{\"n\": 1}\n{\"n\": \"caf\xe9\"}\n"},
		`"x\ud800y" has half of a surrogate pair`:                           {"a.json", `{"n": "x\ud800y"}`},
		`the file has no header`:                                            {"a.csv", ""},
		`line 2: a quoted field that is not closed`:                         {"a.csv", "n\n\"a\n"},
		`line 10002, column "n": "(null)" is no int64`:                      {"a.csv", many("n,t\n", "1,a\n", "(null),b\n")},
		`text in UTF-16`: {"a.csv", "\xff\xfen\x00\n\x00"},
		`line 10001, column "n": "\"x\"" is no int64`:                        {"a.json", many("", "{\"n\": 1}\n", "{\"n\": \"x\"}\n")},
		`line 10001, column "n": "1.0" is no int64`:                          {"a.json", many("", "{\"n\": 1}\n", "{\"n\": 1.0}\n")},
		`line 10001, column "b": "1" is no bool`:                             {"a.json", many("", "{\"b\": true}\n", "{\"b\": 1}\n")},
		`line 10001, column "m": the first rows do not have`:                 {"a.json", many("", "{\"n\": 1}\n", "{\"m\": 1}\n")},
		`column "o": the first rows do not have the member "q`:               {"a.json", many("", "{\"o\": {\"p\": 1}}\n", "{\"o\": {\"q\": 1}}\n")},
		`line 10001, column "o": "[1]" is no struct`:                         {"a.json", many("", "{\"o\": {\"p\": 1}}\n", "{\"o\": [1]}\n")},
		`line 1, column "n": it occurs twice`:                                {"a.json", `{"n": 1, "n": 2}`},
		`line 2: no object of JSON: 1, expected an object`:                   {"a.json", "{\"n\": 1}\n1\n{}"},
		`line 3: no object of JSON: expected a comma or the end of the list`: {"a.json", "[{\"n\": 1}\n\n{}]"},
		`line 2: no object of JSON: unexpected EOF`:                          {"a.json", "[{\"n\": 1}\n"},
		`line 1: more after the list`:                                        {"a.json", "[{\"n\": 1}] {}"},
		`line 1: no object of JSON: invalid character ']'`:                   {"a.json", "[{\"n\": 1},]"},
		`line 1: no object of JSON: [2], expected an object`:                 {"a.json", "[[2]]"},
		`line 2: no object of JSON`:                                          {"a.json", "{\"n\": 1}\n{\"n\": 1\n"},
	} {
		path := textFile(t, test[0], test[1])
		message := refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{})
		assert.Contains(t, message, want)
		assert.Contains(t, message, path)
		switch {
		case strings.Contains(want, " is no struct"), strings.Contains(want, "the member"):
			assert.Contains(t, message, "give --infer-rows all, or --exclude 'o' leaves the column out")
		case strings.Contains(want, " is no "):
			assert.Contains(t, message, "the type that the first rows say: give --infer-rows all, or another type, such as --types '")
		}
	}
}

// A message does not suggest what was done already.
func TestMessagesOfTypesSuggestWhatHelps(t *testing.T) {
	defer func() { arrowzarr.TestInput = arrowzarr.InputOptions{} }()
	all := arrowzarr.InputOptions{InferRows: arrowzarr.AllRows}
	given := arrowzarr.InputOptions{InferRows: arrowzarr.AllRows, Types: "n:int64"}
	for want, test := range map[string]struct {
		input arrowzarr.InputOptions
		files map[string]string
	}{
		`"x" is no int64, the type that --types says: give another type, or none`:                                        {given, map[string]string{"a.csv": "n\n1\nx\n"}},
		`"x" is no int64, the type that the first file says: give another type, such as --types 'n:text'`:                {all, map[string]string{"a.csv": "n\n1\n", "b.csv": "n\nx\n"}},
		`column "o": the first file does not have the member "q": --exclude 'o' leaves the column out`:                   {all, map[string]string{"a.json": `{"o": {"p": 1}}`, "b.json": `{"o": {"q": 1}}`}},
		`column "o": member "p": "true" is no int64, the type that the first file says: --exclude 'o' leaves the column`: {all, map[string]string{"a.json": `{"o": {"p": 1}}`, "b.json": `{"o": {"p": true}}`}},
	} {
		folder := t.TempDir()
		for name, content := range test.files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666))
		}
		message := refuse(t, arrowzarr.PartInput, folder, arrowzarr.Options{Input: test.input})
		assert.Contains(t, message, want)
		assert.NotContains(t, message, "--infer-rows")
	}
}

func TestTypesOfTextMayBeGiven(t *testing.T) {
	path := textFile(t, "a.csv", many("zip,n,price,when\n", "12345,1,2.5,2020-01-01\n", "00501,x,1.25,2020-01-01\n"))
	options := arrowzarr.Options{Input: arrowzarr.InputOptions{Types: "zip:text,n:text,price:decimal(9 2),when:timestamp[s]"}}
	output, _ := convertFile(t, path, options)
	verified, err := arrowzarr.Verify(t.Context(), path, output, options)
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
	arrowzarr.TestInput = options.Input
	defer func() { arrowzarr.TestInput = arrowzarr.InputOptions{} }()
	assert.Equal(t, "zip utf8, n utf8, price decimal(9, 2), when timestamp[s]", typesOf(t, path))
	assert.Equal(t, "00501 x 1.25 2020-01-01T00:00:00", last(rowTexts(t, 4, path)))
	for types, want := range map[string]string{"zip": "expected NAME:TYPE", "zip:word": `"word" of column "zip"`, "nothing:text": `no column is named "nothing"`} {
		_, err := arrowzarr.Convert(t.Context(), path, filepath.Join(t.TempDir(), "out"), arrowzarr.Options{Input: arrowzarr.InputOptions{Types: types}})
		require.ErrorContains(t, err, want)
	}
	_, err = arrowzarr.Convert(t.Context(), path, filepath.Join(t.TempDir(), "out"), arrowzarr.Options{Input: arrowzarr.InputOptions{Format: "xml"}})
	require.ErrorContains(t, err, "expected csv, tsv or json")
	for _, delimiter := range []string{"::", "\n", `"`, "\xff"} {
		_, err = arrowzarr.Convert(t.Context(), path, filepath.Join(t.TempDir(), "out"), arrowzarr.Options{Input: arrowzarr.InputOptions{Delimiter: delimiter}})
		require.ErrorContains(t, err, "delimiter", delimiter)
	}
	// The delimiter may be given, too.
	semicolons := textFile(t, "b.csv", "id;price\n1;\"2;5\"\n2;x\n")
	arrowzarr.TestInput = arrowzarr.InputOptions{Delimiter: ";"}
	assert.Equal(t, []string{"1 2;5", "2 x"}, rowTexts(t, 2, semicolons))
	// The format may be given, too.
	path = textFile(t, "a.data", "a;b,c\n1,2\n")
	_, report := convertFile(t, path, arrowzarr.Options{Input: arrowzarr.InputOptions{Format: "csv"}})
	assert.Equal(t, 2, report.Columns)
}

func last[T any](all []T) T { return all[len(all)-1] }

func TestRangesOfTextAreSlicesOfTheWhole(t *testing.T) {
	var lines []string
	for i := range 50 {
		lines = append(lines, fmt.Sprint(i))
	}
	path := textFile(t, "a.csv", "n\n"+strings.Join(lines, "\n"))
	for from := range 52 {
		for _, to := range []int{-1, from, from + 1, from + 20, 50} {
			end := 50
			if to >= 0 {
				end = min(to, 50)
			}
			var got []string
			require.NoError(t, arrowzarr.ReadSource([]string{path}, []int{0}, int64(from), int64(to), func(b arrow.RecordBatch) {
				for i := range int(b.NumRows()) {
					got = append(got, b.Column(0).ValueStr(i))
				}
			}))
			require.Len(t, got, max(end-from, 0))
			if len(got) > 0 {
				require.Equal(t, lines[from:end], got)
			}
		}
	}
}

// The first file says the types of all.
func TestFoldersOfTextHaveOneSchema(t *testing.T) {
	root := sourcetest.WriteFiles(t, map[string][]byte{"k=1/a.csv": []byte("a,b\n1.5,x\n"), "k=2/b.csv": []byte("b,a\ny,2\n"), "k=2/c.csv.gz": gzipped(t, "a,b\n,\n")})
	assert.Equal(t, "a float64, b utf8, k int64", typesOf(t, root))
	assert.Equal(t, []string{"1.5 x 1", "2 y 2", "(null)  2"}, rowTexts(t, 3, root))
	output, report := convertFile(t, root, arrowzarr.Options{})
	assert.EqualValues(t, 3, report.Rows)
	verified, err := arrowzarr.Verify(t.Context(), root, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

func gzipped(t *testing.T, text string) []byte {
	var b bytes.Buffer
	w := kgzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestRowsLongerThanWhatIsReadFirstConvert(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for name, content := range map[string]string{"a.csv": "n,t\n1," + long + "\n2,y\n", "a.json": `{"n": 1, "t": "` + long + "\"}\n{\"n\": 2, \"t\": \"y\"}\n"} {
		path := textFile(t, name, content)
		assert.Equal(t, []string{"1 " + long, "2 y"}, rowTexts(t, 2, path))
	}
	path := textFile(t, "long.json", `{"t": "`+strings.Repeat("x", 20<<20)+`"}`)
	require.ErrorContains(t, arrowzarr.ReadSource([]string{path}, []int{0}, 0, -1, nil), "a row of more than")
}

// withStandardInput makes a file or a pipe with a content standard input.
func withStandardInput(t *testing.T, content []byte, pipe bool) {
	t.Helper()
	before := os.Stdin
	t.Cleanup(func() { os.Stdin = before })
	if !pipe {
		path := inputFile(t, content)
		var err error
		os.Stdin, err = os.Open(path)
		require.NoError(t, err)
		return
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	os.Stdin = r
	go func() {
		_, _ = w.Write(content)
		_ = w.Close()
	}()
}

func TestStandardInputIsReadIfItsFormatCanBe(t *testing.T) {
	columns := tabletest.Numbers(0, 5)
	want := []string{"0", "1", "2", "3", "4"}
	lines := "{\"n\": 0}\n{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n{\"n\": 4}\n"
	for _, pipe := range []bool{true, false} {
		for _, content := range [][]byte{columns.Stream(t), []byte(lines)} {
			withStandardInput(t, content, pipe)
			assert.Equal(t, want, rowTexts(t, 1, "-"))
		}
	}
	for _, content := range [][]byte{columns.File(t), columns.Parquet(t)} {
		withStandardInput(t, content, false)
		assert.Equal(t, want, rowTexts(t, 1, "-"))
	}
	for text, content := range map[string][]byte{
		"standard input is a Parquet file, which cannot be read in order: give it by name":         columns.Parquet(t),
		"standard input is an Arrow IPC file, which cannot be read in order: give it by name":      columns.File(t),
		"standard input is empty: expected":                                                        nil,
		"standard input is neither an Arrow IPC file or stream nor a Parquet file: it starts with": []byte("n\n1\n2\n3\n"),
	} {
		withStandardInput(t, content, true)
		_, err := arrowzarr.DescribeSource("-")
		require.ErrorContains(t, err, text)
	}
	arrowzarr.TestInput.Format = "csv"
	defer func() { arrowzarr.TestInput.Format = "" }()
	withStandardInput(t, []byte("n\n0\n1\n2\n3\n4\n"), true)
	assert.Equal(t, want, rowTexts(t, 1, "-"))
}

// Compression is found by the content, also of a pipe.
func TestCompressedTextIsFoundByItsContent(t *testing.T) {
	arrowzarr.TestInput.Format = "csv"
	defer func() { arrowzarr.TestInput.Format = "" }()
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bz2, err := hex.DecodeString("425a6839314159265359f0e9b971000002c9000010600000012000219a68334d1cb78bb9229c28487874dcb880")
	require.NoError(t, err)
	const text = "n\n0\n1\n"
	for _, content := range [][]byte{[]byte(text), gzipped(t, text), encoder.EncodeAll([]byte(text), nil), bz2} {
		for _, pipe := range []bool{true, false} {
			withStandardInput(t, content, pipe)
			assert.Equal(t, []string{"0", "1"}, rowTexts(t, 1, "-"))
		}
	}
	arrowzarr.TestInput.Format = ""
	_, err = arrowzarr.DescribeSource(textFile(t, "a.arrow.gz", string(gzipped(t, "x"))))
	require.ErrorContains(t, err, "a.arrow.gz is compressed, which only text may be")
}

// Types of all rows hold values that are other than those of the first rows.
func TestAllRowsMaySayTheTypes(t *testing.T) {
	defer func() { arrowzarr.TestInput = arrowzarr.InputOptions{} }()
	lines := many("", "{\"n\": 1, \"o\": {\"p\": 1}}\n", "{\"n\": 1.5, \"o\": {\"q\": 1}, \"m\": \"x\"}\n")
	for name, test := range map[string]struct {
		content, types, last string
		columns              int
	}{
		"a.csv":     {"\xef\xbb\xbf" + many("n,t\n", "1,2020-01-01\n", "x,2020-01-01T10:00\n"), "n utf8, t timestamp[us]", "x 2020-01-01T10:00:00", 2},
		"b.csv":     {"long,n\n" + strings.Repeat(strings.Repeat("x", 1000)+",1\n", 2000) + "x,1.5\n", "long utf8, n float64", "x 1.5", 2},
		"a.json":    {lines, "n float64, o struct<p: int64 nullable, q: int64 nullable>, m utf8", `1.5 {"p":null,"q":1} x`, 3},
		"a.json.gz": {string(gzipped(t, lines)), "n float64, o struct<p: int64 nullable, q: int64 nullable>, m utf8", `1.5 {"p":null,"q":1} x`, 3},
	} {
		path := textFile(t, name, test.content)
		arrowzarr.TestInput = arrowzarr.InputOptions{InferRows: arrowzarr.AllRows}
		assert.Equal(t, test.types, typesOf(t, path))
		assert.Equal(t, test.last, last(rowTexts(t, test.columns, path)))
		options := arrowzarr.Options{Input: arrowzarr.TestInput}
		output, _ := convertFile(t, path, options)
		verified, err := arrowzarr.Verify(t.Context(), path, output, options)
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
		message := refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{})
		assert.Contains(t, message, "give --infer-rows all, or ")
	}
	path := textFile(t, "few.csv", "n\n1\n2\nx\n")
	assert.Contains(t, refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{Input: arrowzarr.InputOptions{InferRows: 2}}), `line 4, column "n": "x" is no int64`)
	withStandardInput(t, []byte(lines), true)
	_, err := arrowzarr.DescribeSource("-")
	require.ErrorContains(t, err, "it can be read only once")
	_, err = arrowzarr.Convert(t.Context(), path, filepath.Join(t.TempDir(), "out"), arrowzarr.Options{Input: arrowzarr.InputOptions{InferRows: -2}})
	requirePart(t, arrowzarr.PartUsage, err)
}

func TestCSVKeepsQuotesAndEndsOfLines(t *testing.T) {
	path := textFile(t, "a.csv", "n,t\r\n1,\"a\r\nb\"\r\n2,5\" disk\r\n3,\"x\" y\r\n")
	assert.Equal(t, []string{"1 a\r\nb", "2 5\" disk", "3 x y"}, rowTexts(t, 2, path))
	path = textFile(t, "a.csv", "n,t\n1,(null)\n") // which is how arrow-go writes a null
	assert.Equal(t, "n int64, t utf8", typesOf(t, path))
	require.NoError(t, arrowzarr.ReadSource([]string{path}, []int{1}, 0, -1, func(b arrow.RecordBatch) { assert.Zero(t, b.Column(0).NullN()) }))
	path = textFile(t, "a.csv", "n,t\r1,a\r2,b\r") // of the first Macintoshes
	assert.Equal(t, "n int64, t utf8", typesOf(t, path))
	assert.Equal(t, []string{"1 a", "2 b"}, rowTexts(t, 2, path))
}

// rowTexts returns the rows of inputs, each as one text.
func rowTexts(t *testing.T, columns int, inputs ...string) (rows []string) {
	t.Helper()
	fields := make([]int, columns)
	for i := range fields {
		fields[i] = i
	}
	err := arrowzarr.ReadSource(inputs, fields, 0, -1, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			var row []string
			for _, c := range b.Columns() {
				row = append(row, c.ValueStr(i))
			}
			rows = append(rows, strings.Join(row, " "))
		}
	})
	require.NoError(t, err)
	return rows
}
