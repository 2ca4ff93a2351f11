package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// requireWeather checks that an output has n batches of weather.
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

func TestConvertPrintsASummary(t *testing.T) {
	input, output := inputFile(t, stream(t, weather(), weather())), outputPath(t)
	e := mustRun(t, "convert", input, output, "--device", "cpu")
	assert.Regexp(t, `^.*output\.zarr: 8 rows, 3 columns, \d+ B as zstd:1 in \d+ B \(\d+\.\d\d:1\), .* on cpu\n$`, e.stdout)
	assert.Empty(t, e.stderr, "no terminal, no progress")
	requireWeather(t, output, 2)
}

func TestVerboseConvertPrintsStages(t *testing.T) {
	e := mustRun(t, "convert", inputFile(t, stream(t, weather())), outputPath(t), "-v", "--device", "cpu")
	for _, stage := range []string{"read", "encode", "write"} {
		assert.Regexp(t, `(?m)^  `+stage+` +\d+ B in +\d+\.\d+ s, .*/s$`, e.stdout)
	}
}

func TestConvertPrintsOneJSONObject(t *testing.T) {
	input, output := inputFile(t, stream(t, weather())), outputPath(t)
	e := mustRun(t, "convert", input, output, "--json", "--codec", "gzip:3", "--chunk-rows", "2", "--shard-rows", "4", "--device", "cpu", "-v")
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
		{[]string{"--codec=gzip", "--codec", "float=blosc:zstd"}, []int64{4}, []string{"bytes", "blosc"}},
		{[]string{"--codec", "float=none", "--codec=temp=lz4"}, []int64{4}, []string{"bytes", "numcodecs.lz4"}},
		{[]string{"--codec=gzip", "--chunk-rows=3"}, []int64{3}, []string{"bytes", "gzip"}},
		{[]string{"--chunk-rows=1", "--shard-rows=2"}, []int64{2}, []string{"sharding_indexed"}},
		{[]string{"--jobs=7", "--max-memory=300MB", "--columns=temp"}, []int64{4}, []string{"bytes", "zstd"}},
	} {
		output := outputPath(t)
		mustRun(t, append([]string{"convert", input, output}, test.flags...)...)
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

func TestVerboseConvertPrintsTheCodecsThatWereChosen(t *testing.T) {
	input := inputFile(t, stream(t, weather()))
	e := mustRun(t, "convert", input, outputPath(t), "--codec", "auto:fast", "--codec", "text=gzip", "-v")
	assert.Contains(t, e.stdout, " as auto:fast text=gzip:6 in ")
	assert.Contains(t, e.stdout, "\n  station/values is stored as gzip:6\n")
	assert.Regexp(t, `(?m)^  temp is stored as (none|blosc:lz4:5:\w+)$`, e.stdout)
	assert.NotContains(t, mustRun(t, "convert", input, outputPath(t), "-v").stdout, "stored as", "all are the same")
}

func TestColumnsThatAreLeftOutAreNamed(t *testing.T) {
	field := arrow.Field{Name: "image", Type: arrow.FixedSizeListOf(6, arrow.PrimitiveTypes.Int8), Metadata: arrow.NewMetadata(
		[]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{"arrow.fixed_shape_tensor", `{"shape": [7]}`})}
	schema := arrow.NewSchema([]arrow.Field{field, {Name: "temp", Type: arrow.PrimitiveTypes.Int8}, {Name: "tempo", Type: arrow.PrimitiveTypes.Int8}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	input := inputFile(t, stream(t, b.NewRecordBatch()))
	refused := arrow2zarr(t, "convert", input, outputPath(t))
	assert.Equal(t, exitInput, refused.code)
	assert.Contains(t, refused.stderr, `column "image" of type fixed_size_list`)
	e := mustRun(t, "convert", input, outputPath(t), "--skip-unsupported", "--columns", "image,temp*", "--exclude", "temp")
	assert.Contains(t, e.stdout, ": 0 rows, 1 columns, ")
	assert.Regexp(t, `(?m)^  column "image" of type fixed_size_list.* is left out: .*fixed_shape_tensor`, e.stdout)
	var report arrowzarr.Report
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "convert", input, outputPath(t), "--skip-unsupported", "--json").stdout), &report))
	require.Len(t, report.Skipped, 1)
	assert.Equal(t, "image", report.Skipped[0].Name)
}

func TestProgressFollowsTheFlags(t *testing.T) {
	for _, test := range []struct {
		flags convertFlags
		want  bool
	}{
		{convertFlags{}, false}, // a buffer is not a terminal
		{convertFlags{progress: true}, true},
		{convertFlags{noProgress: true}, false},
	} {
		assert.Equal(t, test.want, test.flags.wantsProgress(&bytes.Buffer{}))
	}
	e := mustRun(t, "convert", inputFile(t, stream(t, weather())), outputPath(t), "--progress")
	assert.Len(t, lines(e.stdout), 1)
}

// The bar is cleared before an error is printed.
func TestErrorsAreNotMixedWithProgress(t *testing.T) {
	whole := stream(t, weather(), weather())
	output := outputPath(t)
	e := arrow2zarr(t, "convert", inputFile(t, whole[:len(whole)-60]), output, "--progress")
	assert.Equal(t, exitInput, e.code)
	assert.Contains(t, e.stderr, "arrow2zarr: ")
	requireNothing(t, output)
}

// withDriver makes the command open drivers with a function.
func withDriver(t *testing.T, open func() (*cudabuf.Driver, error)) {
	t.Helper()
	before := openDriver
	openDriver = open
	t.Cleanup(func() { openDriver = before })
}

// simulatedDriver returns a driver of two simulated devices. The command closes it, which
// fails if memory leaks.
func simulatedDriver() (*cudabuf.Driver, error) {
	return cudatest.New(cudatest.Config{Devices: 2}), nil
}

func TestDeviceFlagSelectsTheDevice(t *testing.T) {
	withDriver(t, simulatedDriver)
	input := inputFile(t, stream(t, weather(), weather()))
	for name, want := range map[string]string{"auto": "cuda:0", "cuda": "cuda:0", "cuda:1": "cuda:1", "cpu": "cpu"} {
		output := outputPath(t)
		e := mustRun(t, "convert", input, output, "--device", name, "-v")
		assert.Contains(t, e.stdout, " on "+want+"\n", name)
		requireWeather(t, output, 2)
		if want != "cpu" {
			for _, stage := range []string{"h2d", "d2h"} {
				assert.Regexp(t, `(?m)^  `+stage+` `, e.stdout)
			}
			assert.Regexp(t, `(?m)^  zstd encoded \d+ chunks on the device, `, e.stdout)
		} else {
			assert.NotContains(t, e.stdout, "chunks on the device")
		}
		assert.Regexp(t, `(?m)^  zstd encoded \d+ chunks on the host, `, e.stdout, "text is encoded on the host")
	}
}

// No record shows that a GPU converts faster with these.
func TestAutoTakesTheCPUUnlessAGPUIsKnownToBeFaster(t *testing.T) {
	withDriver(t, simulatedDriver)
	for _, codec := range []string{"none", "gzip", "auto"} {
		e := mustRun(t, "convert", inputFile(t, stream(t, weather())), outputPath(t), "--codec", codec, "-v")
		assert.Contains(t, e.stdout, " on cpu\n")
		assert.Contains(t, e.stderr, "device cpu (cuda:0 is not known to be faster with this codec)")
	}
}

// Bytes that a device would not change do not cross its link.
func TestADeviceIsNotUsedForCodecsThatItLacks(t *testing.T) {
	withDriver(t, simulatedDriver)
	for _, codec := range []string{"none", "gzip"} {
		e := mustRun(t, "convert", inputFile(t, stream(t, weather())), outputPath(t), "--device", "cuda", "--codec", codec, "-v")
		assert.Contains(t, e.stdout, " on cpu\n")
		assert.Contains(t, e.stdout, "on cpu, since cuda:0 has nothing to encode with the codec "+codec)
		assert.NotContains(t, e.stdout, "h2d")
	}
	e := mustRun(t, "convert", inputFile(t, stream(t, weather())), outputPath(t), "--device", "cuda", "--codec", "none", "--codec", "float=zstd", "--json")
	assert.Contains(t, e.stdout, `"device":"cuda:0"`)
	assert.Contains(t, e.stdout, `{"codec":"zstd","engine":"device","chunks":`)
	assert.Contains(t, e.stdout, `{"codec":"bytes","engine":"host","chunks":`)
}

func TestAutoReportsWhyItUsesTheCPU(t *testing.T) {
	withDriver(t, func() (*cudabuf.Driver, error) { return nil, cudabuf.ErrNoDriver })
	input := inputFile(t, stream(t, weather()))
	e := mustRun(t, "convert", input, outputPath(t), "-v")
	assert.Contains(t, e.stderr, "device cpu (no GPU: ")
	assert.Contains(t, e.stderr, cudabuf.ErrNoDriver.Error())
	assert.Contains(t, e.stdout, " on cpu\n")
	e = mustRun(t, "convert", input, outputPath(t))
	assert.Empty(t, e.stderr)
}

// If the driver exists but fails, auto does not silently use the CPU.
func TestAutoReportsADriverThatFails(t *testing.T) {
	broken := &cudabuf.Error{Call: "cuInit", Code: 999}
	withDriver(t, func() (*cudabuf.Driver, error) { return nil, broken })
	output := outputPath(t)
	e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output)
	assert.Equal(t, exitDevice, e.code)
	assert.Contains(t, e.stderr, "cuInit")
	requireNothing(t, output)
}

func TestMissingDeviceIsADeviceError(t *testing.T) {
	withDriver(t, simulatedDriver)
	output := outputPath(t)
	e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output, "--device", "cuda:2")
	assert.Equal(t, exitDevice, e.code)
	assert.Contains(t, e.stderr, "cuda:2")
	assert.Contains(t, e.stderr, "the driver has 2")
	requireNothing(t, output)
}

func TestMissingDriverIsADeviceError(t *testing.T) {
	if d, err := cudabuf.Open(); !errors.Is(err, cudabuf.ErrNoDriver) {
		if err == nil {
			assert.NoError(t, d.Close())
		}
		t.Skip("this machine has a driver")
	}
	output := outputPath(t)
	for _, device := range []string{"cuda", "cuda:0"} {
		e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output, "--device", device)
		assert.Equal(t, exitDevice, e.code)
		assert.Contains(t, e.stderr, "libcuda.so.1")
		assert.Contains(t, e.stderr, "/usr/lib", "where it was looked for")
		requireNothing(t, output)
	}
}

func TestFailingDeviceIsADeviceError(t *testing.T) {
	withDriver(t, func() (*cudabuf.Driver, error) {
		return cudatest.New(cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
			if call == "cuMemcpyHtoDAsync" {
				return 700
			}
			return 0
		}}), nil
	})
	output := outputPath(t)
	e := arrow2zarr(t, "convert", inputFile(t, stream(t, weather())), output, "--device", "cuda")
	assert.Equal(t, exitDevice, e.code)
	assert.Contains(t, e.stderr, "CUDA_ERROR_ILLEGAL_ADDRESS")
	requireNothing(t, output)
}

func TestConvertReadsStandardInput(t *testing.T) {
	output := outputPath(t)
	c := command(t, "convert", "-", output)
	c.Stdin = bytes.NewReader(stream(t, weather(), weather(), weather())) // through a pipe
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	requireWeather(t, output, 3)

	file, err := os.Open(inputFile(t, stream(t, weather())))
	require.NoError(t, err)
	defer file.Close()
	redirected := outputPath(t)
	c = command(t, "convert", "-", redirected)
	c.Stdin = file
	out, err = c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	requireWeather(t, redirected, 1)
}

func TestMalformedStandardInputIsAnInputError(t *testing.T) {
	whole := stream(t, weather(), weather())
	for name, content := range map[string][]byte{"nothing": nil, "text": []byte("a,b\n1,2\n"), "cut short": whole[:len(whole)-60]} {
		output := outputPath(t)
		c := command(t, "convert", "-", output)
		c.Stdin = bytes.NewReader(content)
		out, _ := c.CombinedOutput()
		assert.Equal(t, exitInput, c.ProcessState.ExitCode(), "%s: %s", name, out)
		assert.Regexp(t, "^arrow2zarr: standard input(:| is) |^arrow2zarr: record batch", string(out))
		assert.NotContains(t, string(out), "panic")
		requireNothing(t, output)
	}
}

// startWaiting starts the command on a pipe with the start of a stream. It returns when
// the command has created its staging directory and waits for more.
func startWaiting(t *testing.T, output string) (*exec.Cmd, io.Closer, *bytes.Buffer) {
	t.Helper()
	c := command(t, "convert", "-", output, "--chunk-rows", "2")
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	whole := stream(t, weather(), weather(), weather())
	_, err = stdin.Write(whole[:len(whole)*2/3])
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(filepath.Dir(output))
		return err == nil && len(entries) == 1
	}, 10*time.Second, time.Millisecond, "no staging directory")
	return c, stdin, &stderr
}

func TestSignalsLeaveNoOutput(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			output := outputPath(t)
			c, stdin, stderr := startWaiting(t, output)
			defer stdin.Close()
			require.NoError(t, c.Process.Signal(signal))
			_ = c.Wait()
			assert.Equal(t, exitInterrupted, c.ProcessState.ExitCode(), stderr.String())
			assert.Contains(t, stderr.String(), "interrupted")
			assert.NotContains(t, stderr.String(), "goroutine")
			requireNothing(t, output)
		})
	}
}

// A signal also ends a command that waits for the schema.
func TestSignalsEndACommandThatWaitsForTheSchema(t *testing.T) {
	for _, args := range [][]string{{"convert", "-"}, {"inspect", "-"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			output := outputPath(t)
			if args[0] == "convert" {
				args = append(args, output)
			}
			c := command(t, args...)
			stdin, err := c.StdinPipe()
			require.NoError(t, err)
			defer stdin.Close()
			require.NoError(t, c.Start())
			t.Cleanup(func() { _ = c.Process.Kill() })
			// This is the start of metadata of 1 MiB. A pipe buffers 64 KiB. So when
			// all of it is written, the command is reading, and handles signals.
			_, err = stdin.Write(append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 16, 0}, make([]byte, 200_000)...))
			require.NoError(t, err)
			require.NoError(t, c.Process.Signal(os.Interrupt))
			_ = c.Wait()
			assert.Equal(t, exitInterrupted, c.ProcessState.ExitCode())
			requireNothing(t, output)
		})
	}
}

// An input that ends early is malformed, unlike one that a signal ends.
func TestPipeThatEndsEarlyIsAnInputError(t *testing.T) {
	output := outputPath(t)
	c, stdin, stderr := startWaiting(t, output)
	require.NoError(t, stdin.Close())
	_ = c.Wait()
	assert.Equal(t, exitInput, c.ProcessState.ExitCode())
	assert.Contains(t, stderr.String(), "unexpected EOF")
	requireNothing(t, output)
}

func TestSeveralInputsAreOneTable(t *testing.T) {
	first, second, output := inputFile(t, stream(t, weather())), inputFile(t, stream(t, weather(), weather())), outputPath(t)
	e := arrow2zarr(t, "convert", first, second, output)
	require.Zero(t, e.code, e.stderr)
	requireWeather(t, output, 3)
	e = arrow2zarr(t, "verify", first, second, output)
	assert.Zero(t, e.code, e.stderr)
	e = arrow2zarr(t, "verify", second, output)
	assert.Equal(t, exitDifferent, e.code)
	lines := filepath.Join(t.TempDir(), "a.data")
	require.NoError(t, os.WriteFile(lines, []byte("id,zip\n1,00501\n"), 0o666))
	typed := outputPath(t)
	for _, command := range []string{"convert", "verify"} {
		e = arrow2zarr(t, command, "--format", "csv", "--types", "id:int16", lines, typed)
		assert.Zero(t, e.code, e.stderr)
	}
	e = arrow2zarr(t, "convert", "--types", "id", lines, outputPath(t))
	assert.Equal(t, exitUsage, e.code)
	for value, code := range map[string]int{"all": 0, "1": 0, "0": exitUsage, "some": exitUsage} {
		e = arrow2zarr(t, "convert", "--format", "csv", "--infer-rows", value, lines, outputPath(t))
		assert.Equal(t, code, e.code, e.stderr)
	}
}

func TestSeveralInputsAreConvertedInPartitions(t *testing.T) {
	first, second, output := inputFile(t, stream(t, weather())), inputFile(t, stream(t, weather(), weather())), outputPath(t)
	mustRun(t, "plan", first, second, output, "--partitions", "2", "--chunk-rows", "4")
	t.Chdir(t.TempDir())
	mustRun(t, "partition", output, "0", "1")
	mustRun(t, "finalize", output)
	requireWeather(t, output, 3)
	mustRun(t, "verify", first, second, output)
}
