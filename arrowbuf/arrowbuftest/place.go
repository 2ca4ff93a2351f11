package arrowbuftest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// place is a stack, from the innermost call outwards.
type place struct{ stack *[24]uintptr }

// here is the place of who calls it.
func here() place {
	var stack [24]uintptr
	runtime.Callers(2, stack[:])
	return place{&stack}
}

// shown is how many callers a place names.
const shown = 3

// String names the outermost function of this module that was called, if one was, and who
// called it, with file and line: test helpers have callers worth a name, too.
func (p place) String() string {
	n := len(p.stack)
	for n > 0 && p.stack[n-1] == 0 {
		n--
	}
	called := ""
	var callers []string
	for frames, more := runtime.CallersFrames(p.stack[:n]), n > 0; more && len(callers) < shown; {
		var f runtime.Frame
		f, more = frames.Next()
		name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
		switch {
		case len(callers) == 0 && isLibrary(f):
			called = strings.TrimPrefix(strings.TrimPrefix(name, "arrowbuftest.(*device)."), "arrowbuftest.(*buffer).")
		case strings.HasPrefix(f.Function, "testing.") || strings.HasPrefix(f.Function, "runtime."):
		default:
			callers = append(callers, fmt.Sprintf("%s (%s:%d)", name, filepath.Base(f.File), f.Line))
		}
	}
	by := strings.Join(callers, ", called by ")
	switch {
	case called == "":
		return by
	case by == "":
		return called
	}
	return called + ", called by " + by
}

// isLibrary tells whether a frame is of this module or of arrow-go, and not of
// their tests: a mistake is sought with who calls them.
func isLibrary(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	return strings.HasPrefix(f.Function, "github.com/quiver-gpu/quiver/") || strings.HasPrefix(f.Function, "github.com/apache/arrow-go/")
}
