package elementwise

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// constantNames returns the constants that a file lists between two marks, in lower case,
// without underscores and without the prefix.
func constantNames(t testing.TB, file, from, to, prefix string) (list []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	_, block, ok := strings.Cut(string(source), from)
	require.True(t, ok)
	block, _, ok = strings.Cut(block, to)
	require.True(t, ok)
	block = regexp.MustCompile(`//.*`).ReplaceAllString(block, "")
	for _, name := range regexp.MustCompile(`\w+`).FindAllString(block, -1) {
		name = strings.ToLower(strings.TrimPrefix(name, prefix))
		list = append(list, strings.ReplaceAll(name, "_", ""))
	}
	return list
}

func TestOpsMatchKernels(t *testing.T) {
	here := constantNames(t, "op.go", "_ Op = iota", "\tops\n", "")
	kernels := constantNames(t, "../../../../internal/kernels/elementwise/ops.cuh", "op_none,", "};", "op_")
	assert.Equal(t, here, kernels)
	assert.Len(t, here, int(ops)-1)
}

func TestTypesMatchKernels(t *testing.T) {
	short := strings.NewReplacer("uint", "u", "int", "i", "bfloat", "bf", "float", "f", "complex", "c")
	var here []string
	for _, name := range constantNames(t, "../cpu.go", "Bool Type = iota", "\tTypes ", "") {
		here = append(here, short.Replace(name))
	}
	kernels := constantNames(t, "../../../../internal/kernels/common/element.cuh", "enum Type : uint8_t {", "};", "type_")
	assert.Equal(t, append([]string{"bool"}, here...), kernels)
}

func TestEveryOpHasLoops(t *testing.T) {
	for op := Add; op < ops; op++ {
		types := 0
		for _, loop := range loops[op] {
			if loop != nil {
				types++
			}
		}
		assert.Positive(t, types, "operation %d", op)
	}
}
