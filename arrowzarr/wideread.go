package arrowzarr

import (
	"io"

	"golang.org/x/sync/errgroup"
)

// wideReader reads long stretches of a file in several goroutines: one core
// copies from the page cache at a fraction of what a GPU's link takes.
type wideReader struct {
	io.ReaderAt
	io.Seeker
	jobs int
}

// stripe is what one goroutine reads at a time.
const stripe = 4 << 20

// Read is here for the interface that arrow-go asks for; it only calls ReadAt.
func (r wideReader) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// ReadAt keeps the contract of io.ReaderAt: where it reads less than asked for,
// it answers how much of p is right from the start.
func (r wideReader) ReadAt(p []byte, off int64) (int, error) {
	if len(p) <= stripe || r.jobs < 2 {
		return r.ReaderAt.ReadAt(p, off)
	}
	stripes := (len(p) + stripe - 1) / stripe
	read := make([]int, stripes)
	errs := make([]error, stripes)
	var group errgroup.Group
	group.SetLimit(r.jobs)
	for i := range stripes {
		group.Go(func() error {
			start := i * stripe
			part := p[start:min(start+stripe, len(p))]
			read[i], errs[i] = r.ReaderAt.ReadAt(part, off+int64(start))
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, by place
	for i, err := range errs {
		if err != nil {
			return i*stripe + read[i], err
		}
	}
	return len(p), nil
}
