package arrowzarr_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/internal/s3test"
	"github.com/quiver-gpu/quiver/zarr/store"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"
)

func TestInputsOfOtherFormatsAreRefused(t *testing.T) {
	columns := tabletest.RandomTable(1, []int{20, 20}, 0.3)
	file, stream := columns.File(t), columns.Stream(t)
	parquet := tabletest.Single("a", tabletest.Texts("x", "y")).Parquet(t)
	footer := make([]byte, 8)
	binary.LittleEndian.PutUint32(footer, 1<<31-1)
	tests := map[string]struct {
		content []byte
		want    string
	}{
		"empty":                      {nil, "is empty: expected an Arrow IPC file or stream, a Parquet file, CSV or JSON lines"},
		"text":                       {[]byte("name,value\na,1\n"), "is neither an Arrow IPC file or stream nor a Parquet file"},
		"one byte":                   {[]byte{0xff}, "is neither an Arrow IPC file or stream nor a Parquet file"},
		"Feather version 1":          {[]byte("FEA1....and more"), "Feather version 1"},
		"IPC file cut in half":       {file[:len(file)/2], "Arrow IPC file"},
		"IPC file without its end":   {file[:len(file)-1], "Arrow IPC file"},
		"IPC file of its magic":      {[]byte("ARROW1\x00\x00"), "Arrow IPC file"},
		"IPC stream cut in schema":   {stream[:100], "Arrow IPC stream"},
		"IPC stream cut in a batch":  {stream[:len(stream)*2/3], ""},
		"IPC stream with a tail":     {append(stream[:len(stream)-8:len(stream)-8], "garbage follows"...), ""},
		"continuation only":          {[]byte{0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0}, "Arrow IPC stream"},
		"Parquet cut in half":        {parquet[:len(parquet)/2], "Parquet file"},
		"Parquet of its magic":       {[]byte("PAR1"), "Parquet file"},
		"Parquet with a long footer": {append(append([]byte("PAR1"), footer[:4]...), "PAR1"...), "Parquet file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			message := refuse(t, arrowzarr.PartInput, inputFile(t, test.content), arrowzarr.Options{})
			assert.Contains(t, message, test.want)
			assert.NotContains(t, message, "goroutine")
		})
	}
}

func TestInputsThatCannotBeOpenedAreRefused(t *testing.T) {
	dir := t.TempDir()
	assert.Contains(t, refuse(t, arrowzarr.PartInput, dir, arrowzarr.Options{}), "has no files: expected files of Arrow, Parquet, CSV or JSON lines")
	missing := filepath.Join(dir, "missing.arrow")
	assert.Contains(t, refuse(t, arrowzarr.PartInput, missing, arrowzarr.Options{}), missing)
	secret := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	require.NoError(t, os.Chmod(secret, 0))
	if _, err := os.ReadFile(secret); err == nil {
		t.Skip("this user reads everything")
	}
	assert.Contains(t, refuse(t, arrowzarr.PartInput, secret, arrowzarr.Options{}), "permission denied")
}

// An output that lies in the folder of the input is not read as files.
func TestFoldersWithZarrHierarchiesAreRefused(t *testing.T) {
	dir := sourcetest.WriteFiles(t, map[string][]byte{"a.arrow": tabletest.Numbers(0, 5).File(t)})
	inside := filepath.Join(dir, "out.zarr")
	_, err := arrowzarr.Convert(t.Context(), dir, inside, arrowzarr.Options{})
	require.NoError(t, err)
	_, err = arrowzarr.Convert(t.Context(), dir, filepath.Join(t.TempDir(), "out.zarr"), arrowzarr.Options{})
	requirePart(t, arrowzarr.PartInput, err)
	require.ErrorContains(t, err, inside+" is a Zarr hierarchy")
	_, err = arrowzarr.Convert(t.Context(), "", filepath.Join(t.TempDir(), "out.zarr"), arrowzarr.Options{})
	requirePart(t, arrowzarr.PartInput, err)
	require.ErrorContains(t, err, "the name of the input is empty")
}

// Each file is open twice, once for its metadata, and two at a time are open for reading.
func TestManySmallFilesConvert(t *testing.T) {
	n := 3000 // more than a process may open by default
	if testing.Short() {
		n = 500
	}
	root := t.TempDir()
	content := tabletest.Numbers(0, 1).Parquet(t)
	for i := range n {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%05d.parquet", i)), content, 0o666))
	}
	output, report := convertFile(t, root, arrowzarr.Options{})
	assert.EqualValues(t, n, report.Rows)
	verified, err := arrowzarr.Verify(t.Context(), root, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

func TestObjectsConvert(t *testing.T) {
	s3test.SetCredentials(t)
	at := s3test.Serve(t, nil)
	bucket, err := store.Open(t.Context(), at(""))
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(bucket)) }()
	columns := tabletest.Numbers(0, 801)
	for name, content := range map[string][]byte{"a.arrow": columns.File(t), "a.arrows": columns.Stream(t)} {
		require.NoError(t, bucket.Set(t.Context(), name, content))
		output, report := convertFile(t, at(name), arrowzarr.Options{})
		assert.EqualValues(t, 801, report.Rows)
		verified, err := arrowzarr.Verify(t.Context(), at(name), output, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
	}
	contents, err := arrowzarr.Inspect(t.Context(), at("a.arrow"), arrowzarr.InspectOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 801, contents.Rows)
}

func TestErrorsOfURLsHaveNoSecrets(t *testing.T) {
	_, err := arrowzarr.Convert(t.Context(), "ftp://user:secret@host/a.arrow?key=hidden", filepath.Join(t.TempDir(), "out.zarr"), arrowzarr.Options{})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

var update = flag.Bool("update", false, "write testdata/malformed.tsv again")

// malformedTable is the file with the result for each malformed file.
const malformedTable = "testdata/malformed.tsv"

const malformedHeader = "# What becomes of files that fuzzers and bugs made: input (refused, exit code 3)\n" +
	"# or right (converted, to what arrow-go reads). go test -run Malformed -update\n" +
	"# writes this file.\n#\n# file\toutcome\tmessage\n"

func init() { tasks["convert and compare"] = convertAndCompare }

// convertAndCompare converts an input and compares the output with what arrow-go reads.
func convertAndCompare(input, output string) outcome {
	_, err := arrowzarr.Convert(context.Background(), input, output, arrowzarr.Options{})
	o := result(err)
	if err == nil {
		o.Wrong = differs(input, output)
	}
	return o
}

// differs describes how an output differs from what arrow-go reads. It is empty if they
// are equal.
func differs(input, output string) (how string) {
	t := &recorder{}
	defer func() {
		if p := recover(); p != nil && p != any(t) {
			how = fmt.Sprint("reading panics: ", p)
		} else if len(t.failures) > 0 {
			how = strings.Join(t.failures, "\n")
		}
	}()
	want := readTable(t, input)
	requireTable(t, want, output)
	return ""
}

// Every malformed file is refused or converted to what arrow-go reads, as the table says.
// The process does not panic, and takes less than 20 s and 2 GiB.
func TestMalformedFilesAreRefusedOrConvertedRight(t *testing.T) {
	root := filepath.Join("..", "..", "shared", "data")
	var found []string
	for _, pattern := range []string{"arrow-testing/arrow-ipc-file/*", "arrow-testing/arrow-ipc-stream/*", "parquet-testing/bad/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		found = append(found, files...)
	}
	found = slices.DeleteFunc(found, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.IsDir() || strings.HasSuffix(path, ".md")
	})
	if len(found) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("no malformed files")
		}
		t.Skip("no malformed files")
	}
	known := readMalformedTable(t)
	lines := make([]string, len(found))
	t.Run("files", func(t *testing.T) {
		for i, path := range found {
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				o := inChild(t, "convert and compare", path, filepath.Join(dir, "output.zarr"))
				assert.Less(t, o.PeakRSS, int64(2<<30))
				assert.Empty(t, o.Wrong)
				got := describe(o, path)
				lines[i] = name + "\t" + got
				if o.Message == "" {
					requireOnly(t, dir, "output.zarr")
				} else {
					assert.Equal(t, arrowzarr.PartInput, o.Part, o.Message)
					requireOnly(t, dir)
				}
				assert.NotContains(t, o.Message, "goroutine ")
				if !*update {
					assert.Equal(t, known[name], got)
				}
			})
		}
	})
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(malformedTable), 0o777))
		require.NoError(t, os.WriteFile(malformedTable, []byte(malformedHeader+strings.Join(lines, "\n")+"\n"), 0o666))
		return
	}
	assert.Len(t, known, len(found), "the table and the folders have the same files")
}

// describe returns an outcome in one line, with the start of the message.
func describe(o outcome, path string) string {
	if o.Message == "" {
		return "right\t"
	}
	message, _, _ := strings.Cut(o.Message, "\n")
	message = strings.ReplaceAll(message, path, "FILE")
	return "input\t" + message[:min(len(message), 90)]
}

func readMalformedTable(t *testing.T) map[string]string {
	t.Helper()
	known := map[string]string{}
	raw, err := os.ReadFile(malformedTable)
	if *update && err != nil {
		return known
	}
	require.NoError(t, err)
	for line := range bytes.Lines(raw) {
		if name, rest, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\t"); ok && !strings.HasPrefix(name, "#") {
			known[name] = rest
		}
	}
	return known
}
