package arrowzarr_test

import (
	"bytes"
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
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

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
		path := sourcetest.WriteFile(t, name, []byte(text))
		assert.Equal(t, want, sourcetest.Rows(t, sourceOf(arrowzarr.InputOptions{}, path)), name)
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
		path := sourcetest.WriteFile(t, name, []byte(content))
		assert.Equal(t, "id int64, tags list<item: utf8, nullable>, at struct<x: float64 nullable, when: timestamp[us, tz=UTC] nullable, y: utf8 nullable>, ok bool, late utf8", sourcetest.Types(t, sourceOf(arrowzarr.InputOptions{}, path)))
		assert.Equal(t, []string{
			`1 ["a","b"] {"when":"2020-01-02T03:04:05Z","x":1.5,"y":null} true (null)`,
			`2 [] {"when":null,"x":2,"y":null} (null) (null)`,
			`(null) [null] (null) (null) x`,
		}, sourcetest.Rows(t, sourceOf(arrowzarr.InputOptions{}, path)))
		output, report := convertFile(t, path, arrowzarr.Options{})
		assert.Equal(t, "JSON lines", report.Format)
		verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
	}
}

// DuckDB reads such columns as JSON, too.
func TestJSONOfSeveralKindsStaysJSON(t *testing.T) {
	path := sourcetest.WriteFile(t, "a.json", []byte(`{"v": {"a": 1.50}, "l": [1, [2]]}
{"v": [1, "x"], "l": null}
{"v": "t", "l": []}
{"v": null}
{"v": 1e2, "l": ["y"]}
`))
	schema := sourcetest.Info(t, sourceOf(arrowzarr.InputOptions{}, path)).Schema
	assert.Equal(t, "extension<arrow.json[storage_type=utf8]>", schema.Field(0).Type.String())
	assert.Equal(t, []string{`{"a":1.50} [1,[2]]`, `[1,"x"] (null)`, `"t" []`, `null (null)`, `1e2 ["y"]`}, sourcetest.Rows(t, sourceOf(arrowzarr.InputOptions{}, path)))
	require.NoError(t, sourcetest.Read(sourceOf(arrowzarr.InputOptions{}, path), []int{0}, source.WholeInput, func(b arrow.RecordBatch) { assert.Equal(t, 1, b.Column(0).NullN()) }))
	output, _ := convertFile(t, path, arrowzarr.Options{})
	verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

func TestTypesOfTextMayBeGiven(t *testing.T) {
	path := sourcetest.WriteFile(t, "a.csv", []byte(sourcetest.LateRow("zip,n,price,when\n", "12345,1,2.5,2020-01-01\n", "00501,x,1.25,2020-01-01\n")))
	options := arrowzarr.Options{Input: arrowzarr.InputOptions{Types: "zip:text,n:text,price:decimal(9 2),when:timestamp[s]"}}
	output, _ := convertFile(t, path, options)
	verified, err := arrowzarr.Verify(t.Context(), path, output, options)
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
	assert.Equal(t, "zip utf8, n utf8, price decimal(9, 2), when timestamp[s]", sourcetest.Types(t, sourceOf(options.Input, path)))
	assert.Equal(t, "00501 x 1.25 2020-01-01T00:00:00", last(sourcetest.Rows(t, sourceOf(options.Input, path))))
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
	semicolons := sourcetest.WriteFile(t, "b.csv", []byte("id;price\n1;\"2;5\"\n2;x\n"))
	assert.Equal(t, []string{"1 2;5", "2 x"}, sourcetest.Rows(t, sourceOf(arrowzarr.InputOptions{Delimiter: ";"}, semicolons)))
	// The format may be given, too.
	path = sourcetest.WriteFile(t, "a.data", []byte("a;b,c\n1,2\n"))
	_, report := convertFile(t, path, arrowzarr.Options{Input: arrowzarr.InputOptions{Format: "csv"}})
	assert.Equal(t, 2, report.Columns)
}

func last[T any](all []T) T { return all[len(all)-1] }

// The first file says the types of all.
func TestFoldersOfTextHaveOneSchema(t *testing.T) {
	root := sourcetest.WriteFiles(t, map[string][]byte{"k=1/a.csv": []byte("a,b\n1.5,x\n"), "k=2/b.csv": []byte("b,a\ny,2\n"), "k=2/c.csv.gz": sourcetest.Gzip(t, "a,b\n,\n")})
	assert.Equal(t, "a float64, b utf8, k int64", sourcetest.Types(t, sourceOf(arrowzarr.InputOptions{}, root)))
	assert.Equal(t, []string{"1.5 x 1", "2 y 2", "(null)  2"}, sourcetest.Rows(t, sourceOf(arrowzarr.InputOptions{}, root)))
	output, report := convertFile(t, root, arrowzarr.Options{})
	assert.EqualValues(t, 3, report.Rows)
	verified, err := arrowzarr.Verify(t.Context(), root, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

// Types of all rows hold values that are other than those of the first rows.
func TestAllRowsMaySayTheTypes(t *testing.T) {
	lines := sourcetest.LateRow("", "{\"n\": 1, \"o\": {\"p\": 1}}\n", "{\"n\": 1.5, \"o\": {\"q\": 1}, \"m\": \"x\"}\n")
	for name, test := range map[string]struct {
		content, types, last string
		columns              int
	}{
		"a.csv":     {"\xef\xbb\xbf" + sourcetest.LateRow("n,t\n", "1,2020-01-01\n", "x,2020-01-01T10:00\n"), "n utf8, t timestamp[us]", "x 2020-01-01T10:00:00", 2},
		"b.csv":     {"long,n\n" + strings.Repeat(strings.Repeat("x", 1000)+",1\n", 2000) + "x,1.5\n", "long utf8, n float64", "x 1.5", 2},
		"a.json":    {lines, "n float64, o struct<p: int64 nullable, q: int64 nullable>, m utf8", `1.5 {"p":null,"q":1} x`, 3},
		"a.json.gz": {string(sourcetest.Gzip(t, lines)), "n float64, o struct<p: int64 nullable, q: int64 nullable>, m utf8", `1.5 {"p":null,"q":1} x`, 3},
	} {
		path := sourcetest.WriteFile(t, name, []byte(test.content))
		options := arrowzarr.Options{Input: arrowzarr.InputOptions{InferRows: arrowzarr.AllRows}}
		assert.Equal(t, test.types, sourcetest.Types(t, sourceOf(options.Input, path)))
		assert.Equal(t, test.last, last(sourcetest.Rows(t, sourceOf(options.Input, path))))
		output, _ := convertFile(t, path, options)
		verified, err := arrowzarr.Verify(t.Context(), path, output, options)
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
		message := refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{})
		assert.Contains(t, message, "give --infer-rows all, or ")
		assert.Contains(t, message, path)
	}
	path := sourcetest.WriteFile(t, "few.csv", []byte("n\n1\n2\nx\n"))
	assert.Contains(t, refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{Input: arrowzarr.InputOptions{InferRows: 2}}), `line 4, column "n": "x" is no int64`)
	_, err := arrowzarr.Convert(t.Context(), path, filepath.Join(t.TempDir(), "out"), arrowzarr.Options{Input: arrowzarr.InputOptions{InferRows: -2}})
	requirePart(t, arrowzarr.PartUsage, err)
}
