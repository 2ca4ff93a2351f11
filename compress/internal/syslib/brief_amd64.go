//go:build linux

package syslib

// call is what a C function is called with, and returns.
type call struct {
	function uintptr
	args     [maxArgs]uintptr
	result   uintptr
}

// maxArgs is the number of arguments that C functions get in registers.
const maxArgs = 6

// onSystemStack makes a call on the stack of the thread. The scheduler does not know of it.
//
//go:noescape
func onSystemStack(c *call)

// callBriefly is Call without the scheduler. It returns false if there are more than maxArgs
// arguments.
func callBriefly(function uintptr, args []uintptr) (result uintptr, ok bool) {
	if len(args) > maxArgs {
		return 0, false
	}
	c := call{function: function}
	copy(c.args[:], args)
	onSystemStack(&c)
	return c.result, true
}
