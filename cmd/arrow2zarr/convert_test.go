package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// requireWeather checks that an output is the weather, n times.
func requireWeather(t *testing.T, output string, n int) {
	t.Helper()
	root, err := zarr.OpenGroup(t.Context(), store.NewLocal(output), "")
	require.NoError(t, err)
	temp, err := root.OpenArray(t.Context(), "temp")
	require.NoError(t, err)
	values, err := temp.Read(t.Context(), zarr.Prototype{}, 1)
	require.NoError(t, err)
	got, err := ndview.ToHost[float32](values.(*ndview.NDBuffer))
	require.NoError(t, err)
	var want []float32
	for range n {
		want = append(want, 21.5, 23, 18.25, -4)
	}
	require.Equal(t, want, got)
	station, err := root.OpenArray(t.Context(), "station/values")
	require.NoError(t, err)
	names, err := station.Read(t.Context(), zarr.Prototype{}, 1)
	require.NoError(t, err)
	require.Equal(t, "JFK", string(names.(*element.VLen).At(3)))
}

func TestConvertSaysWhatItDid(t *testing.T) {
	input, output := inputFile(t, stream(t, weather(), weather())), place(t)
	e := succeed(t, "convert", input, output, "--device", "cpu")
	assert.Regexp(t, `^.*output\.zarr: 8 rows, 3 columns, \d+ B as zstd:1 in \d+ B \(\d+\.\d\d:1\), .* on cpu\n$`, e.stdout)
	assert.Empty(t, e.stderr, "no terminal, no progress")
	requireWeather(t, output, 2)
}

func TestVerboseConvertShowsStages(t *testing.T) {
	e := succeed(t, "convert", inputFile(t, stream(t, weather())), place(t), "-v", "--device", "cpu")
	for _, stage := range []string{"read", "encode", "write"} {
		assert.Regexp(t, `(?m)^  `+stage+` +\d+ B in +\d+\.\d+ s, .*/s$`, e.stdout)
	}
}

func TestJSONIsOneObject(t *testing.T) {
	input, output := inputFile(t, stream(t, weather())), place(t)
	e := succeed(t, "convert", input, output, "--json", "--codec", "gzip:3", "--chunk-rows", "2", "--shard-rows", "4", "--device", "cpu", "-v")
	decoder := json.NewDecoder(bytes.NewReader([]byte(e.stdout)))
	var report map[string]any
	require.NoError(t, decoder.Decode(&report))
	require.ErrorIs(t, decoder.Decode(&struct{}{}), io.EOF, "one object and no more")
	for key, want := range map[string]any{
		"input": input, "output": output, "format": "Arrow IPC stream", "device": "cpu", "codec": "gzip:3",
		"rows": 4.0, "columns": 3.0, "chunk_rows": 2.0, "shard_rows": 4.0,
	} {
		assert.Equal(t, want, report[key], key)
	}
	for _, key := range []string{"raw_bytes", "stored_bytes", "seconds", "bytes_per_second"} {
		assert.Positive(t, report[key], key)
	}
	var names []string
	for _, s := range report["stages"].([]any) {
		stage := s.(map[string]any)
		names = append(names, stage["name"].(string))
		for _, key := range []string{"bytes", "seconds", "bytes_per_second"} {
			assert.Contains(t, stage, key)
		}
	}
	assert.Equal(t, []string{"read", "h2d", "kernels", "d2h", "encode", "write"}, names)
}

func TestFlagsReachTheConversion(t *testing.T) {
	input := inputFile(t, stream(t, weather()))
	for _, test := range []struct {
		flags  []string
		chunks []int64
		codecs []string
	}{
		{nil, []int64{4}, []string{"bytes", "zstd"}},
		{[]string{"--codec", "none"}, []int64{4}, []string{"bytes"}},
		{[]string{"--codec=gzip", "--chunk-rows=3"}, []int64{3}, []string{"bytes", "gzip"}},
		{[]string{"--chunk-rows=1", "--shard-rows=2"}, []int64{2}, []string{"sharding_indexed"}},
		{[]string{"--jobs=7", "--max-memory=300MB", "--columns=temp"}, []int64{4}, []string{"bytes", "zstd"}},
	} {
		output := place(t)
		succeed(t, append([]string{"convert", input, output}, test.flags...)...)
		root, err := zarr.OpenGroup(t.Context(), store.NewLocal(output), "")
		require.NoError(t, err)
		temp, err := root.OpenArray(t.Context(), "temp")
		require.NoError(t, err)
		assert.Equal(t, test.chunks, temp.Metadata().ChunkShape, test.flags)
		var names []string
		for _, c := range temp.Metadata().Codecs {
			names = append(names, c.Name())
		}
		assert.Equal(t, test.codecs, names, test.flags)
	}
}

func TestProgressIsShownWhereItIsWanted(t *testing.T) {
	for _, test := range []struct {
		flags convertFlags
		want  bool
	}{
		{convertFlags{}, false}, // a buffer is no terminal
		{convertFlags{progress: true}, true},
		{convertFlags{noProgress: true}, false},
	} {
		assert.Equal(t, test.want, test.flags.showsProgress(&bytes.Buffer{}))
	}
	e := succeed(t, "convert", inputFile(t, stream(t, weather())), place(t), "--progress")
	assert.Len(t, lines(e.stdout), 1)
}

// The bar is drawn from what a conversion counts while it runs.
func TestProgressBar(t *testing.T) {
	progress := &arrowzarr.Progress{}
	_, err := arrowzarr.Convert(t.Context(), inputFile(t, stream(t, weather(), weather())), place(t), arrowzarr.Options{Progress: progress})
	require.NoError(t, err)
	drawn, w := io.Pipe()
	stop := showProgress(w, progress)
	var shown []byte
	for buf := make([]byte, 1000); !bytes.Contains(shown, []byte("8 rows")); {
		n, err := drawn.Read(buf)
		require.NoError(t, err)
		shown = append(shown, buf[:n]...)
	}
	go func() { _, _ = io.Copy(io.Discard, drawn) }() // what is drawn until it stops
	stop()
	require.NoError(t, w.Close())
}

// A bar does not get between the lines of an error.
func TestErrorsFollowProgress(t *testing.T) {
	whole := stream(t, weather(), weather())
	output := place(t)
	e := arrow2zarr(t, "convert", inputFile(t, whole[:len(whole)-60]), output, "--progress")
	assert.Equal(t, exitInput, e.code)
	assert.Contains(t, e.stderr, "arrow2zarr: ")
	requireNothing(t, output)
}
