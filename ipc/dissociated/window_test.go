package dissociated

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestRangesNeverOverlapAndMergeWhenFreed(t *testing.T) {
	const size = 1 << 20
	r := newRangeAllocator(size)
	rng := rand.New(rand.NewPCG(5, 6))
	type room struct{ offset, n int64 }
	var taken []room
	owner := make([]int, size/alignment)
	mark := func(one room, from, to int) {
		for i := one.offset / alignment; i < (one.offset+one.n+alignment-1)/alignment; i++ {
			if owner[i] != from {
				t.Fatal("a range is allocated twice")
			}
			owner[i] = to
		}
	}
	for range 20_000 {
		if n := 1 + rng.Int64N(40_000); rng.IntN(2) == 0 {
			offset, full := r.tryAllocate((n + alignment - 1) / alignment * alignment)
			if full != nil {
				continue
			}
			require.GreaterOrEqual(t, offset, int64(alignment), "offset 0 is reserved for empty buffers")
			one := room{offset, n}
			mark(one, 0, 1)
			taken = append(taken, one)
		} else if len(taken) > 0 {
			i := rng.IntN(len(taken))
			one := taken[i]
			taken[i] = taken[len(taken)-1]
			taken = taken[:len(taken)-1]
			mark(one, 1, 0)
			r.free(one.offset, one.n)
		}
	}
	for _, one := range taken {
		r.free(one.offset, one.n)
	}
	require.Zero(t, r.used())
	_, err := r.allocate(context.Background(), size-alignment)
	require.NoError(t, err, "all of it is one range again")
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = r.allocate(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = r.allocate(context.Background(), size)
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestNewWindowRejectsInvalidSizesAndDevices(t *testing.T) {
	for _, n := range []int64{-1, 0, alignment} {
		_, err := NewWindow(arrowbuf.CPU(), n)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	}
	_, err := NewWindow(nil, 1<<20)
	require.ErrorIs(t, err, arrowbuf.ErrDevice)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, err := NewWindow(dev, 1<<50)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	})
}

func TestWindowInUseCannotBeClosed(t *testing.T) {
	w := newWindow(t, arrowbuf.CPU(), 1<<20)
	batch := hostBatch(t, 1, 10)
	placed, err := w.CopyBatch(context.Background(), batch)
	require.NoError(t, err)
	require.ErrorContains(t, w.Close(), "in use")
	placed.Release()
}

func TestInvalidRemoteHandlesAreErrors(t *testing.T) {
	name := namePrefix + "00112233445566778899aabbccddeeff"
	for _, c := range []struct {
		handle string
		is     error
	}{
		{"", ErrProtocol},
		{"anything", ErrProtocol},
		{"memfd:1:2", ErrProtocol},
		{"memfd:0:2:" + name, ErrProtocol},
		{"memfd:-1:2:" + name, ErrProtocol},
		{"memfd:1:/../2:" + name, ErrProtocol},
		{"memfd:1:2:" + name + "0", ErrProtocol},
		{"memfd:1:2:../../" + name[6:], ErrProtocol},
		{fmt.Sprintf("memfd:%d:999999:%s", os.Getpid(), name), os.ErrNotExist},
		{fmt.Sprintf("memfd:%d:1:%s", os.Getpid(), name), ErrProtocol}, // standard output, if it can be read
	} {
		_, err := openRemote([]byte(c.handle), arrowbuf.CPU(), serverProcess{})
		if assert.Error(t, err, c.handle) && c.handle[max(0, len(c.handle)-41):] != ":1:"+name {
			assert.ErrorIs(t, err, c.is, c.handle)
		}
	}
}
