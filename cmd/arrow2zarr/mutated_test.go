package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedInput is a valid input, or one that fuzzers of other projects found.
type seedInput struct {
	name    string
	content []byte
}

// seedInputs returns small inputs of every format, by their origin.
func seedInputs(t *testing.T) [][]seedInput {
	t.Helper()
	shared := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(shared); err != nil && os.Getenv("CI") != "" {
		t.Fatalf("%s is absent, and CI is set", shared)
	}
	groups := [][]seedInput{{{"weather", stream(t, weather())}, {"numbers", stream(t, numbers(50))}}, textSeeds()}
	for _, pattern := range []string{
		"arrow-testing/arrow-ipc-stream/integration/*/*.stream", "arrow-testing/arrow-ipc-stream/integration/*/*.arrow_file",
		"arrow-testing/arrow-ipc-stream/*-*", "arrow-testing/arrow-ipc-file/*-*", "parquet-testing/*.parquet", "parquet-testing/*/*.parquet",
	} {
		paths, err := filepath.Glob(filepath.Join(shared, pattern))
		require.NoError(t, err)
		var seeds []seedInput
		for _, path := range paths {
			info, err := os.Stat(path)
			require.NoError(t, err)
			if info.IsDir() || info.Size() == 0 || info.Size() > 100_000 {
				continue
			}
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			seeds = append(seeds, seedInput{filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)), content})
		}
		if len(seeds) > 0 {
			groups = append(groups, seeds)
		}
	}
	return groups
}

// textSeeds returns CSV and JSON lines, whose formats their names tell.
func textSeeds() []seedInput {
	var csv, lines strings.Builder
	csv.WriteString("id,name,when,value,flag\n")
	for i := range 40 {
		fmt.Fprintf(&csv, "%d,\"text, %d\",2024-01-%02d,%g,%t\n", i, i, i%28+1, float64(i)/8, i%3 == 0)
		fmt.Fprintf(&lines, `{"id": %d, "name": "t\u00e4xt %d", "list": [%d, null, 2.5], "in": {"a": %t, "b": null}}`+"\n", i, i, i, i%3 == 0)
	}
	return []seedInput{{"table.csv", []byte(csv.String())}, {"table.jsonl", []byte(lines.String())}}
}

// mutate returns a copy of an input with some bytes changed, added, moved or removed. Some
// bytes come from the other input.
func mutate(rng *rand.Rand, content, other []byte) []byte {
	m := slices.Clone(content)
	// Half of the changes are near an end, where the metadata is.
	position := func() int {
		near := min(len(m), 1024)
		switch rng.IntN(4) {
		case 0:
			return rng.IntN(near)
		case 1:
			return len(m) - 1 - rng.IntN(near)
		}
		return rng.IntN(len(m))
	}
	numbers := []uint64{0, 1, 2, 127, 128, 255, 1 << 15, 1 << 31, 1<<31 - 1, 1 << 32, 1<<32 - 1, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1}
	for range 1 + rng.IntN(6) {
		if len(m) == 0 {
			break
		}
		at := position()
		size := min(1+rng.IntN(64), len(m)-at)
		switch rng.IntN(10) {
		case 0, 1:
			m[at] ^= 1 << rng.IntN(8)
		case 2, 3:
			m[at] = byte(numbers[rng.IntN(len(numbers))])
		case 4, 5:
			var raw [8]byte
			binary.LittleEndian.PutUint64(raw[:], numbers[rng.IntN(len(numbers))])
			at -= at % 4
			copy(m[at:], raw[:4<<rng.IntN(2)])
		case 6:
			m = m[:at]
		case 7:
			m = slices.Delete(m, at, at+size)
		case 8:
			m = slices.Insert(m, at, slices.Clone(m[at:at+size])...)
		default:
			from := rng.IntN(len(other))
			copy(m[at:], other[from:min(from+size, len(other))])
		}
	}
	return m
}

// A mutated input is converted, and then equals its output, or refused as malformed:
// without a crash, a hang, a large allocation, or any file left behind.
func TestMutatedInputsConvertOrAreRefused(t *testing.T) {
	count := 400
	if testing.Short() {
		count = 100
	}
	if n, err := strconv.Atoi(os.Getenv("QUIVER_MUTATED_INPUTS")); err == nil {
		count = n
	}
	first, _ := strconv.Atoi(os.Getenv("QUIVER_MUTATED_FIRST"))
	groups := seedInputs(t)
	// The peak of resident memory is counted from here on.
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200))
	converted := 0
	for n := first; n < first+count; n++ {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		seeds := groups[rng.IntN(len(groups))]
		seed := seeds[rng.IntN(len(seeds))]
		content := mutate(rng, seed.content, seeds[rng.IntN(len(seeds))].content)
		if wrong := tryMutated(t, content, filepath.Ext(seed.name), &converted); wrong != "" {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("mutated-%d", n))
			require.NoError(t, os.WriteFile(kept, content, 0o666))
			t.Errorf("input %d, of %s, kept as %s: %s", n, seed.name, kept, wrong)
		}
	}
	t.Logf("%d of %d inputs were converted", converted, count)
	if !raceDetector {
		require.Less(t, peakRSS(t, "/proc/self/status"), int64(1<<30))
	}
}

// tryMutated converts an input, whose name has an extension, and returns what is wrong.
func tryMutated(t *testing.T, content []byte, extension string, converted *int) string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	input, output := filepath.Join(dir, "input"+extension), filepath.Join(dir, "output.zarr")
	require.NoError(t, os.WriteFile(input, content, 0o666))

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run, wrong := runWithin(t, 30*time.Second, "convert", input, output, "--max-memory", "256MiB", "--codec", "none", "--no-progress")
	if wrong != "" {
		return wrong
	}
	runtime.ReadMemStats(&after)
	// arrow-go takes up to 16 MiB per column for a page header that it cannot parse, one
	// after the other.
	if took := int64(after.TotalAlloc - before.TotalAlloc); took > 2<<30 {
		return fmt.Sprintf("%d bytes were allocated for an input of %d", took, len(content))
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	if run.code == exitInput {
		if len(left) != 1 {
			return fmt.Sprintf("left behind: %v", left)
		}
		return ""
	}
	if run.code != exitOK || len(left) != 2 {
		return fmt.Sprintf("exit code %d, left %v: %s", run.code, left, run.stderr)
	}
	*converted++
	run, wrong = runWithin(t, 30*time.Second, "verify", input, output)
	if wrong == "" && run.code != exitOK {
		wrong = fmt.Sprintf("verify: exit code %d: %s%s", run.code, run.stdout, run.stderr)
	}
	return wrong
}

// A table of which a file is mutated is restored, or refused as malformed.
func TestMutatedTablesAreRestoredOrRefused(t *testing.T) {
	count := 120
	if testing.Short() {
		count = 30
	}
	if n, err := strconv.Atoi(os.Getenv("QUIVER_MUTATED_INPUTS")); err == nil {
		count = n
	}
	first, _ := strconv.Atoi(os.Getenv("QUIVER_MUTATED_FIRST"))
	var tables []string
	for _, group := range seedInputs(t) {
		for _, seed := range group {
			output := outputPath(t)
			if arrow2zarr(t, "convert", inputFile(t, seed.content), output, "--chunk-rows", "20").code == exitOK {
				tables = append(tables, output)
			}
		}
	}
	restored := 0
	for n := first; n < first+count; n++ {
		rng := rand.New(rand.NewPCG(2, uint64(n)))
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(t, err)
		table := filepath.Join(dir, "table.zarr")
		require.NoError(t, os.CopyFS(table, os.DirFS(tables[rng.IntN(len(tables))])))
		var files []string
		require.NoError(t, filepath.WalkDir(table, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, path)
			}
			return err
		}))
		path := files[rng.IntN(len(files))]
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		other, err := os.ReadFile(files[rng.IntN(len(files))])
		require.NoError(t, err)
		if len(content) == 0 || len(other) == 0 {
			continue
		}
		require.NoError(t, os.WriteFile(path, mutate(rng, content, other), 0o666))
		output := filepath.Join(dir, []string{"out.arrow", "out.arrows"}[rng.IntN(2)])
		run, wrong := runWithin(t, 30*time.Second, "restore", table, output)
		_, err = os.Stat(output)
		switch {
		case wrong != "":
		case run.code == exitOK && err == nil:
			restored++
		case run.code != exitInput || err == nil:
			wrong = fmt.Sprintf("exit code %d, output %v: %s", run.code, err, run.stderr)
		}
		if wrong != "" {
			t.Errorf("table %d, with a change of %s: %s", n, strings.TrimPrefix(path, dir), wrong)
		}
		require.NoError(t, os.RemoveAll(dir))
	}
	t.Logf("%d of %d tables were restored", restored, count)
}

// runWithin runs the command, and returns what is wrong with how it ended: too late, or
// with a message that is not for people.
func runWithin(t *testing.T, limit time.Duration, args ...string) (o outcome, wrong string) {
	t.Helper()
	done := make(chan outcome, 1)
	go func() { done <- arrow2zarr(t, args...) }()
	select {
	case o = <-done:
	case <-time.After(limit):
		t.Fatalf("%q takes more than %v", args, limit)
	}
	for _, internal := range []string{"runtime error", "panic", "goroutine ", ".go:"} {
		if strings.Contains(o.stderr, internal) {
			wrong = fmt.Sprintf("exit code %d, with a message about internals: %s", o.code, o.stderr)
		}
	}
	return o, wrong
}
