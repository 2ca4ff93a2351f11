package main

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// showProgress draws a bar of the input's bytes, with rows, rate and time left,
// until the returned function is called.
func showProgress(w io.Writer, p *arrowzarr.Progress) (stop func()) {
	bar := progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
		// Its own drawing between ours looks at the bar without a lock.
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionThrottle(50*time.Millisecond))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				drawProgress(bar, p)
			case <-done:
				// The bar is decoration: that it cannot be drawn is no failure.
				_ = bar.Finish()
				return
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

func drawProgress(bar *progressbar.ProgressBar, p *arrowzarr.Progress) {
	read, total := p.Input()
	if total > 0 {
		bar.ChangeMax64(total)
	}
	rows, _ := p.Rows()
	bar.Describe(fmt.Sprintf("%s rows", humanize.Comma(rows)))
	_ = bar.Set64(read)
}
