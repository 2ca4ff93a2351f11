// Package progress draws how far a conversion is. It does not know the commands, so the
// race detector runs its tests without compiling the clients of object stores.
package progress

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// Show draws a progress bar with the bytes of the input, rows, rate and time left, until
// the returned function is called.
func Show(w io.Writer, p *arrowzarr.Progress) (stop func()) {
	bar := progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
		// The bar must not draw itself between our calls: that is a data race.
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
				draw(bar, p)
			case <-done:
				// A bar that cannot be drawn is no error of the conversion.
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

func draw(bar *progressbar.ProgressBar, p *arrowzarr.Progress) {
	read, total := p.Input()
	if total > 0 {
		bar.ChangeMax64(total)
	}
	rows, _ := p.Rows()
	bar.Describe(fmt.Sprintf("%s rows", humanize.Comma(rows)))
	_ = bar.Set64(read)
}
