package dissociated

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

func TestOtherProcessReadsWindow(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		metadata, data := serve(t, dev, w, 5)
		p := startPeer(t, "client", ipctest.KindOf(t), metadata, data)
		require.Equal(t, "read 5", p.readLine(t))
		require.Positive(t, w.Used(), "the other process keeps two batches")
		p.proceed(t)
		require.Equal(t, "released", p.readLine(t))
		require.NoError(t, p.Wait())
	})
}

func TestSeveralProcessesReadPackedBodies(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		metadata, data := serve(t, dev, nil, 5)
		var peers []*peer
		for range 3 {
			peers = append(peers, startPeer(t, "client", ipctest.KindOf(t), metadata, data))
		}
		for _, p := range peers {
			require.Equal(t, "read 5", p.readLine(t))
			p.proceed(t)
			require.Equal(t, "released", p.readLine(t))
		}
	})
}

func TestKilledClientFreesItsLocations(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		metadata, data := serve(t, dev, w, 5)
		for range 2 {
			p := startPeer(t, "client", ipctest.KindOf(t), metadata, data)
			require.Equal(t, "read 5", p.readLine(t))
			require.Positive(t, w.Used())
			require.NoError(t, p.Process.Kill())
			require.Eventually(t, func() bool { return w.Used() == 0 }, 5*time.Second, time.Millisecond)
		}
	})
}

func TestKilledServerIsErrorAtNextBatch(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		folder := t.TempDir()
		p := startPeer(t, "server", ipctest.KindOf(t), folder)
		metadata, data := p.readLine(t), p.readLine(t)
		r, err := Dial(context.Background(), metadata, data, []byte("numbered"), dev, ReceiveOptions{MaxBuffered: 1})
		require.NoError(t, err)
		defer r.Release()
		require.True(t, r.Next(), "%v", r.Err())
		require.NoError(t, checkBatch(1, r.RecordBatch()))
		require.NoError(t, p.Process.Kill())
		_ = p.Wait()
		start := time.Now()
		for r.Next() { // batches that arrived before
		}
		require.ErrorIs(t, r.Err(), ErrPeerGone)
		require.Less(t, time.Since(start), 5*time.Second)
	})
}

func TestUnknownStreamIsError(t *testing.T) {
	metadata, data := serve(t, arrowbuf.CPU(), nil, 1)
	_, err := Dial(context.Background(), metadata, data, []byte("other"), arrowbuf.CPU(), ReceiveOptions{})
	require.ErrorIs(t, err, ErrPeerGone)
	_, err = Dial(context.Background(), strings.ReplaceAll(metadata, "/m?", "/none?"), data, nil, arrowbuf.CPU(), ReceiveOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Dial(context.Background(), "ucx://a:1?want_data=1", "", nil, arrowbuf.CPU(), ReceiveOptions{})
	require.ErrorContains(t, err, "unix:///path or tcp://host:port")
}

func TestClientsKilledAtAnyTimeLeaveNothing(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		metadata, data := serve(t, dev, w, 5)
		rng := rand.New(rand.NewPCG(1, 2))
		longest := 60 * time.Millisecond
		if ipctest.KindOf(t) == "cuda" {
			longest = 1500 * time.Millisecond // a process needs most of it to start
		}
		for range 10 {
			p := startPeer(t, "client", ipctest.KindOf(t), metadata, data)
			time.Sleep(time.Duration(rng.Int64N(int64(longest))))
			require.NoError(t, p.Process.Kill())
			_ = p.Wait()
		}
		require.Eventually(t, func() bool { return w.Used() == 0 }, 5*time.Second, time.Millisecond)
		p := startPeer(t, "client", ipctest.KindOf(t), metadata, data)
		require.Equal(t, "read 5", p.readLine(t))
	})
}

func TestOtherUsersAreRefused(t *testing.T) {
	s, err := numberedServer(t.TempDir(), arrowbuf.CPU(), nil, 1)
	require.NoError(t, err)
	failed := make(chan error, 2)
	s.AllowUIDs, s.OnError = []uint32{uint32(os.Getuid()) + 1}, func(err error) { failed <- err }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	metadata, data := s.URIs()
	_, err = Dial(ctx, metadata.String(), data.String(), []byte("numbered"), arrowbuf.CPU(), ReceiveOptions{})
	require.ErrorIs(t, err, ErrPeerGone)
	require.ErrorIs(t, <-failed, ErrRefused)
	cancel()
	require.NoError(t, <-done)
	_, err = Listen(filepath.Join(t.TempDir(), "none", "s"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestClosedConnectionIsNotPaired(t *testing.T) {
	metadata, data := serve(t, arrowbuf.CPU(), nil, 3)
	for _, uri := range []string{metadata, data, metadata} {
		_, conn, err := dial(context.Background(), uri, []byte("numbered"))
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond) // until the server has it in the pairing
		require.NoError(t, conn.Close())
	}
	r, err := Dial(context.Background(), metadata, data, []byte("numbered"), arrowbuf.CPU(), ReceiveOptions{})
	require.NoError(t, err)
	defer r.Release()
	for count := 1; r.Next(); count++ {
		require.NoError(t, checkBatch(count, r.RecordBatch()))
	}
	require.NoError(t, r.Err())
}

func TestConcurrentStreamsDoNotMix(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 256<<10)
		metadata, data := serve(t, dev, w, 5)
		failures := make(chan error, 8)
		for range cap(failures) {
			go func() {
				r, err := Dial(context.Background(), metadata, data, []byte("numbered"), dev, ReceiveOptions{})
				if err != nil {
					failures <- err
					return
				}
				defer r.Release()
				count := 0
				for err == nil && r.Next() {
					count++
					err = checkBatch(count, r.RecordBatch())
				}
				if err = errors.Join(err, r.Err()); err == nil && count != 5 {
					err = fmt.Errorf("%d batches", count)
				}
				failures <- err
			}()
		}
		for range cap(failures) {
			require.NoError(t, <-failures)
		}
	})
}

func TestLocationsOutliveServe(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		s, err := numberedServer(t.TempDir(), dev, w, 3)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.Serve(ctx) }()
		metadata, data := s.URIs()
		r, err := Dial(context.Background(), metadata.String(), data.String(), []byte("numbered"), dev, ReceiveOptions{})
		require.NoError(t, err)
		require.True(t, r.Next(), "%v", r.Err())
		batch := r.RecordBatch()
		batch.Retain()
		cancel()
		require.NoError(t, <-done)
		r.Release()
		time.Sleep(20 * time.Millisecond)
		require.Positive(t, w.Used())
		require.ErrorContains(t, w.Close(), "in use")
		require.NoError(t, checkBatch(1, batch))
		batch.Release()
	})
}
