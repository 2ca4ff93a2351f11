package ipc

import (
	"runtime"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// waitFor asks for an event until it is done, or until over is closed. It is for
// events that may never be done, which CUDA's own waits would wait for forever.
func waitFor(e *cudabuf.Event, over <-chan struct{}) error {
	const soon = 50 // questions before the first pause: some 50 us
	pause := 10 * time.Microsecond
	for asked := 0; ; asked++ {
		if done, err := e.Done(); done || err != nil {
			return err
		}
		select {
		case <-over:
			return ErrClosed
		default:
		}
		if asked < soon {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
}
