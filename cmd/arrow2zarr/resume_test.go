package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// killRounds is how often processes are killed: QUIVER_KILL_ROUNDS, or a few times.
func killRounds(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("QUIVER_KILL_ROUNDS"))
	switch {
	case err == nil:
		return n
	case testing.Short():
		return 2
	}
	return 4
}

// tags returns a batch of 100 rows with nulls, dictionaries that differ from batch to batch,
// lists and numbers.
func tags(number int) arrow.RecordBatch {
	const rows = 100
	labels := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "label", Type: labels, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "inner", Type: arrow.ListOf(labels)},
		{Name: "note", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	list, inner := b.Field(2).(*array.ListBuilder), b.Field(3).(*array.ListBuilder)
	for i := range rows {
		row := number*rows + i
		b.Field(0).(*array.Int64Builder).Append(int64(row))
		if err := b.Field(1).(*array.BinaryDictionaryBuilder).AppendString(fmt.Sprint("label ", row/50)); err != nil {
			panic(err)
		}
		inner.Append(true)
		for j := range row % 3 {
			if err := inner.ValueBuilder().(*array.BinaryDictionaryBuilder).AppendString(fmt.Sprint("inner ", row/80+j)); err != nil {
				panic(err)
			}
		}
		if row%7 == 0 {
			list.AppendNull()
			b.Field(4).AppendNull()
			continue
		}
		list.Append(true)
		for j := range row % 4 {
			list.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprint("tag ", row*j))
		}
		b.Field(4).(*array.StringBuilder).Append(fmt.Sprint("note of ", row))
	}
	return b.NewRecordBatch()
}

// manyTags returns a file of n batches of 100 tags.
func manyTags(t *testing.T, n int) string {
	t.Helper()
	var batches []arrow.RecordBatch
	for i := range n {
		batches = append(batches, tags(i))
	}
	return inputFile(t, stream(t, batches...))
}

// files returns the content of all files of an output.
func files(t *testing.T, output string) map[string]string {
	t.Helper()
	s := store.NewLocal(output)
	keys, err := s.List(t.Context(), "")
	require.NoError(t, err)
	content := map[string]string{}
	for _, key := range keys {
		value, err := s.Get(t.Context(), key, store.Range{})
		require.NoError(t, err)
		content[key] = string(value)
	}
	return content
}

// A conversion that is killed at any moment goes on with --resume, however often, and its
// output is that of one that was not killed.
func TestResumedConversionsHaveTheSameOutput(t *testing.T) {
	input := manyTags(t, 60)
	flags := []string{"--chunk-rows", "32", "--device", "cpu", "--checkpoint", "1ms", "--jobs", "2"}
	whole := outputPath(t)
	start := time.Now()
	require.NoError(t, command(t, append([]string{"convert", input, whole}, flags...)...).Run())
	took := time.Since(start)
	want := files(t, whole)
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	kills, resumed := 0, 0
	for rounds := killRounds(t); kills < rounds; {
		output := outputPath(t)
		for {
			if status, err := arrowzarr.Status(t.Context(), output); err == nil && status.RowsDone > 0 {
				assert.Equal(t, arrowzarr.StateInterrupted, status.State)
				resumed++
			}
			c := command(t, append([]string{"convert", input, output, "--resume"}, flags...)...)
			var stderr bytes.Buffer
			c.Stderr = &stderr
			require.NoError(t, c.Start())
			timer := time.AfterFunc(time.Duration(rng.Int64N(int64(took))), func() { _ = c.Process.Kill() })
			err := c.Wait()
			timer.Stop()
			if err == nil {
				break
			}
			require.Equal(t, -1, c.ProcessState.ExitCode(), "killed, not failed: %s", stderr.String())
			kills++
		}
		require.Equal(t, want, files(t, output))
		entries, err := os.ReadDir(filepath.Dir(output))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	t.Logf("%d kills, %d of them after a checkpoint", kills, resumed)
}

// With --resume, a signal keeps what is written. Without it, nothing is left.
func TestSignalsKeepWhatCanBeResumed(t *testing.T) {
	input := manyTags(t, 30)
	whole, output := outputPath(t), outputPath(t)
	flags := []string{"--chunk-rows", "16", "--jobs", "1", "--checkpoint", "1ms", "--device", "cpu"}
	mustRun(t, append([]string{"convert", input, whole}, flags...)...)
	for _, resume := range [][]string{{"--resume"}, nil} {
		c := command(t, slices.Concat([]string{"convert", input, output}, flags, resume)...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		require.NoError(t, c.Start())
		require.Eventually(t, func() bool {
			s, err := arrowzarr.Status(t.Context(), output)
			return err == nil && s.RowsDone > 0
		}, time.Minute, time.Millisecond)
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		require.Error(t, c.Wait())
		require.Equal(t, exitInterrupted, c.ProcessState.ExitCode(), stderr.String())
		if resume == nil {
			assert.Contains(t, stderr.String(), "nothing is left behind")
			requireNothing(t, output)
			continue
		}
		assert.Contains(t, stderr.String(), "--resume continues it")
		mustRun(t, slices.Concat([]string{"convert", input, output}, flags, resume)...)
		require.Equal(t, files(t, whole), files(t, output))
		require.NoError(t, os.RemoveAll(output))
	}
}

// Processes of partitions that are killed leave nothing wrong: each partition is written
// again, and the output is that of one conversion.
func TestKilledPartitionsAreWrittenAgain(t *testing.T) {
	input := manyTags(t, 30)
	flags := []string{"--chunk-rows", "32"}
	whole, output := outputPath(t), outputPath(t)
	mustRun(t, append([]string{"convert", input, whole}, flags...)...)
	mustRun(t, append([]string{"plan", input, output, "--partitions", "4"}, flags...)...)
	rng := rand.New(rand.NewPCG(2, uint64(time.Now().UnixNano())))
	for number := range 4 {
		for range killRounds(t) / 2 {
			c := command(t, "partition", output, strconv.Itoa(number))
			require.NoError(t, c.Start())
			timer := time.AfterFunc(time.Duration(rng.Int64N(int64(300*time.Millisecond))), func() { _ = c.Process.Kill() })
			_ = c.Wait() // killed or not
			timer.Stop()
		}
		mustRun(t, "partition", output, strconv.Itoa(number))
	}
	mustRun(t, "finalize", output)
	require.Equal(t, files(t, whole), files(t, output))
}

// Two processes that finalize at once give the output of one conversion: one of them may
// find that it is finalized, or being finalized.
func TestTwoFinalizesAtOnceGiveOneOutput(t *testing.T) {
	input := manyTags(t, 30)
	flags := []string{"--chunk-rows", "32"}
	whole := outputPath(t)
	mustRun(t, append([]string{"convert", input, whole}, flags...)...)
	for range 3 {
		output := outputPath(t)
		mustRun(t, append([]string{"plan", input, output, "--partitions", "2"}, flags...)...)
		mustRun(t, "partition", output, "0")
		mustRun(t, "partition", output, "1")
		var messages [2]strings.Builder
		var running [2]*exec.Cmd
		for i := range running {
			running[i] = command(t, "finalize", output)
			running[i].Stderr = &messages[i]
			require.NoError(t, running[i].Start())
		}
		finalized := 0
		for i, c := range running {
			_ = c.Wait() // its exit code tells
			switch c.ProcessState.ExitCode() {
			case exitOK:
				finalized++
			case exitOutput:
			default: // it came after the other had ended
				require.Contains(t, messages[i].String(), "has no plan")
			}
		}
		require.Equal(t, 1, finalized, "%s%s", &messages[0], &messages[1])
		require.Equal(t, files(t, whole), files(t, output))
	}
}

// What a killed conversion has left is named, and deleted by --overwrite, abort or clean.
func TestLeftoversAreNamedAndDeleted(t *testing.T) {
	input := manyTags(t, 60)
	for _, way := range []string{"overwrite", "abort", "clean"} {
		t.Run(way, func(t *testing.T) {
			output := outputPath(t)
			c := command(t, "convert", input, output, "--chunk-rows", "8", "--jobs", "1")
			require.NoError(t, c.Start())
			left := filepath.Join(filepath.Dir(output), ".output.zarr.partial")
			require.Eventually(t, func() bool {
				_, err := os.Stat(filepath.Join(left, ".arrow2zarr", "plan.json"))
				return err == nil
			}, time.Minute, time.Millisecond)
			require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
			e := arrow2zarr(t, "convert", input, output, "--overwrite")
			assert.Equal(t, exitOutput, e.code)
			assert.Contains(t, e.stderr, "is being written by another process")
			assert.Equal(t, exitOutput, arrow2zarr(t, "abort", output).code)
			require.NoError(t, c.Process.Kill())
			_ = c.Wait() // it was killed

			e = arrow2zarr(t, "convert", input, output)
			assert.Equal(t, exitOutput, e.code)
			assert.Contains(t, e.stderr, left)
			assert.Contains(t, e.stderr, "--resume")
			assert.Contains(t, mustRun(t, "status", output).stdout, "interrupted")
			if way != "overwrite" {
				assert.Contains(t, mustRun(t, way, output).stdout, "deleted")
				assert.Contains(t, mustRun(t, way, output).stdout, "nothing is unfinished")
				requireNothing(t, output)
				return
			}
			mustRun(t, "convert", input, output, "--overwrite")
			_, err := os.Stat(left)
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

func TestResumeRefusesOtherInputsAndOptions(t *testing.T) {
	input := manyTags(t, 60)
	output := outputPath(t)
	c := command(t, "convert", input, output, "--chunk-rows", "8", "--jobs", "1", "--checkpoint", "1ms")
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool {
		s, err := arrowzarr.Status(t.Context(), output)
		return err == nil && s.RowsDone > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait() // it was killed
	e := arrow2zarr(t, "convert", input, output, "--resume", "--chunk-rows", "16")
	assert.Equal(t, exitOutput, e.code)
	assert.Contains(t, e.stderr, "was begun with other options: --chunk-rows was 8, and is 16")
	e = arrow2zarr(t, "convert", manyTags(t, 1), output, "--resume", "--chunk-rows", "8")
	assert.Equal(t, exitOutput, e.code)
	assert.Contains(t, e.stderr, "another input")
	mustRun(t, "convert", input, output, "--resume", "--chunk-rows", "8")
	mustRun(t, "verify", input, output)
}

func TestPartitionNumbersComeFromSchedulers(t *testing.T) {
	for _, test := range []struct {
		args        []string
		environment map[string]string
		fromEnv     bool
		oneBased    bool
		want        []int
		problem     string
	}{
		{args: []string{"3", "0"}, want: []int{3, 0}},
		{args: []string{"3", "1"}, oneBased: true, want: []int{2, 0}},
		{environment: map[string]string{"JOB_COMPLETION_INDEX": "7"}, fromEnv: true, want: []int{7}},
		{environment: map[string]string{"SLURM_ARRAY_TASK_ID": "7"}, fromEnv: true, oneBased: true, want: []int{6}},
		{environment: map[string]string{"AWS_BATCH_JOB_ARRAY_INDEX": "0"}, fromEnv: true, want: []int{0}},
		{fromEnv: true, problem: "expected one of JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID, AWS_BATCH_JOB_ARRAY_INDEX"},
		{args: []string{"1"}, fromEnv: true, problem: "expected no numbers besides"},
		{problem: "expected the number of a partition"},
		{args: []string{"x"}, problem: `"x" is not the number of a partition`},
	} {
		got, err := partitionNumbers(test.args, test.fromEnv, test.oneBased, func(name string) (string, bool) {
			value, ok := test.environment[name]
			return value, ok
		})
		if test.problem != "" {
			require.ErrorContains(t, err, test.problem)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, test.want, got)
	}
}

// Schedulers must not repeat what cannot succeed: such failures have exit codes of their
// own.
func TestPartitionCommandsExplainFailures(t *testing.T) {
	input, output := manyTags(t, 3), outputPath(t)
	assert.Equal(t, exitUsage, arrow2zarr(t, "partition", output, "0").code)
	assert.Equal(t, exitUsage, arrow2zarr(t, "plan", input, output).code)
	mustRun(t, "plan", input, output, "--partitions", "3", "--chunk-rows", "64")
	assert.Equal(t, exitUsage, arrow2zarr(t, "partition", output, "3").code)
	assert.Contains(t, mustRun(t, "partition", output, "1").stdout, "partition 1: ")
	assert.Contains(t, mustRun(t, "partition", output, "1").stdout, "was done before")
	e := arrow2zarr(t, "finalize", output)
	assert.Equal(t, exitOutput, e.code)
	assert.Contains(t, e.stderr, "of 3 partitions, 0, 2 are not written")
	assert.Contains(t, mustRun(t, "status", output).stdout, "1 of 3 partitions are written")
	mustRun(t, "partition", output, "0", "2")
	assert.Contains(t, mustRun(t, "status", output).stdout, "arrow2zarr finalize completes it")
	mustRun(t, "finalize", output)
	assert.Contains(t, mustRun(t, "status", output).stdout, "complete")
	mustRun(t, "verify", input, output)
	require.NoError(t, os.WriteFile(input, nil, 0o666))
	output = outputPath(t)
	assert.Equal(t, exitInput, arrow2zarr(t, "plan", input, output, "--partitions", "3").code)
	requireNothing(t, output)
}

// Several inputs are one table in partitions, too, wherever they run.
func TestSeveralInputsArePlanned(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for i, name := range []string{"a.arrows", "b.arrows"} {
		require.NoError(t, os.WriteFile(name, stream(t, tags(2*i), tags(2*i+1)), 0o666))
	}
	whole, output := outputPath(t), outputPath(t)
	mustRun(t, "convert", "a.arrows", "b.arrows", whole, "--chunk-rows", "32")
	mustRun(t, "plan", "a.arrows", "b.arrows", output, "--partitions", "3", "--chunk-rows", "32")
	t.Chdir(t.TempDir())
	mustRun(t, "partition", output, "2", "0", "1")
	mustRun(t, "finalize", output)
	require.Equal(t, files(t, whole), files(t, output))
}
