package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowipc "github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
	"github.com/quiver-gpu/quiver/ndview"
)

const rows = `[{"city":"Oslo","t":-3.5},{"city":null,"t":21},{"city":"Perth","t":null}]`

func weather(t *testing.T) (*arrow.Schema, arrow.RecordBatch) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "city", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "t", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	require.NoError(t, err)
	t.Cleanup(batch.Release)
	return schema, batch
}

// weatherFile returns the path of an Arrow file or stream with two batches of
// rows.
func weatherFile(t *testing.T, name string) string {
	t.Helper()
	schema, batch := weather(t)
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	var w interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
	if w = arrowipc.NewWriter(f, arrowipc.WithSchema(schema)); strings.HasSuffix(name, ".arrow") {
		w, err = arrowipc.NewFileWriter(f, arrowipc.WithSchema(schema))
		require.NoError(t, err)
	}
	require.NoError(t, w.Write(batch))
	require.NoError(t, w.Write(batch))
	require.NoError(t, w.Close())
	return path
}

// withDriver replaces the driver of the command.
func withDriver(t *testing.T, open func() (*cudabuf.Driver, error)) {
	t.Helper()
	before := openDriver
	openDriver = open
	t.Cleanup(func() { openDriver = before })
}

// simulatedDriver opens a simulated device. The command closes it; closing fails
// if memory leaks.
func simulatedDriver() (*cudabuf.Driver, error) { return cudatest.New(cudatest.Config{}), nil }

// output collects what a command prints while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startServe runs serve until the test ends or stop is called, which returns the
// exit code.
func startServe(t *testing.T, args ...string) (socket string, printed *output, stop func() int) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "socket")
	ctx, cancel := context.WithCancel(context.Background())
	printed = &output{}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, append([]string{"serve", "--socket", socket}, args...), printed, printed) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { assert.Equal(t, exitOK, stop(), printed.String()) })
	require.Eventually(t, func() bool { return strings.Contains(printed.String(), "serving at "+socket) || len(ended) > 0 },
		20*time.Second, time.Millisecond)
	require.Empty(t, ended, printed.String())
	return socket, printed, stop
}

func runCommand(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func onDevices(t *testing.T, test func(t *testing.T, device string)) {
	for _, device := range []string{"cpu", "cuda"} {
		t.Run(device, func(t *testing.T) {
			withDriver(t, simulatedDriver)
			test(t, device)
		})
	}
}

func TestListAndCatPrintTables(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		socket, printed, _ := startServe(t, weatherFile(t, "weather.arrow"), "again="+weatherFile(t, "x.arrows"), "--device", device)
		assert.Contains(t, printed.String(), "weather: 6 rows, ")

		code, out, errs := runCommand("ls", "--socket", socket)
		require.Equal(t, exitOK, code, errs)
		assert.Regexp(t, `(?m)^again +table +6 +2 .* `+device, out)
		assert.Regexp(t, `(?m)^weather +table +6 +2 .* `+device, out)
		code, out, errs = runCommand("ls", "--socket", socket, "--json")
		require.Equal(t, exitOK, code, errs)
		var listed []map[string]any
		require.NoError(t, json.Unmarshal([]byte(out), &listed))
		assert.Len(t, listed, 2)

		for _, name := range []string{"weather", "again"} {
			code, out, errs = runCommand("cat", name, "--socket", socket)
			require.Equal(t, exitOK, code, errs)
			assert.JSONEq(t, "["+rows[1:len(rows)-1]+","+rows[1:len(rows)-1]+"]", "["+strings.ReplaceAll(strings.TrimSpace(out), "\n", ",")+"]")
		}
	})
}

func TestCatWritesArrowStream(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		socket, _, _ := startServe(t, weatherFile(t, "weather.arrow"), "--device", device)
		code, out, errs := runCommand("cat", "weather", "--format", "arrow", "--socket", socket)
		require.Equal(t, exitOK, code, errs)
		schema, want := weather(t)
		read, err := arrowipc.NewReader(strings.NewReader(out))
		require.NoError(t, err)
		defer read.Release()
		assert.True(t, schema.Equal(read.Schema()))
		n := 0
		for ; read.Next(); n++ {
			assert.True(t, array.RecordEqual(want, read.RecordBatch()))
		}
		require.NoError(t, read.Err())
		assert.Equal(t, 2, n)
	})
}

func TestCatPrintsStreams(t *testing.T) {
	schema, batch := weather(t)
	catalog := ipc.NewCatalog()
	defer catalog.Close()
	stream, err := catalog.NewStream("live", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	server, err := ipc.Serve(filepath.Join(t.TempDir(), "socket"), catalog, ipc.ServerOptions{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Close()) }()
	go func() {
		_ = stream.WaitSubscribers(context.Background(), 1)
		_ = stream.Write(context.Background(), batch)
		_ = stream.Close()
	}()
	code, out, errs := runCommand("cat", "live", "--socket", server.Path())
	require.Equal(t, exitOK, code, errs)
	assert.Equal(t, 3, strings.Count(out, "\n"), out)
}

func TestCatPrintsBuffersAndArrays(t *testing.T) {
	a, err := ndview.FromSlice(arrowbuf.CPU(), [][]int16{{1, 2}, {3, 4}})
	require.NoError(t, err)
	defer a.Release()
	catalog := ipc.NewCatalog()
	defer catalog.Close()
	require.NoError(t, ndarray.Publish(catalog, "array", a))
	require.NoError(t, catalog.PublishBuffer("buffer", a.Buffer()))
	server, err := ipc.Serve(filepath.Join(t.TempDir(), "socket"), catalog, ipc.ServerOptions{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Close()) }()
	code, out, errs := runCommand("cat", "array", "--socket", server.Path())
	require.Equal(t, exitOK, code, errs)
	assert.Equal(t, "int16 [2 2] on cpu\n[[1 2]\n [3 4]]\n", out)
	code, out, errs = runCommand("cat", "buffer", "--socket", server.Path())
	require.Equal(t, exitOK, code, errs)
	assert.Equal(t, "\x01\x00\x02\x00\x03\x00\x04\x00", out)
}

func TestStatListsClientsAndLeases(t *testing.T) {
	socket, _, _ := startServe(t, weatherFile(t, "weather.arrow"), "--device", "cpu")
	client, err := ipc.Dial(context.Background(), socket, ipc.DialOptions{})
	require.NoError(t, err)
	defer client.Close()
	table, err := client.Table(context.Background(), "weather")
	require.NoError(t, err)
	defer table.Release()

	code, out, errs := runCommand("stat", "--socket", socket, "--json")
	require.Equal(t, exitOK, code, errs)
	var stats ipc.Stats
	require.NoError(t, json.Unmarshal([]byte(out), &stats))
	assert.Len(t, stats.Clients, 2, "the command is one of them")

	code, out, errs = runCommand("stat", "--socket", socket)
	require.Equal(t, exitOK, code, errs)
	assert.Contains(t, out, "CONNECTED")
}

func TestExitCodes(t *testing.T) {
	withDriver(t, func() (*cudabuf.Driver, error) { return nil, cudabuf.ErrNoDriver })
	folder := t.TempDir()
	broken := filepath.Join(folder, "broken.arrow")
	require.NoError(t, os.WriteFile(broken, []byte("ARROW1\x00\x00 and nothing that follows"), 0o600))
	text := filepath.Join(folder, "text.csv")
	require.NoError(t, os.WriteFile(text, []byte("a,b\n1,2\n"), 0o600))
	good := weatherFile(t, "weather.arrow")
	nobody := filepath.Join(folder, "nobody.sock")
	socket, _, _ := startServe(t, good, "--device", "cpu")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"serve", "--socket", nobody}, exitUsage, "at least 1 arg"},
		{[]string{"serve", good, "--device", "tpu", "--socket", nobody}, exitUsage, "want auto, cpu, cuda, cuda:N, cuda_managed:N or GPU-UUID"},
		{[]string{"serve", good, "--device", "cuda", "--socket", nobody}, exitDevice, cudabuf.ErrNoDriver.Error()},
		{[]string{"serve", good, "--silence", "-1s", "--socket", nobody}, exitUsage, "negative"},
		{[]string{"serve", good, "--lease-limit", "-1s", "--socket", nobody}, exitUsage, "negative"},
		{[]string{"serve", filepath.Join(folder, "absent.arrow"), "--socket", nobody}, exitInput, "absent.arrow"},
		{[]string{"serve", broken, "--device", "cpu", "--socket", nobody}, exitInput, "broken.arrow"},
		{[]string{"serve", text, "--device", "cpu", "--socket", nobody}, exitInput, "text.csv"},
		{[]string{"serve", good, good, "--device", "cpu", "--socket", nobody}, exitInput, ipc.ErrExists.Error()},
		{[]string{"serve", good, "--device", "cpu", "--socket", socket}, exitServer, socket},
		{[]string{"serve", good, "--allow", "4294967296", "--socket", nobody}, exitUsage, "want user ids"},
		{[]string{"ls", "--socket", socket, "--server-user", "65534"}, exitServer, ipc.ErrRefused.Error()},
		{[]string{"ls", "--socket", nobody}, exitServer, nobody},
		{[]string{"stat", "--socket", nobody}, exitServer, nobody},
		{[]string{"cat", "absent", "--socket", socket}, exitServer, "absent"},
		{[]string{"cat", "weather", "--format", "csv", "--socket", socket}, exitUsage, "want json or arrow"},
		{[]string{"cat", "--socket", socket}, exitUsage, "accepts 1 arg"},
	} {
		code, _, errs := runCommand(c.args...)
		assert.Equal(t, c.code, code, "%v: %s", c.args, errs)
		assert.Contains(t, errs, c.says, "%v", c.args)
		assert.NoFileExists(t, nobody)
	}
	code := run(context.Background(), []string{"cat", "weather", "--socket", socket}, fullDisk{}, io.Discard)
	assert.Equal(t, exitOutput, code)
}

// fullDisk is a writer without free space.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestAllowOpensSocketToOtherUsers(t *testing.T) {
	socket, _, _ := startServe(t, weatherFile(t, "weather.arrow"), "--device", "cpu", "--allow", "65534,65533")
	info, err := os.Stat(socket)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o666), info.Mode().Perm())
	code, _, errs := runCommand("ls", "--socket", socket)
	assert.Equal(t, exitOK, code, "the owner may still connect: %s", errs)
}

func TestSignalEndsServeAndRemovesSocket(t *testing.T) {
	socket, _, stop := startServe(t, weatherFile(t, "weather.arrow"), "--device", "cpu")
	assert.FileExists(t, socket)
	assert.Equal(t, exitOK, stop())
	assert.NoFileExists(t, socket)
}

func TestServeByFlight(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		_, printed, _ := startServe(t, weatherFile(t, "weather.arrow"), "--device", device, "--flight", "127.0.0.1:0")
		_, rest, ok := strings.Cut(printed.String(), "serving Flight at ")
		require.True(t, ok, printed)
		address, _, _ := strings.Cut(rest, "\n")
		client, err := flight.Dial(context.Background(), address, flight.DialOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		r, err := client.Reader(context.Background(), "weather", arrowbuf.CPU())
		require.NoError(t, err)
		defer r.Release()
		_, want := weather(t)
		count := 0
		for ; r.Next(); count++ {
			require.True(t, array.RecordEqual(want, r.RecordBatch()))
		}
		require.NoError(t, r.Err())
		require.Equal(t, 2, count)
	})
	code, _, errs := runCommand("serve", weatherFile(t, "weather.arrow"), "--device", "cpu", "--socket", filepath.Join(t.TempDir(), "s"), "--flight", "nowhere")
	assert.Equal(t, exitServer, code)
	assert.Contains(t, errs, "flight.Serve")
}
