package arrowzarr_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// A conversion to an object store that is interrupted again and again goes on after its last
// checkpoint, and its output is that of one that was not.
func TestInterruptedConversionsGoOn(t *testing.T) {
	input := inputFile(t, mixedTable(t, 8, 60, 3, 80, 50, 0, 70).Stream(t))
	options := arrowzarr.Options{ChunkRows: 8, Jobs: 2, Checkpoint: time.Nanosecond}
	whole, url := newObjects(t)
	_, err := arrowzarr.Convert(t.Context(), input, url, options)
	require.NoError(t, err)

	options.Resume = true
	o, url := newObjects(t)
	resumed, interrupted := int64(0), 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		var written atomic.Int64
		o.fail = func(string) error {
			if written.Add(1) == 250 {
				cancel()
			}
			return nil
		}
		_, err := arrowzarr.Convert(ctx, input, url, options)
		cancel()
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		status, err := arrowzarr.Status(t.Context(), url)
		require.NoError(t, err)
		require.GreaterOrEqual(t, status.RowsDone, resumed)
		resumed = status.RowsDone
		interrupted++
		require.Less(t, interrupted, 50)
	}
	assert.Greater(t, interrupted, 1)
	assert.Positive(t, resumed)
	requireSameContent(t, content(t, whole), content(t, o))
}
