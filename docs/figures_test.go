package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	Peers               map[string]float64
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

// topics returns the newest records of a topic by name.
type topics func(topic string) func(name string) record

// check is a row of a document, found by its beginning, and the figures that it must have.
type check struct {
	document, row string
	figures       []string
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
	for _, checks := range []func(of topics) []check{
		conversionFigures, parquetFigures, gpuConversionFigures, zarrFigures, remoteFigures, deviceFigures, arrowFigures, decodeFigures, encodeFigures,
		shuffleFigures, collectiveFigures, productFigures, scaleFigures, readmeFigures,
	} {
		for _, c := range checks(of) {
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
}

// performance returns a check of performance.md.
func performance(row string, figures ...string) check { return check{"performance.md", row, figures} }

func percent(share float64) string { return fmt.Sprintf("%.0f%%", min(100*share, 100)) }

// cells returns the cells of a table row.
func cells[T any](all []T, cell func(T) string) string {
	row := ""
	for _, x := range all {
		row += "| " + cell(x) + " "
	}
	return row + "|"
}

// slashed returns figures of records, separated by slashes.
func slashed(records []record, format string, of func(record) float64) string {
	var all []string
	for _, r := range records {
		all = append(all, fmt.Sprintf(format, of(r)))
	}
	return strings.Join(all, " / ")
}

func value(r record) float64     { return r.Value }
func peerValue(r record) float64 { return r.PeerValue }
func ratio(r record) float64     { return r.Ratio }

// recordsOf returns the records of names with a prefix.
func recordsOf(table func(string) record, prefix string, names ...string) []record {
	var all []record
	for _, name := range names {
		all = append(all, table(prefix+name))
	}
	return all
}

// rate is a rate, and the ratio to the peer's with a number of decimals.
func rate(r record, decimals, ofRatio int) string {
	return fmt.Sprintf("%.*f GB/s, %.*fx", decimals, r.Value, ofRatio, r.Ratio)
}

func conversionFigures(of topics) []check {
	convert, tables, memory := of("2-core-convert"), of("2-core-tables"), of("2-core-memory")
	var all []check
	for _, c := range []struct{ row, name string }{
		{"IPC file, none", "none"}, {"IPC file, zstd:1", "zstd1"}, {"Parquet file, none", "parquet-none"}, {"Parquet file, zstd:1", "parquet-zstd1"},
	} {
		first, second := convert("convert-"+c.name+"-vs-zarr-python"), convert("convert-"+c.name+"-vs-tensorstore")
		figures := []string{fmt.Sprintf("| %.2f GB/s | %.2fx | %.2fx |", first.Value, first.Ratio, second.Ratio)}
		if _, limit, limited := strings.Cut(first.Limit, ": "); limited && strings.HasPrefix(c.row, "IPC") {
			figures = append(figures, fmt.Sprintf("| %.0f%% of ", 100*first.Share), "("+limit+")")
		}
		all = append(all, performance("| "+c.row+" |", figures...))
	}
	for row, name := range map[string]string{"list of float32": "convert-nested-list", "list of structs": "convert-nested-list-struct",
		"map of text to int64": "convert-nested-map", "text": "convert-text"} {
		all = append(all, performance("| "+row+" |", cells(recordsOf(tables, name, "-none", "-zstd1"), func(r record) string { return rate(r, 2, 2) })))
	}
	for row, name := range map[string]string{"dictionary of 3 million texts": "convert-dictionary-3m", "restored as an IPC file": "restore-ipc", "restored as Parquet": "restore-parquet"} {
		all = append(all, performance("| "+row+" |", rate(tables(name), 2, 2)))
	}
	most := 0.0
	for _, r := range recordsOf(memory, "peak-memory-", "stream", "one-batch", "wide", "dictionary", "nested", "parquet", "parquet-wide") {
		most = max(most, r.Value)
	}
	return append(all, performance("Under `--max-memory 256MiB`", fmt.Sprintf("at most %.0f MiB", most)))
}

func parquetFigures(of topics) []check {
	parquet := of("2-core-parquet")
	var all []check
	var ratios []float64
	for row, names := range map[string][3]string{
		"8 of float64, plain":                  {"floats-plain-none", "floats-plain-snappy", "floats-plain-zstd"},
		"8 of float64, dictionary":             {"", "floats-dictionary-snappy", ""},
		"8 of integers with nulls, plain":      {"", "nullable-ints-snappy", ""},
		"8 of integers with nulls, dictionary": {"", "", "nullable-ints-dictionary-zstd"},
		"4 of text, plain":                     {"", "text-plain-snappy", "text-plain-zstd"},
		"4 of text, dictionary":                {"", "text-dictionary-snappy", ""},
		"7 of different types":                 {"", "mixed-snappy", "mixed-zstd"},
		"1 list of float32":                    {"", "list-snappy", ""},
		"1 list of structs":                    {"", "", "list-struct-zstd"},
	} {
		line := "|"
		for _, name := range names {
			if name != "" {
				r := parquet("parquet-read-" + name)
				line, ratios = line+" "+rate(r, 2, 2), append(ratios, r.Ratio)
			}
			line += " |"
		}
		all = append(all, performance("| "+row+" |", line))
	}
	return append(all, performance("Parquet files read as", fmt.Sprintf("the median ratio is %.2f", median(ratios))))
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[n/2] + values[(n-1)/2]) / 2
}

func gpuConversionFigures(of topics) []check {
	convert, read := of("h200-convert"), of("h200-read")
	var all []check
	for row, name := range map[string]string{"zstd:1 on a GPU": "zstd", "blosc:zstd:1 on a GPU": "blosc", "lz4 on a GPU": "lz4", "none: the CPU either way": "none"} {
		r := convert("convert-gpu-" + name)
		all = append(all, performance("| "+row+" |", fmt.Sprintf("| %.1f GB/s | %.2fx |", r.Value, r.Ratio)))
	}
	for row, name := range map[string]string{"Blosc": "blosc", "zstd": "zstd", "none": "none"} {
		all = append(all, performance("| "+row+", read to a GPU |", cells(recordsOf(read, "read-gpu-"+name, "-shards", "-1m", "-16m"), func(r record) string { return rate(r, 1, 1) })))
	}
	shares := []float64{read("read-gpu-none-shards").Share, read("read-gpu-none-1m").Share, read("read-gpu-none-16m").Share}
	return append(all,
		performance("Of a conversion with zstd:1",
			fmt.Sprintf("the GPU at %.1f GB/s", convert("convert-gpu-zstd-h2d").Value),
			fmt.Sprintf("encoded at %.1f GB/s", convert("convert-gpu-zstd-encode").Value),
			fmt.Sprintf("stored at %.1f GB/s", convert("convert-gpu-zstd-write").Value),
			fmt.Sprintf("takes %.1f times as long", convert("convert-gpu-zstd").PeerRatios["tensorstore"]),
			fmt.Sprintf("reaches %s of that", percent(convert("convert-gpu-zstd").Share)),
			fmt.Sprintf("at %.1f GB/s, so the GPU", convert("convert-gpu-none").Value)),
		performance("Without a codec, files reach",
			fmt.Sprintf("%.0f to %s of the link", 100*slices.Min(shares), percent(slices.Max(shares))),
			fmt.Sprintf("at %.1f GB/s, and of 64 KiB at %.1f GB/s", read("write-gpu-1m").Value, read("write-gpu-64k").Value)))
}

func zarrFigures(of topics) []check {
	zarr := of("2-core-zarr")
	random, cached := zarr("zarr-random"), zarr("zarr-random-zstd1")
	all := []check{performance("A random read of 100 elements", fmt.Sprintf("%.1f us, %.2fx", random.Value, random.Ratio), fmt.Sprintf("%.0f us, %.2fx", cached.Value, cached.Ratio))}
	ratios := []float64{random.Ratio, cached.Ratio}
	atLimits, shares := slices.Clone(ratios), []float64{}
	for _, op := range []string{"write", "read"} {
		for row, codec := range map[string]string{"none": "none", "zstd:1": "zstd1", "Blosc, LZ4": "blosc-lz4", "Blosc, zstd": "blosc-zstd", "gzip:1": "gzip1"} {
			records := recordsOf(zarr, "zarr-"+op+"-"+codec, "-1MiB", "-16MiB", "-shards")
			for _, r := range records {
				ratios, shares, atLimits = append(ratios, r.Ratio), append(shares, r.Share), append(atLimits, r.Ratio/r.Share)
			}
			all = append(all, performance("| "+row+", "+op+" |", cells(records, func(r record) string { return rate(r, 2, 2) })))
		}
	}
	return append(all, performance("The median of the", fmt.Sprintf("of the %d ratios is %.2f, the least %.2f.", len(ratios), median(ratios), slices.Min(ratios)),
		fmt.Sprintf("reaches %.0f%% of it or more, and %.0f%% at the median; at the limits, the median ratio would be %.2f.", 100*slices.Min(shares), 100*median(shares), median(atLimits))))
}

func remoteFigures(of topics) []check {
	row := func(name, format string, unit float64) string {
		r := of("2-core-zarr-remote")(name)
		return fmt.Sprintf("| "+format+" | "+format+" | "+format+" |", r.Value/unit, r.Peers["zarr-python"]/unit, r.Peers["tensorstore"]/unit)
	}
	return []check{
		performance("| writing to an object store", row("zarr-s3-write", "%.2f GB/s", 1)),
		performance("| reading from an object store", row("zarr-s3-read", "%.2f GB/s", 1)),
		performance("| random reads, one after another", row("zarr-s3-random", "%.0f ms", 1000)),
	}
}

func deviceFigures(of topics) []check {
	device, small := of("h200-cudabuf"), of("h200-arrays")("small-add-float32-1024")
	to, from := device("h2d-pageable"), device("d2h-pageable")
	return []check{
		performance("| ordinary Go memory to the device", fmt.Sprintf("| %.1f GB/s | %.1fx PyTorch; %s", to.Value, to.Ratio, percent(to.Share))),
		performance("| device to ordinary Go memory", fmt.Sprintf("| %.1f GB/s | %.1fx PyTorch; %s", from.Value, from.Ratio, percent(from.Share))),
		performance("| 1 MiB allocated", fmt.Sprintf("| %.2f us | CuPy %.2f us", device("pool-alloc-free-1").Value, device("pool-alloc-free-1").PeerValue)),
		performance("| the same by 16 goroutines", fmt.Sprintf("| %.2f us of", device("pool-alloc-free-16").Value), fmt.Sprintf("CuPy %.1f us", device("pool-alloc-free-16").PeerValue)),
		performance("| launch of a small kernel", fmt.Sprintf("| %.1f us | PyTorch %.1f us", device("launch-small").Value, device("launch-small").PeerValue)),
		performance("| memory that a pool holds", fmt.Sprintf("| %.2f of the peak in use | CuPy %.2f", device("pool-fragmentation").Value, device("pool-fragmentation").PeerValue)),
		performance("| synchronous copy of 64 KiB", fmt.Sprintf("| %.1f us | CuPy %.1f us", device("h2d-64kib").Value, device("h2d-64kib").PeerValue)),
		performance("- An operation on 1,024 numbers", fmt.Sprintf("takes %.1f us", small.Value), fmt.Sprintf("PyTorch %.1f us", small.PeerValue)),
	}
}

func arrowFigures(of topics) []check {
	arrow, columns, share := of("h200-arrow"), of("h200-columns"), of("h200-share")
	pageable, pinned := arrow("copyto-pageable"), arrow("copyto-pinned")
	small, wide := arrow("copyto-small"), arrow("copyto-small-64")
	read, write, stream := arrow("ipc-read"), arrow("ipc-write"), share("share-stream")
	numbers := recordsOf(columns, "columns-", "take-int32", "filter-int32", "concatenate-int32")
	text := recordsOf(columns, "columns-", "take-utf8-40", "filter-utf8-40", "concatenate-utf8-40")
	return []check{
		performance("| batch of 1 GiB, 64 columns", fmt.Sprintf("| %.1f / %.1f GB/s | %s / %s", pageable.Value, pinned.Value, percent(pageable.Share), percent(pinned.Share)),
			fmt.Sprintf("%.1f / %.1f GB/s |", pageable.PeerValue, pinned.PeerValue)),
		performance("| batch of 64 KiB", fmt.Sprintf("| %.0f / %.0f us", wide.Value, small.Value), fmt.Sprintf("in C: %.0f / %.0f us", wide.PeerValue, small.PeerValue)),
		performance("| Arrow IPC file in the page cache", fmt.Sprintf("| %.1f GB/s | %s of the link; pyarrow and CuPy %.1f GB/s", read.Value, percent(read.Share), read.PeerValue)),
		performance("| the same back to an IPC file", fmt.Sprintf("| %.1f GB/s | %s of the link; CuPy and pyarrow %.1f GB/s", write.Value, percent(write.Share), write.PeerValue)),
		performance("| int32 taken at random", "| "+slashed(numbers, "%.0f", value)+" GB/s", "CuPy "+slashed(numbers, "%.0f", peerValue)+" GB/s"),
		performance("| text of 40 bytes", "| "+slashed(text, "%.0f", value)+" GB/s", "host "+slashed(text, "%.1f", peerValue)+" GB/s"),
		performance("| another process opens", fmt.Sprintf("| %.2f / %.2f ms", share("share-first").Value/1000, share("share-cached").Value/1000),
			fmt.Sprintf("socket %.0f ms, through shared memory %.0f ms", share("share-vs-socket").PeerValue/1000, share("share-vs-shm").PeerValue/1000)),
		performance("| small batches to 4 processes", fmt.Sprintf("%.1f thousand per second", stream.BatchesPerSecond/1000),
			fmt.Sprintf("p99 %.2f ms, median %.2f ms", stream.Value/1000, stream.Median/1000)),
	}
}

func decodeFigures(of topics) []check {
	decode := of("h200-decode")
	var all []check
	shares := map[string][]float64{} // of the goals
	for row, name := range map[string]string{
		"zstd, columns": "zstd-decode-columns", "zstd, columns, shuffled": "zstd-decode-columns-shuffled",
		"zstd, field": "zstd-decode-field", "zstd, field, shuffled": "zstd-decode-field-shuffled",
		"LZ4, columns": "lz4-decode-columns", "LZ4, columns, shuffled": "lz4-decode-columns-shuffled",
		"LZ4, field": "lz4-decode-field", "LZ4, field, shuffled": "lz4-decode-field-shuffled",
		"zstd of compress, columns": "zstd-decode-own-columns", "zstd of compress, columns, shuffled": "zstd-decode-own-columns-shuffled",
	} {
		records := recordsOf(decode, name, "-64k", "-1m", "-16m")
		if strings.Contains(name, "own") {
			all = append(all, performance("| "+row+" |", cells(records, func(r record) string { return fmt.Sprintf("%.1f GB/s", r.Value) })))
			continue
		}
		all = append(all, performance("| "+row+" |", cells(records, func(r record) string { return rate(r, 1, 2) })))
		if strings.HasPrefix(name, "zstd") {
			shares["zstd"] = append(shares["zstd"], records[0].Value/70)
		} else {
			shares["lz4-64k"], shares["lz4-1m"] = append(shares["lz4-64k"], records[0].Value/150), append(shares["lz4-1m"], records[1].Value/150)
		}
	}
	span := func(of []float64) string {
		return fmt.Sprintf("%.0f to %.0f%%", 100*slices.Min(of), 100*slices.Max(of))
	}
	return append(all,
		performance("The goals for zstd were", span(shares["zstd"])+" of that of 64 KiB", span(shares["lz4-64k"])+" is reached of it, and "+span(shares["lz4-1m"])))
}

func encodeFigures(of topics) []check {
	encode := of("h200-encode")
	var all []check
	var ratios []float64 // of level 1
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
		records := recordsOf(encode, name, "-64k", "-1m", "-16m")
		size := encode(strings.Replace(name, "-encode-", "-ratio-", 1) + "-1m")
		all = append(all, performance("| "+row+" |", cells(records, func(r record) string { return rate(r, 1, 1) })+
			fmt.Sprintf(" %.2f / %.2f |", size.Value, size.PeerValue)))
		if !strings.Contains(name, "level3") {
			for _, r := range records {
				ratios = append(ratios, r.Ratio)
			}
		}
	}
	ofGoal := func(codec string, goal float64) string { // of what is not shuffled
		var shares []float64
		for _, data := range []string{"columns", "field"} {
			for _, r := range recordsOf(encode, codec+"-encode-"+data, "-64k", "-1m", "-16m") {
				shares = append(shares, 100*r.Value/goal)
			}
		}
		return fmt.Sprintf("%.0f to %.0f%%", slices.Min(shares), slices.Max(shares))
	}
	all = append(all, performance("The goals were 40 GB/s for zstd", ofGoal("zstd", 40)+" of the one", ofGoal("lz4", 60)+" of the other"))
	return append(all, check{"../ARCHITECTURE.md", "- Foreign bytes reach only these kernels", []string{
		fmt.Sprintf("encode %.1f to %.0f times as fast", slices.Min(ratios), slices.Max(ratios)),
	}})
}

func shuffleFigures(of topics) []check {
	shuffles, codecs := of("h200-shuffle"), of("h200-blosc")
	sums, large := shuffles("crc32c"), shuffles("crc32c-16m")
	all := []check{performance("CRC-32C of ranges of 1 MiB", fmt.Sprintf("%.0f GB/s, %s", sums.Value, percent(sums.Share)), fmt.Sprintf("16 MiB %s", percent(large.Share)))}
	for row, kind := range map[string]string{"byte shuffle": "bytes", "byte unshuffle": "un-bytes", "bit shuffle": "bits", "bit unshuffle": "un-bits"} {
		all = append(all, performance("| "+row+" |", cells(recordsOf(shuffles, "shuffle-"+kind, "-2", "-4", "-8", "-16"), func(r record) string {
			return fmt.Sprintf("%.0f GB/s, %s", r.Value, percent(r.Share))
		})))
	}
	for row, name := range map[string]string{"Blosc, LZ4, encode": "blosc-lz4-encode", "Blosc, LZ4, decode": "blosc-lz4-decode",
		"Blosc, zstd, encode": "blosc-zstd-encode", "Blosc, zstd, decode": "blosc-zstd-decode", "gzip, columns, decode": "gzip-decode-columns", "gzip, field, decode": "gzip-decode-field"} {
		sizes := []string{"-64k", "-1m", "-16m"}
		if strings.HasPrefix(name, "gzip") {
			sizes = sizes[:2]
		}
		all = append(all, performance("| "+row+" |", cells(recordsOf(codecs, name, sizes...), func(r record) string { return rate(r, 1, 1) })))
	}
	return all
}

func collectiveFigures(of topics) []check {
	collective := of("h100-x2-collective")
	var all []check
	for _, op := range []string{"all-reduce", "all-gather", "reduce-scatter", "broadcast", "send-recv"} {
		latency := collective(op + "-latency-1kib")
		all = append(all, performance("| "+op+" |", fmt.Sprintf("| %.1f us, %.2fx ", latency.Value, latency.Ratio)+
			cells(recordsOf(collective, op, "-1mib", "-16mib", "-1024mib"), func(r record) string { return rate(r, 0, 2) })))
	}
	return all
}

func productFigures(of topics) []check {
	products := of("h200-blas")
	launched := products("blas-launch-f32-64")
	all := []check{performance("| a call of a small gemm |", fmt.Sprintf("| %.1f us | %.2fx |", launched.Value, launched.Ratio))}
	for row, names := range map[string][]string{
		"gemm, 8192 rows: FP8 / bfloat16 / float16 / TF32 / float32 / float64 / complex64": {"gemm-fp8-8192", "gemm-bf16-8192", "gemm-f16-8192", "gemm-tf32-8192", "gemm-f32-8192", "gemm-f64-8192", "gemm-c64-8192"},
		"batches of bfloat16, 64 / 128 / 256 / 512 / 1024 rows":                            {"batch-bf16-64", "batch-bf16-128", "batch-bf16-256", "batch-bf16-512", "batch-bf16-1024"},
		"batches of float32, 64 / 128 / 256 / 512 / 1024 rows":                             {"batch-f32-64", "batch-f32-128", "batch-f32-256", "batch-f32-512", "batch-f32-1024"},
		"gemm of integers, 2048 rows: int32 / int8":                                        {"gemm-i32-2048", "gemm-i8-2048"},
		"float32, 1 GiB: gemv / transposed gemv / ger / outer product / dot":               {"gemv-f32-16384", "gemvt-f32-16384", "ger-f32-16384", "outer-f32-16384", "dot-f32-134217728"},
		"bfloat16, 1 GiB: gemv / transposed gemv / dot":                                    {"gemv-bf16-16384", "gemvt-bf16-16384", "dot-bf16-268435456"},
	} {
		records := recordsOf(products, "blas-", names...)
		all = append(all, performance("| "+row+" |", "| "+slashed(records, "%.0f", value)+" "+records[0].Unit+" | "+slashed(records, "%.2fx", ratio)+" |"))
	}
	return all
}

func scaleFigures(of topics) []check {
	steps, scale := of("2-core-scale")("scale-steps"), of("16-core-scale")
	var limit float64
	_, _ = fmt.Sscanf(scale("store-latency").Limit, "in flight * size / latency: %f", &limit)
	shares := func(cores string) string {
		two, four := scale("scale-processes-2-of-"+cores), scale("scale-processes-4-of-"+cores)
		return fmt.Sprintf("%.2f and %.2f", two.Share, four.Share)
	}
	all := []check{
		{row: "The records `2-core-scale`", figures: []string{fmt.Sprintf("(%.2f of its time)", steps.Value/steps.PeerValue)}},
		{row: "- **Plan**", figures: []string{fmt.Sprintf("%.2f s for 1,000 files, and %.2f s and", scale("plan-1000-files").Value, scale("plan-10000-files").Value)}},
		{row: "- **Partition**", figures: []string{
			fmt.Sprintf("%.2f GB/s of zstd level 1 with 2 cores, and %.2f with 4", scale("scale-processes-1-of-2-cores").Value, scale("scale-processes-1-of-4-cores").Value),
			"each reach " + shares("2-cores") + " of linear", "it is " + shares("4-cores") + ",",
		}},
		{row: "- **Finalize**", figures: []string{fmt.Sprintf("%.2f s for 100,000 chunks, and %.2f s and", scale("finalize-100000-chunks").Value, scale("finalize-1000000-chunks").Value)}},
		{row: "- **An object store**", figures: []string{fmt.Sprintf("gets %.2f of requests", scale("store-latency").Value/limit)}},
	}
	for i := range all {
		all[i].document = "scale-out.md"
	}
	return all
}

func readmeFigures(of topics) []check {
	convert, onGPU, read := of("2-core-convert")("convert-parquet-zstd1-vs-tensorstore"), of("h200-convert")("convert-gpu-zstd"), of("h200-read")("read-gpu-blosc-shards")
	encode, device, batch, share := of("h200-encode")("zstd-encode-columns-shuffled-1m"), of("h200-cudabuf"), of("h200-arrow")("copyto-pageable"), of("h200-share")
	var ratios []float64
	for _, r := range recordsOf(of("h200-convert"), "convert-gpu-", "zstd", "blosc", "lz4") {
		ratios = append(ratios, r.Ratio)
	}
	all := []check{
		{row: "A GPU makes compressed Zarr faster", figures: []string{fmt.Sprintf("conversions %.0f to %.0f times beside 16 cores", slices.Min(ratios), slices.Max(ratios))}},
		{row: "| Parquet to Zarr, 1 GiB", figures: []string{fmt.Sprintf("| %.2f GB/s | pyarrow + tensorstore %.2fx", convert.Value, convert.Ratio)}},
		{row: "| Arrow to Zarr on a GPU", figures: []string{fmt.Sprintf("| %.1f GB/s | 16 cores %.1fx", onGPU.Value, onGPU.Ratio)}},
		{row: "| sharded Blosc to the GPU", figures: []string{fmt.Sprintf("| %.1f GB/s | zarr-python's prototype %.1fx", read.Value, read.Ratio)}},
		{row: "| zstd on the GPU", figures: []string{fmt.Sprintf("| %.1f GB/s | nvCOMP 6 %.1fx", encode.Value, encode.Ratio)}},
		{row: "| Go memory to the device", figures: []string{fmt.Sprintf("| %.1f GB/s | PyTorch %.1fx", device("h2d-pageable").Value, device("h2d-pageable").Ratio)}},
		{row: "| batch of 64 columns", figures: []string{fmt.Sprintf("| %.1f GB/s | %s of the link", batch.Value, percent(batch.Share))}},
		{row: "| allocate and free 1 MiB", figures: []string{fmt.Sprintf("| %.2f us | CuPy %.2f us", device("pool-alloc-free-1").Value, device("pool-alloc-free-1").PeerValue)}},
		{row: "| another process opens", figures: []string{fmt.Sprintf("| %.2f ms | Arrow IPC over a socket %.0f ms", share("share-first").Value/1000, share("share-vs-socket").PeerValue/1000)}},
	}
	for i := range all {
		all[i].document = "../README.md"
	}
	return all
}

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
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, row := range strings.Split(strings.TrimSpace(string(printed)), "\n") {
		assert.True(t, strings.Contains(string(text), strings.ReplaceAll(row, "| - |", "| |")), "performance.md has no row %s", row)
		if columns := strings.Split(row, " | "); strings.HasPrefix(row, "| transposed copies") {
			var share, ratio float64
			_, err := fmt.Sscanf(columns[2]+" "+columns[3], "%f / %f %fx / %fx", new(float64), &share, new(float64), &ratio)
			require.NoError(t, err, row)
			assert.Contains(t, string(readme), fmt.Sprintf("| transposed copies, %s cases, median | %s of a plain copy | CuPy and PyTorch %.1fx |", columns[1], percent(share), ratio))
		}
	}
}
