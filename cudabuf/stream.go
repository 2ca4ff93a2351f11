package cudabuf

import (
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// maxStreams bounds how many operations of one device run at once. A GPU has a
// handful of copy engines; more streams would only queue.
const maxStreams = 8

// newStreams makes the pool of streams on which operations run that name none.
//
// CUDA's own stream for that, the null stream, would put the copies of all
// goroutines, and of other libraries in the process, into one queue. Here each
// operation takes a non-blocking stream for itself, waits for its own work
// alone, and gives the stream back: copies of several goroutines overlap, and
// each caller still finds its operation complete. A zero is a stream that
// nobody has needed yet.
func newStreams() chan driver.Stream {
	streams := make(chan driver.Stream, maxStreams)
	for range maxStreams {
		streams <- 0
	}
	return streams
}

// onStream issues work on a stream of its own and waits until it is done. It
// waits too when issuing fails half-way, since what was issued still runs.
func (d *Device) onStream(issue func(driver.Stream) error) error {
	s := <-d.streams
	defer func() { d.streams <- s }()
	return d.do(func() (err error) {
		if s == 0 {
			if s, err = d.api.StreamCreateWithPriority(driver.StreamNonBlocking, 0); err != nil {
				s = 0
				return err
			}
		}
		failure := issue(s)
		if err := d.api.StreamSynchronize(s); failure == nil {
			failure = err
		}
		return failure
	})
}

// destroyStreams empties the pool.
func (d *Device) destroyStreams() error {
	var failure error
	for range maxStreams {
		if s := <-d.streams; s != 0 {
			if err := d.api.StreamDestroy(s); failure == nil {
				failure = err
			}
		}
		d.streams <- 0
	}
	return failure
}
