//go:build linux && gorgonia

package libcuda

// #include <stdint.h>
import "C"

//export quiverRunHostFunc
func quiverRunHostFunc(number C.uintptr_t) { runHostFunc(uintptr(number)) }
