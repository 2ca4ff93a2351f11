package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// record is a record of bench/results; CONTRIBUTING.md describes it.
type record struct {
	Name, Unit          string
	Value, Ratio, Share float64
	PeerValue           float64 `json:"peer_value"`
	Median              float64
	BatchesPerSecond    float64            `json:"batches_per_second"`
	PeerRatios          map[string]float64 `json:"peer_ratios"`
	Limit               string
}

// newestRecords returns the records of a topic, such as "h200-arrow", by name: those of the
// newest file that has some.
func newestRecords(t *testing.T, topic string) (path string, records map[string]record) {
	t.Helper()
	files, err := filepath.Glob("../bench/results/*-" + topic + ".json") // by date
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var results struct{ Records []record }
		require.NoError(t, json.Unmarshal(text, &results), file)
		if len(results.Records) > 0 {
			path, records = file, map[string]record{}
			for _, r := range results.Records {
				records[r.Name] = r
			}
		}
	}
	require.NotEmpty(t, records, "no results of %s", topic)
	return path, records
}

// The figures of README.md and performance.md are those of the newest records.
func TestFiguresAreThoseOfTheNewestRecords(t *testing.T) {
	of := func(topic string) func(name string) record {
		path, records := newestRecords(t, topic)
		return func(name string) record {
			r, ok := records[name]
			require.True(t, ok, "%s has no record %s", path, name)
			return r
		}
	}
	device, arrow, columns, share, convert, arrays := of("h200-cudabuf"), of("h200-arrow"), of("h200-columns"), of("h200-share"), of("2-core-convert"), of("h200-arrays")
	onGPU, onCPU := of("h200-convert"), of("2-core-zarr")
	percent := func(share float64) string { return fmt.Sprintf("%.0f%%", min(100*share, 100)) }
	three := func(table func(string) record, kind string, of func(record) float64, format string) string {
		var all []string
		for _, name := range []string{"take", "filter", "concatenate"} {
			all = append(all, fmt.Sprintf(format, of(table("columns-"+name+"-"+kind))))
		}
		return strings.Join(all, " / ")
	}
	value, peer := func(r record) float64 { return r.Value }, func(r record) float64 { return r.PeerValue }
	small := arrays("small-add-float32-1024")
	type check struct {
		document, row string
		figures       []string
	}
	var all []check
	for _, op := range []string{"write", "read"} {
		for name, codec := range map[string]string{"none": "none", "zstd:1": "zstd1", "Blosc, LZ4": "blosc-lz4", "Blosc, zstd": "blosc-zstd", "gzip:1": "gzip1"} {
			var cells []string
			for _, layout := range []string{"1MiB", "16MiB", "shards"} {
				r := onCPU("zarr-" + op + "-" + codec + "-" + layout)
				cells = append(cells, fmt.Sprintf("| %.2f GB/s, %.2fx ", r.Value, r.Ratio))
			}
			all = append(all, check{"performance.md", "| " + name + ", " + op + " |", []string{strings.Join(cells, "")}})
		}
	}
	collective := of("h100-x2-collective")
	for _, op := range []string{"all-reduce", "all-gather", "reduce-scatter", "broadcast", "send-recv"} {
		latency := collective(op + "-latency-1kib")
		cells := fmt.Sprintf("| %.1f us, %.2fx |", latency.Value, latency.Ratio)
		for _, size := range []string{"1mib", "16mib", "1024mib"} {
			r := collective(op + "-" + size)
			cells += fmt.Sprintf(" %.0f GB/s, %.2fx |", r.Value, r.Ratio)
		}
		all = append(all, check{"performance.md", "| " + op + " |", []string{cells}})
	}
	shuffles, codecs := of("h100-shuffle"), of("h100-blosc")
	for row, kind := range map[string]string{"byte shuffle": "bytes", "byte unshuffle": "un-bytes", "bit shuffle": "bits", "bit unshuffle": "un-bits"} {
		cells := ""
		for _, size := range []string{"2", "4", "8"} {
			r := shuffles("shuffle-" + kind + "-" + size)
			cells += fmt.Sprintf("| %.0f GB/s, %s ", r.Value, percent(r.Share))
		}
		all = append(all, check{"performance.md", "| " + row + " |", []string{cells}})
	}
	for row, name := range map[string]string{"Blosc, LZ4, encode": "blosc-lz4-encode", "Blosc, LZ4, decode": "blosc-lz4-decode",
		"Blosc, zstd, encode": "blosc-zstd-encode", "Blosc, zstd, decode": "blosc-zstd-decode", "gzip, columns, decode": "gzip-decode-columns", "gzip, field, decode": "gzip-decode-field"} {
		sizes := []string{"64k", "1m", "16m"}
		if strings.HasPrefix(name, "gzip") {
			sizes = sizes[:2]
		}
		cells := ""
		for _, size := range sizes {
			r := codecs(name + "-" + size)
			cells += fmt.Sprintf("| %.1f GB/s, %.1fx ", r.Value, r.Ratio)
		}
		all = append(all, check{"performance.md", "| " + row + " |", []string{cells}})
	}
	encoders := of("h200-encode")
	for row, name := range map[string]string{
		"zstd, columns, encode":                   "zstd-encode-columns",
		"zstd, columns, shuffled, encode":         "zstd-encode-columns-shuffled",
		"zstd, field, encode":                     "zstd-encode-field",
		"zstd, field, shuffled, encode":           "zstd-encode-field-shuffled",
		"zstd level 3, columns, shuffled, encode": "zstd-encode-level3-columns-shuffled",
		"LZ4, columns, encode":                    "lz4-encode-columns",
		"LZ4, columns, shuffled, encode":          "lz4-encode-columns-shuffled",
		"LZ4, field, encode":                      "lz4-encode-field",
		"LZ4, field, shuffled, encode":            "lz4-encode-field-shuffled",
	} {
		cells := ""
		for _, size := range []string{"64k", "1m", "16m"} {
			r := encoders(name + "-" + size)
			cells += fmt.Sprintf("| %.1f GB/s, %.1fx ", r.Value, r.Ratio)
		}
		ratio := encoders(strings.Replace(name, "-encode-", "-ratio-", 1) + "-1m")
		cells += fmt.Sprintf("| %.2f / %.2f |", ratio.Value, ratio.PeerValue)
		all = append(all, check{"performance.md", "| " + row + " |", []string{cells}})
	}
	sums := shuffles("crc32c")
	all = append(all, check{"performance.md", "CRC-32C of ranges of 1 MiB", []string{fmt.Sprintf("%.0f GB/s, %s", sums.Value, percent(sums.Share))}})
	products := of("h200-blas")
	for row, names := range map[string][]string{
		"gemm, 8192 rows: FP8 / bfloat16 / float16 / TF32 / float32 / float64 / complex64": {"gemm-fp8-8192", "gemm-bf16-8192", "gemm-f16-8192", "gemm-tf32-8192", "gemm-f32-8192", "gemm-f64-8192", "gemm-c64-8192"},
		"batches of bfloat16, 64 / 128 / 256 / 512 / 1024 rows":                            {"batch-bf16-64", "batch-bf16-128", "batch-bf16-256", "batch-bf16-512", "batch-bf16-1024"},
		"batches of float32, 64 / 128 / 256 / 512 / 1024 rows":                             {"batch-f32-64", "batch-f32-128", "batch-f32-256", "batch-f32-512", "batch-f32-1024"},
		"gemm of integers, 2048 rows: int32 / int8":                                        {"gemm-i32-2048", "gemm-i8-2048"},
		"float32, 1 GiB: gemv / transposed gemv / ger / outer product / dot":               {"gemv-f32-16384", "gemvt-f32-16384", "ger-f32-16384", "outer-f32-16384", "dot-f32-134217728"},
		"bfloat16, 1 GiB: gemv / transposed gemv / dot":                                    {"gemv-bf16-16384", "gemvt-bf16-16384", "dot-bf16-268435456"},
	} {
		var values, ratios []string
		for _, name := range names {
			r := products("blas-" + name)
			values, ratios = append(values, fmt.Sprintf("%.0f", r.Value)), append(ratios, fmt.Sprintf("%.2fx", r.Ratio))
		}
		unit := products("blas-" + names[0]).Unit
		all = append(all, check{"performance.md", "| " + row + " |", []string{"| " + strings.Join(values, " / ") + " " + unit + " | " + strings.Join(ratios, " / ") + " |"}})
	}
	launched := products("blas-launch-f32-64")
	all = append(all, check{"performance.md", "| a call of a small gemm |", []string{fmt.Sprintf("| %.1f us | %.2fx |", launched.Value, launched.Ratio)}})
	random, cached := onCPU("zarr-random"), onCPU("zarr-random-zstd1")
	for _, c := range append(all, []check{
		{"performance.md", "A random read of 100 elements", []string{fmt.Sprintf("%.1f us, %.2fx", random.Value, random.Ratio), fmt.Sprintf("%.0f us, %.2fx", cached.Value, cached.Ratio)}},
		{"performance.md", "| IPC file, none |", convertFigures(convert, "none", true)},
		{"performance.md", "| IPC file, zstd:1 |", convertFigures(convert, "zstd1", true)},
		{"performance.md", "| Parquet file, none |", convertFigures(convert, "parquet-none", false)},
		{"performance.md", "| Parquet file, zstd:1 |", convertFigures(convert, "parquet-zstd1", false)},
		{"performance.md", "| list of float32 |", tableFigures(of("2-core-tables"), "convert-nested-list")},
		{"performance.md", "| list of structs |", tableFigures(of("2-core-tables"), "convert-nested-list-struct")},
		{"performance.md", "| map of text to int64 |", tableFigures(of("2-core-tables"), "convert-nested-map")},
		{"performance.md", "| text |", tableFigures(of("2-core-tables"), "convert-text")},
		{"performance.md", "| dictionary of 3 million texts |", []string{rateFigures(of("2-core-tables")("convert-dictionary-3m"))}},
		{"performance.md", "| restored as an IPC file |", []string{rateFigures(of("2-core-tables")("restore-ipc"))}},
		{"performance.md", "| restored as Parquet |", []string{rateFigures(of("2-core-tables")("restore-parquet"))}},
		{"performance.md", "| zstd:1 on a GPU |", gpuConversion(onGPU("convert-gpu-zstd"))},
		{"performance.md", "| blosc:zstd:1 on a GPU |", gpuConversion(onGPU("convert-gpu-blosc"))},
		{"performance.md", "| lz4 on a GPU |", gpuConversion(onGPU("convert-gpu-lz4"))},
		{"performance.md", "| none: the CPU either way |", gpuConversion(onGPU("convert-gpu-none"))},
		{"performance.md", "Of a conversion with zstd:1", []string{fmt.Sprintf("the GPU at %.1f GB/s", onGPU("convert-gpu-zstd-h2d").Value),
			fmt.Sprintf("encoded at %.1f GB/s", onGPU("convert-gpu-zstd-encode").Value), fmt.Sprintf("stored at %.1f GB/s", onGPU("convert-gpu-zstd-write").Value),
			fmt.Sprintf("takes %.1f times as long", onGPU("convert-gpu-zstd").PeerRatios["tensorstore"])}},
		{"performance.md", "| Blosc, read to a GPU |", gpuReads(of("h200-read"), "blosc")},
		{"performance.md", "| zstd, read to a GPU |", gpuReads(of("h200-read"), "zstd")},
		{"performance.md", "| none, read to a GPU |", gpuReads(of("h200-read"), "none")},
		{"performance.md", "| ordinary Go memory to the device", []string{fmt.Sprintf("| %.1f GB/s | %.1fx PyTorch; %s", device("h2d-pageable").Value, device("h2d-pageable").Ratio, percent(device("h2d-pageable").Share))}},
		{"performance.md", "| device to ordinary Go memory", []string{fmt.Sprintf("| %.1f GB/s | %.1fx PyTorch; %s", device("d2h-pageable").Value, device("d2h-pageable").Ratio, percent(device("d2h-pageable").Share))}},
		{"performance.md", "| 1 MiB allocated", []string{fmt.Sprintf("| %.2f us | CuPy %.2f us", device("pool-alloc-free-1").Value, device("pool-alloc-free-1").PeerValue)}},
		{"performance.md", "| the same by 16 goroutines", []string{fmt.Sprintf("| %.2f us of", device("pool-alloc-free-16").Value), fmt.Sprintf("CuPy %.1f us", device("pool-alloc-free-16").PeerValue)}},
		{"performance.md", "| launch of a small kernel", []string{fmt.Sprintf("| %.1f us | PyTorch %.1f us", device("launch-small").Value, device("launch-small").PeerValue)}},
		{"performance.md", "| memory that a pool holds", []string{fmt.Sprintf("| %.2f of the peak in use | CuPy %.2f", device("pool-fragmentation").Value, device("pool-fragmentation").PeerValue)}},
		{"performance.md", "| synchronous copy of 64 KiB", []string{fmt.Sprintf("| %.1f us | CuPy %.1f us", device("h2d-64kib").Value, device("h2d-64kib").PeerValue)}},
		{"performance.md", "| batch of 1 GiB, 64 columns", []string{fmt.Sprintf("| %.1f / %.1f GB/s | %s / %s", arrow("copyto-pageable").Value, arrow("copyto-pinned").Value, percent(arrow("copyto-pageable").Share), percent(arrow("copyto-pinned").Share)),
			fmt.Sprintf("%.1f / %.1f GB/s |", arrow("copyto-pageable").PeerValue, arrow("copyto-pinned").PeerValue)}},
		{"performance.md", "| batch of 64 KiB", []string{fmt.Sprintf("| %.0f / %.0f us", arrow("copyto-small-64").Value, arrow("copyto-small").Value), fmt.Sprintf("in C: %.0f / %.0f us", arrow("copyto-small-64").PeerValue, arrow("copyto-small").PeerValue)}},
		{"performance.md", "| Arrow IPC file in the page cache", []string{fmt.Sprintf("| %.1f GB/s | %s of the link; pyarrow and CuPy %.1f GB/s", arrow("ipc-read").Value, percent(arrow("ipc-read").Share), arrow("ipc-read").PeerValue)}},
		{"performance.md", "| the same back to an IPC file", []string{fmt.Sprintf("| %.1f GB/s | %s of the link; CuPy and pyarrow %.1f GB/s", arrow("ipc-write").Value, percent(arrow("ipc-write").Share), arrow("ipc-write").PeerValue)}},
		{"performance.md", "| int32 taken at random", []string{"| " + three(columns, "int32", value, "%.0f") + " GB/s", "CuPy " + three(columns, "int32", peer, "%.0f") + " GB/s"}},
		{"performance.md", "| text of 40 bytes", []string{"| " + three(columns, "utf8-40", value, "%.0f") + " GB/s", "host " + three(columns, "utf8-40", peer, "%.1f") + " GB/s"}},
		{"performance.md", "| another process opens", []string{fmt.Sprintf("| %.2f / %.2f ms", share("share-first").Value/1000, share("share-cached").Value/1000),
			fmt.Sprintf("socket %.0f ms, through shared memory %.0f ms", share("share-vs-socket").PeerValue/1000, share("share-vs-shm").PeerValue/1000)}},
		{"performance.md", "| small batches to 4 processes", []string{fmt.Sprintf("%.1f thousand per second", share("share-stream").BatchesPerSecond/1000), fmt.Sprintf("p99 %.2f ms, median %.2f ms", share("share-stream").Value/1000, share("share-stream").Median/1000)}},
		{"performance.md", "- An operation on 1,024 numbers", []string{fmt.Sprintf("takes %.1f us", small.Value), fmt.Sprintf("PyTorch %.1f us", small.PeerValue)}},
		{"../README.md", "| Parquet to Zarr, 1 GiB", []string{fmt.Sprintf("| %.2f GB/s | pyarrow + tensorstore %.2fx", convert("convert-parquet-zstd1-vs-tensorstore").Value, convert("convert-parquet-zstd1-vs-tensorstore").Ratio)}},
		{"../README.md", "| Arrow to Zarr on a GPU", []string{fmt.Sprintf("| %.1f GB/s | 16 cores %.1fx", onGPU("convert-gpu-zstd").Value, onGPU("convert-gpu-zstd").Ratio)}},
		{"../README.md", "| sharded Blosc to the GPU", []string{fmt.Sprintf("| %.1f GB/s | zarr-python's prototype %.1fx", of("h200-read")("read-gpu-blosc-shards").Value, of("h200-read")("read-gpu-blosc-shards").Ratio)}},
		{"../README.md", "| zstd on the GPU", []string{fmt.Sprintf("| %.1f GB/s | nvCOMP 6 %.1fx", of("h200-encode")("zstd-encode-columns-shuffled-1m").Value, of("h200-encode")("zstd-encode-columns-shuffled-1m").Ratio)}},
		{"../README.md", "| Go memory to the device", []string{fmt.Sprintf("| %.1f GB/s | PyTorch %.1fx", device("h2d-pageable").Value, device("h2d-pageable").Ratio)}},
		{"../README.md", "| batch of 64 columns", []string{fmt.Sprintf("| %.1f GB/s | %s of the link", arrow("copyto-pageable").Value, percent(arrow("copyto-pageable").Share))}},
		{"../README.md", "| allocate and free 1 MiB", []string{fmt.Sprintf("| %.2f us | CuPy %.2f us", device("pool-alloc-free-1").Value, device("pool-alloc-free-1").PeerValue)}},
		{"../README.md", "| another process opens", []string{fmt.Sprintf("| %.2f ms | Arrow IPC over a socket %.0f ms", share("share-first").Value/1000, share("share-vs-socket").PeerValue/1000)}},
	}...) {
		text, err := os.ReadFile(c.document)
		require.NoError(t, err)
		_, row, found := strings.Cut("\n"+string(text), "\n"+c.row)
		require.True(t, found, "%s has no row %q", c.document, c.row)
		row, _, _ = strings.Cut(c.row+row, "\n")
		for _, figure := range c.figures {
			assert.True(t, strings.Contains(row, figure), "%s: want %q in: %s", c.document, figure, row)
		}
	}
}

// convertFigures are the cells of a conversion, beside both peers and the limit.
func convertFigures(of func(string) record, name string, limited bool) []string {
	first, second := of("convert-"+name+"-vs-zarr-python"), of("convert-"+name+"-vs-tensorstore")
	figures := []string{fmt.Sprintf("| %.2f GB/s | %.2fx | %.2fx |", first.Value, first.Ratio, second.Ratio)}
	if limited {
		_, limit, _ := strings.Cut(first.Limit, ": ")
		figures = append(figures, fmt.Sprintf("| %.0f%% of ", 100*first.Share), "("+limit+")")
	}
	return figures
}

// tableFigures are the cells of a conversion without and with compression.
func tableFigures(of func(string) record, name string) []string {
	return []string{rateFigures(of(name + "-none")), rateFigures(of(name + "-zstd1"))}
}

// rateFigures are a rate, and the ratio to the peer's.
func rateFigures(r record) string { return fmt.Sprintf("%.2f GB/s, %.2fx", r.Value, r.Ratio) }

// bench/arrays_table.py prints the table of arrays.
func TestTableOfArraysIsThatOfTheNewestRecords(t *testing.T) {
	if _, err := os.Stat("../.venv/.installed"); err != nil {
		t.Skip("needs Python")
	}
	gpu, _ := newestRecords(t, "h200-arrays")
	cpu, _ := newestRecords(t, "2-core-arrays")
	printed, err := exec.Command("../.venv/bin/python", "../bench/arrays_table.py", gpu, cpu).CombinedOutput()
	require.NoError(t, err, "%s", printed)
	text, err := os.ReadFile("performance.md")
	require.NoError(t, err)
	for _, row := range strings.Split(strings.TrimSpace(string(printed)), "\n") {
		assert.True(t, strings.Contains(string(text), strings.ReplaceAll(row, "| - |", "| |")), "performance.md has no row %s", row)
	}
}

func gpuConversion(r record) []string {
	return []string{fmt.Sprintf("| %.1f GB/s | %.2fx |", r.Value, r.Ratio)}
}

// gpuReads returns the figures of a codec in the order of the columns.
func gpuReads(of func(name string) record, codec string) []string {
	line := "|"
	for _, layout := range []string{"shards", "1m", "16m"} {
		r := of("read-gpu-" + codec + "-" + layout)
		line += fmt.Sprintf(" %.1f GB/s, %.1fx |", r.Value, r.Ratio)
	}
	return []string{line}
}
