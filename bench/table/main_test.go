package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sample = `{
	"machine": {"name": "m", "cpu": "a cpu", "gpu": "", "driver": "", "versions": {"go": "1"}, "commit": "abc", "date": "DATE"},
	"tests": {"passed": 3, "failed": 0, "skipped": 1},
	"records": [
		{"name": "fast", "unit": "GB/s", "value": 6, "peer": "other", "peer_value": 2, "ratio": 3, "command": "run"},
		{"name": "near", "unit": "GB/s", "value": 9, "limit": "copy: 10 GB/s", "share": 0.9, "command": "run"}
	]
}`

func write(t *testing.T, folder, name, date string) {
	t.Helper()
	text := strings.Replace(sample, "DATE", date, 1)
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
}

func TestNewestOfEachMachineAndTopicIsPrinted(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "2026-01-02-my-box-convert.json", "2026-01-02")
	write(t, folder, "2026-01-10-my-box-convert.json", "2026-01-10")
	write(t, folder, "2026-01-01-gpu-convert.json", "2026-01-01")
	write(t, folder, "2025-12-31-my-box-tests.json", "2025-12-31")
	var out strings.Builder
	require.NoError(t, run(&out, folder))
	assert.Equal(t, 2, strings.Count(out.String(), "convert, "))
	assert.Contains(t, out.String(), "convert, 2026-01-10, commit abc")
	assert.NotContains(t, out.String(), "2026-01-02")
	assert.Contains(t, out.String(), "tests, 2025-12-31")
}

func TestRecordsShowOnlyPresentFields(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "2026-01-02-box-convert.json", "2026-01-02")
	var out strings.Builder
	require.NoError(t, run(&out, folder))
	text := strings.Join(strings.Fields(out.String()), " ")
	assert.Contains(t, text, "a cpu; 3 passed, 0 failed, 1 skipped")
	assert.Contains(t, text, "fast 6.000 GB/s 2.000 3.000 - other")
	assert.Contains(t, text, "near 9.000 GB/s - - 0.900 copy: 10 GB/s")

	without := strings.Replace(sample, `"tests": {"passed": 3, "failed": 0, "skipped": 1},`, "", 1)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "2026-01-03-box-convert.json"), []byte(without), 0o644))
	out.Reset()
	require.NoError(t, run(&out, folder))
	assert.NotContains(t, out.String(), "passed")
}

func TestErrorsNameInvalidResults(t *testing.T) {
	folder := t.TempDir()
	assert.ErrorContains(t, run(&strings.Builder{}, folder), "no results in")
	write(t, folder, "notes.json", "")
	assert.ErrorContains(t, run(&strings.Builder{}, folder), "notes.json")
	require.NoError(t, os.Rename(filepath.Join(folder, "notes.json"), filepath.Join(folder, "2026-01-01-m-x.json")))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "2026-01-01-m-x.json"), []byte("{"), 0o644))
	assert.ErrorContains(t, run(&strings.Builder{}, folder), "2026-01-01-m-x.json")
}
