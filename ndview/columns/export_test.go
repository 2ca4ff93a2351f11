package columns

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Call is a call of a kernel on the CPU, with what each argument is: a pointer, a
// number, or a struct of so many bytes.
type Call struct {
	Kernel    string
	Arguments []string
}

// Watch tells of all calls of kernels on the CPU until the test ends, and answers
// PTX of all programs, and the names of all twins.
func Watch(t *testing.T, tell func(Call)) (ptx string, twins []string) {
	t.Helper()
	for _, p := range []*program{indexProgram, rangeProgram, nestProgram, joinProgram} {
		image, err := p.cuda.ImageFor(99, 0) // newer than all machine code
		require.NoError(t, err)
		ptx += string(image)
		for name, do := range p.twins {
			twins = append(twins, name)
			p.twins[name] = func(c call) {
				arguments := make([]string, len(c.(hostCall)))
				for i, arg := range c.(hostCall) {
					switch a := arg.(type) {
					case []byte:
						arguments[i] = fmt.Sprint("struct of ", len(a))
					case int64:
						arguments[i] = "number"
					default:
						arguments[i] = "pointer"
					}
				}
				tell(Call{name, arguments})
				do(c)
			}
			t.Cleanup(func() { p.twins[name] = do })
		}
	}
	return ptx, twins
}
