package ipc

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

func TestPipesCannotBeCounted(t *testing.T) {
	content := sourcetest.RangeTable(3, []int{9, 9, 9}, 0.2, arrow.PrimitiveTypes.Int16).Stream(t)
	pipe := func() sourcetest.Opener {
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		go func() {
			if w, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				_, _ = w.Write(content)
				_ = w.Close()
			}
		}()
		return sourcetest.Local(path, sourcetest.Options(), OpenStream)
	}
	_, err := sourcetest.Count(pipe())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Contains(t, err.Error(), "can be read only once")
	got, _ := sourcetest.Values(t, pipe(), []int{2}, source.RowRange{From: 11, To: 20})
	assert.Len(t, got, 9)
	assert.Equal(t, []string{`"11"`}, got[0])
}

func TestStreamsCutInASkippedBatchAreErrors(t *testing.T) {
	content := sourcetest.RangeTable(3, []int{90, 90}, 0, arrow.PrimitiveTypes.Int64).Stream(t)
	open := streamOf(t, content[:len(content)*2/3])
	err := sourcetest.Read(open, []int{0}, source.RowRange{From: 180, To: -1}, func(arrow.RecordBatch) {})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = sourcetest.Count(open)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
