package columns_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/columns"
)

var parameters = regexp.MustCompile(`\.param \S+(?: \d+ \.b8)? (\w+)(?:\[(\d+)\])?`)

// parametersOf returns the parameters of each kernel in PTX. A parameter that is
// converted to a global address is a pointer. Any other one of 8 bytes is a number, or
// a pointer that the kernel does not dereference.
func parametersOf(ptx string) map[string][]string {
	all := map[string][]string{}
	for _, text := range strings.Split(ptx, ".visible .entry ")[1:] {
		head, body, _ := strings.Cut(text, ")")
		name, list, _ := strings.Cut(head, "(")
		all[name] = []string{}
		for _, p := range parameters.FindAllStringSubmatch(list, -1) {
			kind := "8 bytes"
			loaded := regexp.MustCompile(`ld\.param\.\w+\s+(%\w+), \[` + p[1] + `\]`).FindStringSubmatch(body)
			switch {
			case p[2] != "":
				kind = "struct of " + p[2]
			case loaded != nil && regexp.MustCompile(`cvta\.to\.global\.u64\s+%\w+, `+loaded[1]+`;`).MatchString(body):
				kind = "pointer"
			}
			all[name] = append(all[name], kind)
		}
	}
	return all
}

// Launches pass arguments untyped, so this compares the arguments of host kernels with
// the parameters in PTX.
func TestKernelArgumentsMatchPTXParameters(t *testing.T) {
	var calls []columns.KernelCall
	ptx, names := columns.WatchHostKernels(t, func(c columns.KernelCall) { calls = append(calls, c) })
	wanted := parametersOf(ptx)
	for _, name := range names {
		require.Contains(t, wanted, name, "a host kernel without its kernel")
	}
	require.Len(t, wanted, len(names), "a kernel without its host kernel")

	for _, dtype := range types {
		m := newMaker(t, 6, true)
		a, b := m.array(dtype, 60, true), m.array(dtype, 50, true)
		for _, indexType := range indexTypes {
			_, err := columns.Take(a, indexArray(t, indexType, []int{3, -1, 4, 4}))
			require.NoError(t, err)
		}
		_, err := columns.Concatenate(a, b)
		require.NoError(t, err)
		_, _ = columns.Flatten(a) // not all types are lists
		_, _ = columns.Decode(a)
	}
	for _, to := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString} {
		for _, from := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString} {
			_, err := columns.CastOffsets(newMaker(t, 6, true).array(from, 60, true), to)
			require.NoError(t, err)
		}
	}
	called := map[string]bool{}
	for _, c := range calls {
		called[c.Kernel] = true
		require.Len(t, c.Arguments, len(wanted[c.Kernel]), c.Kernel)
		for i, kind := range wanted[c.Kernel] {
			if kind == "8 bytes" {
				require.Contains(t, []string{"number", "pointer"}, c.Arguments[i], "%s: argument %d", c.Kernel, i)
			} else {
				require.Equal(t, kind, c.Arguments[i], "%s: argument %d", c.Kernel, i)
			}
		}
	}
	for _, name := range names {
		require.True(t, called[name], "%s was not called", name)
	}
}
