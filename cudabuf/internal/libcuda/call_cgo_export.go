//go:build linux && gorgonia

package libcuda

// #include <stdint.h>
import "C"

//export quiverRunPending
func quiverRunPending(number C.uintptr_t) { runPending(uintptr(number)) }
