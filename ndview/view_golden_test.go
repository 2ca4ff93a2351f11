package ndview_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestViewsMatchNumPy(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/views.txt")
	require.NoError(t, err)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		pool := ndtest.Upload(t, dev, make([]byte, 8192))
		var a *ndview.NDBuffer
		cases := 0
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if array, ok := strings.CutPrefix(line, "= "); ok {
				name, run, _ := strings.Cut(array, " ")
				a = arrayOverPool(t, pool, dtypeNamed(t, name), run)
				continue
			}
			ask, want, _ := strings.Cut(line, " > ")
			got := operationResult(t, a, ask)
			if !sameResult(want, got) {
				t.Fatalf("line %d: %s of shape %v, strides %v, offset %d, itemsize %d: want %s, got %s",
					i+1, ask, a.Shape(), a.Strides(), a.Offset(), a.DType().Size(), want, got)
			}
			cases++
		}
		assert.Greater(t, cases, 9000)
	})
}

// dtypeNamed returns a dtype of the golden files.
func dtypeNamed(t *testing.T, name string) ndview.DType {
	t.Helper()
	if width, ok := strings.CutPrefix(name, "V"); ok {
		return ndview.Bytes(int32(parse(t, width)[0]))
	}
	dtype, ok := map[string]ndview.DType{
		"u1": ndview.Uint8, "i2": ndview.Int16, "f4": ndview.Float32, "f8": ndview.Float64, "c16": ndview.Complex128,
	}[name]
	require.True(t, ok, name)
	return dtype
}

// parseRun parses "size shape/strides@offset".
func parseRun(t *testing.T, text string) layout.Run {
	t.Helper()
	size, rest, _ := strings.Cut(text, " ")
	shape, rest, _ := strings.Cut(rest, "/")
	strides, offset, _ := strings.Cut(rest, "@")
	return layout.Run{Offset: parse(t, offset)[0], Size: parse(t, size)[0], Shape: parse(t, shape), Strides: parse(t, strides)}
}

func parse(t *testing.T, numbers string) (out []int64) {
	t.Helper()
	for _, n := range strings.FieldsFunc(numbers, func(r rune) bool { return r == ',' }) {
		v, err := strconv.ParseInt(n, 10, 64)
		require.NoError(t, err)
		out = append(out, v)
	}
	return out
}

// arrayOverPool returns an array over a pool of bytes.
func arrayOverPool(t *testing.T, pool arrowbuf.Buffer, dtype ndview.DType, text string) *ndview.NDBuffer {
	t.Helper()
	run := parseRun(t, text)
	a, err := ndview.FromBuffer(pool, dtype, run.Offset, run.Shape, run.Strides)
	return ndtest.Own(t, a, err)
}

// operationResult returns the result of an operation on a in the form of the golden
// file.
func operationResult(t *testing.T, a *ndview.NDBuffer, ask string) string {
	t.Helper()
	name, rest, _ := strings.Cut(ask, " ")
	if name == "flags" {
		f := a.Flags()
		bits := ""
		for _, flag := range []bool{f.CContiguous, f.FContiguous, f.Aligned, f.FNC(), f.FORC(), f.Behaved(), f.CArray()} {
			bits += map[bool]string{false: "0", true: "1"}[flag]
		}
		return bits
	}
	v, err := applyOperation(t, a, name, rest)
	switch {
	case errors.Is(err, arrowbuf.ErrOutOfRange):
		return "!range"
	case errors.Is(err, ndview.ErrShape):
		return "!shape"
	}
	require.NoError(t, err, ask)
	defer v.Release()
	numbers := func(values []int64) string {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(values), "[]"), " ", ",")
	}
	lies := numbers(v.Shape()) + "/" + numbers(v.Strides())
	if v.Base() == nil {
		return "copy " + lies
	}
	assert.Same(t, a, v.Base())
	assert.Equal(t, name != "broadcast", v.Flags().Writeable)
	return lies + "@" + fmt.Sprint(v.Offset())
}

// applyOperation applies an operation of the golden file to a.
func applyOperation(t *testing.T, a *ndview.NDBuffer, name, rest string) (*ndview.NDBuffer, error) {
	t.Helper()
	first, second, _ := strings.Cut(rest, " ")
	axes := func() (out []int) {
		for _, n := range parse(t, rest) {
			out = append(out, int(n))
		}
		return out
	}
	switch name {
	case "index":
		return a.Index(keys(t, rest)...)
	case "reshape":
		return a.ReshapeOrder(ndview.Order(first[0]), parse(t, second)...)
	case "ravel":
		return a.Ravel(ndview.Order(first[0]))
	case "squeeze":
		if len(axes()) == 0 { // NumPy's default
			return a.SqueezeAll()
		}
		return a.Squeeze(axes()...)
	case "expand":
		return a.ExpandDims(axes()...)
	case "transpose":
		return a.Transpose(axes()...)
	case "swap":
		return a.SwapAxes(axes()[0], axes()[1])
	case "move":
		return a.MoveAxis(axes()[0], axes()[1])
	case "broadcast":
		return a.BroadcastTo(parse(t, rest)...)
	case "view":
		return a.View(dtypeNamed(t, first))
	}
	t.Fatalf("operation %s", name)
	return nil, nil
}

// keys parses Python's keys such as 1, ::2 and None.
func keys(t *testing.T, text string) (keys []ndview.Key) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		parts := strings.Split(word, ":")
		bound := func(i int) int64 {
			if i >= len(parts) || parts[i] == "" {
				return ndview.Open
			}
			return parse(t, parts[i])[0]
		}
		switch {
		case word == "()":
		case word == "new":
			keys = append(keys, ndview.NewAxis)
		case word == "...":
			keys = append(keys, ndview.Ellipsis)
		case len(parts) == 1:
			keys = append(keys, ndview.At(bound(0)))
		default:
			keys = append(keys, ndview.SpanStep(bound(0), bound(1), bound(2)))
		}
	}
	return keys
}

// sameResult compares results, except for the offset of empty arrays, which may be
// any.
func sameResult(want, got string) bool {
	shape, _, _ := strings.Cut(want, "/")
	if slices.Contains(strings.Split(shape, ","), "0") {
		want, _, _ = strings.Cut(want, "@")
		got, _, _ = strings.Cut(got, "@")
	}
	return want == got
}
