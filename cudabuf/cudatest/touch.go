package cudatest

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/quiver-gpu/quiver/cudabuf/internal/soft"
)

// CatchTouch runs f and tells where it, on this goroutine, touched memory of a
// soft device: the error names device, allocation and offset, and ends with the
// stack. It is nil where f touched none; other panics go on.
//
// A touch that nobody catches ends the process: it is a fault ("unexpected
// fault address"), and Go prints the stack of the goroutine. A GPU's memory
// faults at the host just so.
func CatchTouch(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		fault, ok := p.(interface {
			runtime.Error
			Addr() uintptr
		})
		if ok {
			if where, known := soft.Describe(fault.Addr()); known {
				err = fmt.Errorf("the host touches device memory: %s\n%s", where, debug.Stack())
				return
			}
		}
		panic(p)
	}()
	f()
	return nil
}
