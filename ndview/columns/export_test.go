package columns

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// KernelCall is one call of a host kernel on the CPU. An argument is "pointer",
// "number" or "struct of n".
type KernelCall struct {
	Kernel    string
	Arguments []string
}

// WatchHostKernels reports every call of a host kernel on the CPU until the test ends.
// It returns the PTX of all programs and the names of all host kernels.
func WatchHostKernels(t *testing.T, report func(KernelCall)) (ptx string, names []string) {
	t.Helper()
	for _, p := range []*program{indexProgram, rangeProgram, nestProgram, joinProgram} {
		image, err := p.cuda.ImageFor(99, 0) // newer than any machine code, so PTX is returned
		require.NoError(t, err)
		ptx += string(image)
		for name, run := range p.hostKernels {
			names = append(names, name)
			p.hostKernels[name] = func(c kernelArgs) {
				arguments := make([]string, len(c.(hostArgs)))
				for i, arg := range c.(hostArgs) {
					switch a := arg.(type) {
					case []byte:
						arguments[i] = fmt.Sprint("struct of ", len(a))
					case int64:
						arguments[i] = "number"
					default:
						arguments[i] = "pointer"
					}
				}
				report(KernelCall{name, arguments})
				run(c)
			}
			t.Cleanup(func() { p.hostKernels[name] = run })
		}
	}
	return ptx, names
}
