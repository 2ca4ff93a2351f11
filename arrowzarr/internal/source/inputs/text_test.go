package inputs_test

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// textsOf returns an opener of inputs of text, whose types are of as many rows as those of
// other tests unless the options say how many.
func textsOf(text source.TextOptions, names ...string) sourcetest.Opener {
	return func() (source.Source, error) {
		options := sourcetest.Options()
		if text.InferRows == 0 {
			text.InferRows, text.InferHead = options.Text.InferRows, options.Text.InferHead
		}
		options.Text = text
		return inputs.Open(context.Background(), names, options)
	}
}

// A message does not suggest what was done already.
func TestMessagesOfTypesSuggestWhatHelps(t *testing.T) {
	all := source.TextOptions{InferRows: -1}
	given := source.TextOptions{InferRows: -1, Types: "n:int64"}
	for want, test := range map[string]struct {
		text  source.TextOptions
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
		err := sourcetest.ReadAll(textsOf(test.text, folder))
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "--infer-rows")
	}
}

// withStandardInput makes a file or a pipe with a content standard input.
func withStandardInput(t *testing.T, content []byte, pipe bool) {
	t.Helper()
	before := os.Stdin
	t.Cleanup(func() { os.Stdin = before })
	if !pipe {
		path := sourcetest.WriteFile(t, "input", content)
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
			assert.Equal(t, want, sourcetest.Rows(t, inputsOf("-")))
		}
	}
	for _, content := range [][]byte{columns.File(t), columns.Parquet(t)} {
		withStandardInput(t, content, false)
		assert.Equal(t, want, sourcetest.Rows(t, inputsOf("-")))
	}
	for text, content := range map[string][]byte{
		"standard input is a Parquet file, which cannot be read in order: give it by name":         columns.Parquet(t),
		"standard input is an Arrow IPC file, which cannot be read in order: give it by name":      columns.File(t),
		"standard input is empty: expected":                                                        nil,
		"standard input is neither an Arrow IPC file or stream nor a Parquet file: it starts with": []byte("n\n1\n2\n3\n"),
	} {
		withStandardInput(t, content, true)
		_, err := sourcetest.Count(inputsOf("-"))
		require.ErrorContains(t, err, text)
	}
	withStandardInput(t, []byte("n\n0\n1\n2\n3\n4\n"), true)
	assert.Equal(t, want, sourcetest.Rows(t, textsOf(source.TextOptions{Format: "csv"}, "-")))
	withStandardInput(t, []byte(lines), true)
	_, err := sourcetest.Count(textsOf(source.TextOptions{InferRows: -1}, "-"))
	require.ErrorContains(t, err, "it can be read only once")
}

// Compression is found by the content, also of a pipe.
func TestCompressedTextIsFoundByItsContent(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bz2, err := hex.DecodeString("425a6839314159265359f0e9b971000002c9000010600000012000219a68334d1cb78bb9229c28487874dcb880")
	require.NoError(t, err)
	const text = "n\n0\n1\n"
	for _, content := range [][]byte{[]byte(text), sourcetest.Gzip(t, text), encoder.EncodeAll([]byte(text), nil), bz2} {
		for _, pipe := range []bool{true, false} {
			withStandardInput(t, content, pipe)
			assert.Equal(t, []string{"0", "1"}, sourcetest.Rows(t, textsOf(source.TextOptions{Format: "csv"}, "-")))
		}
	}
	_, err = sourcetest.Count(inputsOf(sourcetest.WriteFile(t, "a.arrow.gz", sourcetest.Gzip(t, "x"))))
	require.ErrorContains(t, err, "a.arrow.gz is compressed, which only text may be")
}
