// Package docs checks the tables of this folder against the tree.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named finds a test in a cell: its package's folder, a dot, its name.
var named = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Example)\\w*)`")

// tables say which rows a document has, in which order.
var tables = map[string][]string{
	"pyarrow-cuda.md": numbers("", 44),
	"zarr-buffers.md": {
		"Buffer(a)", "create_zero_length", "from_array_like", "from_buffer", "from_bytes", "as_array_like", "as_numpy_array", "as_buffer_like", "to_bytes", "b[i:j]", "b[i:j] = v", "key check", "len(b)", "combine, +", "==",
		"create", "empty", "from_ndarray_like, from_numpy_array", "as_ndarray_like, as_numpy_array", "as_scalar", "dtype, shape", "byteorder", "reshape", "squeeze", "astype", "a[key]", "a[key] = v", "len(a)", "repr(a)", "fill", "copy, transpose", "==, hash of arrays",
		"None, and the zero path", "signed zeros", "NaN", "other dtypes and shapes", "chunk_is_empty", "on a GPU",
		"gpu.Buffer without CuPy", "device, stream, pool", "registered names",
		"BufferPrototype", "default_buffer_prototype", "enable_gpu", "metadata", "as_numpy_array_wrapper", "what breaks on a GPU",
		"#2863, #1398", "numcodecs #316, #492", "#3271", "#2658", "#3640", "#3429, #1751, #2904", "#2978", "#3261", "#2574", "pg_gpu #271", "kvikio #297, #310", "#3060", "#2710, #2084", "zarrs-python #68, acquire-zarr #157", "Samudra #377, nvcomp #80", "zarrista #29, #34, #35",
	},
	"pygpu.md": concat(
		numbers("G", 16), numbers("K", 4), numbers("A", 4),
		numbers("E", 6), numbers("R", 3), numbers("T", 2), []string{"D1", "P1"}, numbers("N", 3), numbers("O", 4), numbers("B", 5),
		numbers("I", 10), numbers("S", 5), numbers("F", 6), numbers("RS", 12), numbers("L", 14),
		[]string{"ptr", "kind", "devname", "unique_id", "lmemsize", "numprocs", "bin_id", "total_gmem, free_gmem", "maxlsize0-2", "maxgsize0-2", "largest_memblock"},
		[]string{"dev", "sched", "context", "single_stream", "max_cache_size", "initial_cache_size", "kernel_cache_path"},
		numbers("M", 5), numbers("V", 6),
		[]string{"memory", "extcopy", "disk"},
		numbers("EW", 10), numbers("RD", 5), numbers("BL", 7), []string{"C1", "C2"}, numbers("CC", 8), numbers("X", 18),
	),
}

func numbers(prefix string, to int) []string {
	var rows []string
	for i := 1; i <= to; i++ {
		rows = append(rows, fmt.Sprintf("%s%d", prefix, i))
	}
	return rows
}

func concat(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func TestTablesHaveEveryRowAndAProofOfEach(t *testing.T) {
	for document, want := range tables {
		t.Run(document, func(t *testing.T) {
			text, err := os.ReadFile(document)
			require.NoError(t, err)
			var got []string
			table, _, found := strings.Cut(string(text), namesHeading)
			require.True(t, found, "no section %q", namesHeading)
			for _, line := range strings.Split(table, "\n") {
				if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| row |") {
					continue
				}
				cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "| "), "\\|", "¦"), " | ")
				require.Len(t, cells, 4, "row, upstream, ours, proof: %s", line)
				row, proof := strings.Trim(cells[0], "` "), cells[3]
				got = append(got, row)
				if !named.MatchString(proof) && !strings.HasPrefix(proof, "not yet: ") && !strings.HasPrefix(proof, "none: ") {
					assert.Fail(t, "no proof", "row %s names no test, and does not begin with \"not yet: \" or \"none: \" and a reason: %s", row, proof)
				}
			}
			assert.Equal(t, want, got)
		})
	}
}

// namesHeading begins the table of a document that has every name of testdata/*.txt.
const namesHeading = "\n## Names and parameters\n"

// parameterNames returns the names of the parameters of a signature such as
// "f(a, b=(1, 2), *args)".
func parameterNames(signature string) []string {
	_, list, _ := strings.Cut(strings.TrimSuffix(signature, ")"), "(")
	var names []string
	depth, start := 0, 0
	quoted := false
	for i := 0; i <= len(list); i++ {
		switch {
		case i < len(list) && list[i] == '"':
			quoted = !quoted
		case i < len(list) && (quoted || list[i] != ',' && list[i] != '(' && list[i] != ')'):
		case i < len(list) && list[i] != ',':
			depth += map[byte]int{'(': 1, ')': -1}[list[i]]
		case depth == 0:
			name, _, _ := strings.Cut(list[start:min(i, len(list))], "=")
			if name = strings.Trim(name, " *"); name != "" {
				names = append(names, name)
			}
			start = i + 1
		}
	}
	return names
}

func TestParameterNames(t *testing.T) {
	for signature, want := range map[string][]string{
		"name": nil, "f()": nil, "f(a)": {"a"}, `f(a, b=(1, 2), op="x, y (z", *args, **rest)`: {"a", "b", "op", "args", "rest"},
	} {
		assert.Equal(t, want, parameterNames(signature), signature)
	}
}

// The lists hold the names of the upstream packages; testdata/upstream_names.py makes them.
func TestEveryUpstreamNameAndParameterHasARow(t *testing.T) {
	for document := range tables {
		t.Run(document, func(t *testing.T) {
			text, err := os.ReadFile(document)
			require.NoError(t, err)
			list, err := os.ReadFile(filepath.Join("testdata", strings.TrimSuffix(document, ".md")+".txt"))
			require.NoError(t, err)
			before, table, found := strings.Cut(string(text), namesHeading)
			require.True(t, found)
			rows := map[string]bool{}
			for _, line := range strings.Split(before, "\n") {
				if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
					rows[strings.Trim(cell, "` ")] = true
				}
			}
			listed := map[string]int{}
			for _, signature := range strings.Split(strings.TrimSpace(string(list)), "\n") {
				listed[signature] = 0
			}
			for _, line := range strings.Split(table, "\n") {
				if !strings.HasPrefix(line, "| `") {
					continue
				}
				cells := strings.Split(strings.Trim(line, "| "), " | ")
				require.Len(t, cells, 3, line)
				for _, signature := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
					_, ok := listed[signature[1]]
					assert.True(t, ok, "upstream has no %s", signature[1])
					listed[signature[1]]++
					for _, parameter := range parameterNames(signature[1]) {
						assert.Contains(t, cells[1], "`"+parameter+"`", "a parameter of %s", signature[1])
					}
				}
				for _, proof := range strings.Split(cells[2], "; ") {
					if strings.HasPrefix(cells[2], "none: ") {
						break
					}
					assert.True(t, rows[proof] || named.MatchString(proof), "%s: %q is no row of a table above, no test, and no reason after \"none: \"", cells[0], proof)
				}
			}
			for signature, n := range listed {
				assert.Equal(t, 1, n, "rows with %s", signature)
			}
		})
	}
}

// The lists are those of the installed packages, at the versions of requirements.txt.
func TestNamesAreThoseOfTheInstalledPackages(t *testing.T) {
	python, err := filepath.Abs("../.venv/bin/python")
	require.NoError(t, err)
	if _, err := os.Stat("../.venv/.installed"); err != nil {
		t.Skip("needs Python's packages: `make interop` installs them")
	}
	for _, name := range []string{"pyarrow-cuda", "zarr-buffers"} {
		got, err := exec.Command(python, "testdata/upstream_names.py", name).CombinedOutput()
		require.NoError(t, err, "%s", got)
		want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), name)
	}
}

func TestTestsThatDocumentsNameExist(t *testing.T) {
	tests := map[string]string{} // the sources of a package's tests
	for document, text := range documents(t) {
		for _, name := range named.FindAllStringSubmatch(text, -1) {
			folder := name[1]
			if _, ok := tests[folder]; !ok {
				tests[folder] = sources(t, folder)
			}
			if !strings.Contains(tests[folder], "\nfunc "+name[2]+"(") {
				assert.Fail(t, "no such test", "%s names %s.%s", document, folder, name[2])
			}
		}
	}
}

// A document may also name a test alone.
func TestBareTestNamesExist(t *testing.T) {
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var text []byte
			text, err = os.ReadFile(path)
			all.Write(text)
		}
		if entry.IsDir() && path != ".." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	require.NoError(t, err)
	for document, text := range documents(t) {
		for _, m := range regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			assert.True(t, strings.Contains(all.String(), "\nfunc "+m[1]+"("), "%s: %s does not exist", document, m[1])
		}
	}
}

func sources(t *testing.T, folder string) string {
	paths, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all.WriteString("\n")
		all.Write(text)
	}
	return all.String()
}

// The library example of README.md is a program of examples, which is compiled and run.
func TestReadmeExampleIsOneOfExamples(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block, "README.md has no Go example")
	source, err := os.ReadFile("../examples/arrays/main.go")
	require.NoError(t, err)
	body := regexp.MustCompile(`(?s)\nfunc main\(\) \{\n(.*?)\n\}\n`).FindSubmatch(source)
	require.NotNil(t, body, "examples/arrays has no main")
	assert.Equal(t, strings.ReplaceAll(string(body[1]), "\n\t", "\n")+"\n", "\t"+string(block[1]))
}
