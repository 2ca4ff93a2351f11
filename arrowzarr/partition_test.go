package arrowzarr_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// runPartitions plans an output and writes its partitions in random order, some of them
// again, and finalizes it.
func runPartitions(tb testing.TB, input, output string, n int, seed uint64, options arrowzarr.Options) {
	tb.Helper()
	planned, err := arrowzarr.Plan(tb.Context(), input, output, n, options)
	require.NoError(tb, err)
	require.Equal(tb, n, planned.Partitions)
	rng := tabletest.NewRand(seed)
	order := rng.Perm(n)
	for range n / 2 {
		order = append(order, rng.IntN(n))
	}
	run := arrowzarr.Options{Jobs: options.Jobs}
	rows := int64(0)
	for _, number := range order {
		r, err := arrowzarr.RunPartition(tb.Context(), output, number, run)
		require.NoError(tb, err)
		if !r.Done {
			rows += r.Rows
		}
	}
	assert.Equal(tb, planned.Rows, rows)
	report, err := arrowzarr.Finalize(tb.Context(), output, run)
	require.NoError(tb, err)
	assert.Equal(tb, planned.Rows, report.Rows)
}

// The outputs of Convert and of partitions are equal, byte for byte.
func TestPartitionsGiveTheSameOutputAsConvert(t *testing.T) {
	lengths := []int{100, 3, 1, 250, 0, 64}
	inputs := map[string]string{
		"mixed":    inputFile(t, mixedTable(t, 1, lengths...).Stream(t)),
		"no rows":  inputFile(t, mixedTable(t, 1, 0).Stream(t)),
		"all":      inputFile(t, tabletest.RandomTable(3, []int{90, 110}, 0, 0.2).File(t)),
		"parquet":  inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.ListOf(arrow.BinaryTypes.String), 300, 0.1)).Parquet(t)),
		"late":     inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int32, 200, 0), tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int32, 100, 0.5)).File(t)),
		"one list": inputFile(t, tabletest.Single("c", tabletest.FromJSON(t, arrow.ListOf(arrow.PrimitiveTypes.Int8), "["+strings.Repeat("null,", 99)+"["+strings.Repeat("1,", 999)+"2]"+strings.Repeat(",[]", 100)+"]")).File(t)),
	}
	for name, input := range inputs {
		for variant, options := range map[string]arrowzarr.Options{
			"automatic": {},
			"chunks":    {ChunkRows: 16},
			"rows":      {ChunkRows: 1},
			"shards":    {ChunkRows: 8, ShardRows: 32, Jobs: 1},
			"auto":      {ChunkRows: 16, Codec: arrowzarr.Codec{Name: "auto", Effort: arrowzarr.Fast}},
		} {
			t.Run(name+"/"+variant, func(t *testing.T) {
				if variant == "rows" && name == "all" || testing.Short() && (name != "mixed" || variant == "rows") {
					t.Skip("slow")
				}
				folder, _ := convertFile(t, input, options)
				want := contentAt(t, folder)
				inFolder, inStore := []int{1, 30}, []int{2, 7}
				if testing.Short() {
					inFolder, inStore = inFolder[:1], inStore[1:]
				}
				for seed, n := range inFolder {
					output := filepath.Join(t.TempDir(), "output.zarr")
					runPartitions(t, input, output, n, uint64(seed), options)
					requireOnly(t, filepath.Dir(output), "output.zarr")
					requireSameContent(t, want, contentAt(t, output))
				}
				for seed, n := range inStore {
					o, url := newObjects(t)
					runPartitions(t, input, url, n, uint64(seed), options)
					requireSameContent(t, want, content(t, o))
					assert.NotContains(t, strings.Join(o.log[:len(o.log)-1], "\n")+"\n", "\nzarr.json\n", "the root's metadata come last")
				}
				if name != "all" { // which lists in lists are null is not kept
					requireVerified(t, input, folder)
				}
			})
		}
	}
}

// Partitions may run at once, and each of them in several processes.
func TestPartitionsMayRunAtOnce(t *testing.T) {
	input := inputFile(t, mixedTable(t, 5, 200, 100, 77).Stream(t))
	options := arrowzarr.Options{ChunkRows: 16}
	folder, _ := convertFile(t, input, options)
	o, url := newObjects(t)
	o.latency = time.Millisecond
	for _, output := range []string{filepath.Join(t.TempDir(), "output.zarr"), url} {
		_, err := arrowzarr.Plan(t.Context(), input, output, 5, options)
		require.NoError(t, err)
		var group errgroup.Group
		for i := range 10 {
			group.Go(func() error {
				_, err := arrowzarr.RunPartition(t.Context(), output, i%5, arrowzarr.Options{})
				return err
			})
		}
		require.NoError(t, group.Wait())
		_, err = arrowzarr.Finalize(t.Context(), output, arrowzarr.Options{})
		require.NoError(t, err)
		requireSameContent(t, contentAt(t, folder), contentAt(t, output))
	}
}

// Until it is finalized, a planned output is no output, and no other conversion may write
// it. What is missing is named.
func TestPlannedOutputsAreLockedUntilTheyAreFinalized(t *testing.T) {
	input := inputFile(t, mixedTable(t, 5, 200).Stream(t))
	_, url := newObjects(t)
	for _, output := range []string{filepath.Join(t.TempDir(), "output.zarr"), url} {
		options := arrowzarr.Options{ChunkRows: 16}
		_, err := arrowzarr.RunPartition(t.Context(), output, 0, options)
		requirePart(t, arrowzarr.PartUsage, err)
		assert.Contains(t, err.Error(), "has no plan")
		_, err = arrowzarr.Plan(t.Context(), input, output, 6, options)
		require.NoError(t, err)
		for _, overwrite := range []bool{false, true} {
			again := arrowzarr.Options{ChunkRows: 16, Overwrite: overwrite}
			_, err = arrowzarr.Plan(t.Context(), input, output, 6, again)
			requirePart(t, arrowzarr.PartOutput, err)
			assert.Contains(t, err.Error(), "unfinished")
			_, err = arrowzarr.Convert(t.Context(), input, output, again)
			requirePart(t, arrowzarr.PartOutput, err)
			assert.Contains(t, err.Error(), "unfinished")
		}
		_, err = arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{ChunkRows: 16, Resume: true})
		requirePart(t, arrowzarr.PartOutput, err)
		assert.Contains(t, err.Error(), "planned in partitions")
		for _, number := range []int{-1, 6} {
			_, err = arrowzarr.RunPartition(t.Context(), output, number, options)
			requirePart(t, arrowzarr.PartUsage, err)
			assert.Contains(t, err.Error(), "expected 0 to 5")
		}
		_, err = arrowzarr.RunPartition(t.Context(), output, 3, options)
		require.NoError(t, err)
		_, err = arrowzarr.Finalize(t.Context(), output, options)
		requirePart(t, arrowzarr.PartOutput, err)
		assert.Contains(t, err.Error(), "of 6 partitions, 0-2, 4-5 are not written")
		status, err := arrowzarr.Status(t.Context(), output)
		require.NoError(t, err)
		assert.Equal(t, arrowzarr.StatePartitions, status.State)
		assert.Equal(t, []int{0, 1, 2, 4, 5}, status.Missing)
		assert.Equal(t, int64(200), status.Rows)
		assert.Equal(t, int64(32), status.RowsDone)
		for _, number := range []int{5, 4, 2, 1, 0} {
			_, err = arrowzarr.RunPartition(t.Context(), output, number, options)
			require.NoError(t, err)
		}
		_, err = arrowzarr.Finalize(t.Context(), output, options)
		require.NoError(t, err)
		requireVerified(t, input, output)
		status, err = arrowzarr.Status(t.Context(), output)
		require.NoError(t, err)
		assert.Equal(t, arrowzarr.StateComplete, status.State)
	}
}

// A scheduler may run the step that plans again, when partitions are done already.
func TestPlansAreKeptWithResume(t *testing.T) {
	input := inputFile(t, mixedTable(t, 5, 200).Stream(t))
	other := inputFile(t, mixedTable(t, 6, 200).Stream(t))
	_, url := newObjects(t)
	for _, output := range []string{filepath.Join(t.TempDir(), "output.zarr"), url} {
		options := arrowzarr.Options{ChunkRows: 16, Resume: true}
		first, err := arrowzarr.Plan(t.Context(), input, output, 6, options)
		require.NoError(t, err)
		_, err = arrowzarr.RunPartition(t.Context(), output, 3, options)
		require.NoError(t, err)

		again, err := arrowzarr.Plan(t.Context(), input, output, 6, options)
		require.NoError(t, err)
		first.Seconds, again.Seconds = 0, 0
		assert.Equal(t, first, again)
		status, err := arrowzarr.Status(t.Context(), output)
		require.NoError(t, err)
		assert.Equal(t, []int{0, 1, 2, 4, 5}, status.Missing)

		for _, wrong := range []struct {
			input      string
			partitions int
			options    arrowzarr.Options
			message    string
		}{
			{input, 5, options, "is planned in 6 partitions, expected 5"},
			{input, 6, arrowzarr.Options{ChunkRows: 8, Resume: true}, "was begun with other options: --chunk-rows was 16, and is 8"},
			{input, 6, arrowzarr.Options{ChunkRows: 16, Resume: true, Codec: arrowzarr.Codec{Name: "lz4"}, Columns: []string{"*"}}, `--codec was zstd:1, and is lz4; --columns was [], and is ["*"]`},
			{other, 6, options, "was begun from another input"},
		} {
			_, err = arrowzarr.Plan(t.Context(), wrong.input, output, wrong.partitions, wrong.options)
			requirePart(t, arrowzarr.PartOutput, err)
			assert.Contains(t, err.Error(), wrong.message)
		}
		for number := range 6 {
			_, err = arrowzarr.RunPartition(t.Context(), output, number, options)
			require.NoError(t, err)
		}
		_, err = arrowzarr.Finalize(t.Context(), output, options)
		require.NoError(t, err)
		requireVerified(t, input, output)
	}
}

func TestAbortDeletesWhatIsUnfinished(t *testing.T) {
	input := inputFile(t, mixedTable(t, 5, 200).Stream(t))
	options := arrowzarr.Options{ChunkRows: 16}
	o, url := newObjects(t)
	folder := filepath.Join(t.TempDir(), "output.zarr")
	for _, output := range []string{folder, url} {
		deleted, err := arrowzarr.Abort(t.Context(), output)
		require.NoError(t, err)
		assert.False(t, deleted)
		_, err = arrowzarr.Plan(t.Context(), input, output, 3, options)
		require.NoError(t, err)
		_, err = arrowzarr.RunPartition(t.Context(), output, 1, options)
		require.NoError(t, err)
		deleted, err = arrowzarr.Abort(t.Context(), output)
		require.NoError(t, err)
		assert.True(t, deleted)
		status, err := arrowzarr.Status(t.Context(), output)
		require.NoError(t, err)
		assert.Equal(t, arrowzarr.StateMissing, status.State)
	}
	requireOnly(t, filepath.Dir(folder))
	assert.Empty(t, content(t, o))
}

// A partition that ends after its plan has gone leaves nothing.
func TestPartitionsOfAbortedPlansLeaveNothing(t *testing.T) {
	input := inputFile(t, mixedTable(t, 5, 200).Stream(t))
	o, url := newObjects(t)
	_, err := arrowzarr.Plan(t.Context(), input, url, 2, arrowzarr.Options{ChunkRows: 16})
	require.NoError(t, err)
	var once sync.Once
	o.fail = func(key string) error {
		if strings.Contains(key, "/parts/") {
			once.Do(func() {
				_, err := arrowzarr.Abort(context.Background(), url)
				assert.NoError(t, err)
			})
		}
		return nil
	}
	_, err = arrowzarr.RunPartition(t.Context(), url, 1, arrowzarr.Options{})
	requirePart(t, arrowzarr.PartOutput, err)
	assert.Contains(t, err.Error(), "finalized or aborted")
	for key := range content(t, o) {
		assert.False(t, strings.HasPrefix(key, ".arrow2zarr"), key)
	}
}

func TestPlansRefuseInputsThatChange(t *testing.T) {
	input := inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int32, 100, 0)).File(t))
	output := filepath.Join(t.TempDir(), "output.zarr")
	_, err := arrowzarr.Plan(t.Context(), input, output, 2, arrowzarr.Options{ChunkRows: 10})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(input, tabletest.Single("c", tabletest.Random(tabletest.NewRand(2), arrow.PrimitiveTypes.Int32, 101, 0)).File(t), 0o666))
	_, err = arrowzarr.RunPartition(t.Context(), output, 0, arrowzarr.Options{})
	requirePart(t, arrowzarr.PartInput, err)
	assert.Contains(t, err.Error(), "has changed since it was planned")
}

func TestPipesAreNotPlanned(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	before := os.Stdin
	os.Stdin = reader
	t.Cleanup(func() { os.Stdin = before })
	_, err = writer.Write(tabletest.Single("c", tabletest.Texts("x")).Stream(t))
	require.NoError(t, err)
	output := filepath.Join(t.TempDir(), "output.zarr")
	_, err = arrowzarr.Plan(t.Context(), "-", output, 2, arrowzarr.Options{})
	requirePart(t, arrowzarr.PartUsage, err)
	assert.Contains(t, err.Error(), "can be read only once")
	requireOnly(t, filepath.Dir(output))
}

// A process that is killed while it publishes the output may have deleted the results of
// partitions, and moved columns to their places. The partitions then run again.
func TestFinalizeReplacesWhatAKilledOneHasMoved(t *testing.T) {
	input := inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int32, 200, 0)).File(t))
	folder, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 16})
	output := filepath.Join(t.TempDir(), "output.zarr")
	_, err := arrowzarr.Plan(t.Context(), input, output, 1, arrowzarr.Options{ChunkRows: 16})
	require.NoError(t, err)
	_, err = arrowzarr.RunPartition(t.Context(), output, 0, arrowzarr.Options{})
	require.NoError(t, err)
	staging := filepath.Join(filepath.Dir(output), ".output.zarr.partial")
	built := filepath.Join(staging, ".arrow2zarr", "building", "0", "values")
	require.DirExists(t, built)
	require.NoError(t, os.CopyFS(filepath.Join(staging, "c"), os.DirFS(built)))
	_, err = arrowzarr.Finalize(t.Context(), output, arrowzarr.Options{})
	require.NoError(t, err)
	requireSameContent(t, contentAt(t, folder), contentAt(t, output))
}

// A put whose response is lost is an error of the partition, which then runs again.
func TestFailedPartitionsRunAgain(t *testing.T) {
	input := inputFile(t, mixedTable(t, 5, 200, 120).Stream(t, ipc.WithZstd()))
	options := arrowzarr.Options{ChunkRows: 16}
	folder, _ := convertFile(t, input, options)
	o, url := newObjects(t)
	rng := tabletest.NewRand(7)
	_, err := arrowzarr.Plan(t.Context(), input, url, 4, options)
	require.NoError(t, err)
	var mu sync.Mutex
	o.fail = func(key string) error {
		mu.Lock()
		defer mu.Unlock()
		switch rng.IntN(900) {
		case 0: // stored, and reported as failed
			return fmt.Errorf("lost response: %w", o.Memory.Set(context.Background(), key, []byte("torn")))
		case 1:
			return fmt.Errorf("503")
		}
		return nil
	}
	failures := 0
	again := func(do func() error) {
		for do() != nil {
			failures++
			require.Less(t, failures, 1000)
		}
	}
	for _, number := range []int{2, 0, 3, 1} {
		again(func() error {
			_, err := arrowzarr.RunPartition(t.Context(), url, number, arrowzarr.Options{})
			return err
		})
	}
	again(func() error {
		_, err := arrowzarr.Finalize(t.Context(), url, arrowzarr.Options{})
		return err
	})
	assert.Positive(t, failures)
	requireSameContent(t, contentAt(t, folder), content(t, o))
	keys, err := o.List(t.Context(), "")
	require.NoError(t, err)
	assert.False(t, slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, ".arrow2zarr") }))
	var _ store.Store = o
}
