package arrowbuftest_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
)

// printer stands for the testing.T of a test.
type printer struct {
	testing.TB
	cleanups []func()
}

var lines = regexp.MustCompile(`:\d+`)

func (p *printer) Helper()          {}
func (p *printer) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }
func (p *printer) Errorf(format string, args ...any) {
	fmt.Println(lines.ReplaceAllString(fmt.Sprintf(format, args...), ":LINE"))
}

func ExampleChecked() {
	t := &printer{} // stands for the test's *testing.T
	dev := arrowbuftest.Checked(t, arrowbuf.CPU())
	if _, err := dev.Alloc(100); err != nil {
		fmt.Println(err)
	}
	t.cleanups[0]() // the test ends
	// Output: leak: 100 bytes on cpu, allocated by Alloc, called by arrowbuftest_test.ExampleChecked (example_test.go:LINE), called by main.main (_testmain.go:LINE)
}
