//go:build emulate

package blas

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview"
)

// TestKernelsMultiplyWithinTheirMemory compares the kernels of integers and bool with their
// host implementations, under AddressSanitizer.
func TestKernelsMultiplyWithinTheirMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var input bytes.Buffer
	var want [][]byte
	add := func(kernel string, blocks int64, buffers [][]byte, x *product, splits int64) {
		fmt.Fprintf(&input, "%s %d %d", kernel, blocks, launch.Threads)
		for _, b := range append(buffers, launch.StructBytes(x)) {
			fmt.Fprintf(&input, " %d", len(b))
		}
		if splits > 0 {
			fmt.Fprintf(&input, " =%d", splits)
		}
		input.WriteByte('\n')
		for _, b := range append(buffers, launch.StructBytes(x)) {
			input.Write(b)
		}
	}
	for _, dtype := range []ndview.DType{ndview.Bool, ndview.Uint8, ndview.Uint16, ndview.Uint32, ndview.Uint64} {
		n, size := numbers[dtype], dtype.Size()
		for round := range 12 {
			x := product{m: 1 + r.Int64N(100), n: 1 + r.Int64N(100), k: r.Int64N(50), batch: 1 + r.Int64N(3), opA: r.Int32N(2), opB: r.Int32N(2), readC: r.Int32N(2)}
			if round%3 == 0 {
				x.m, x.n, x.k = 1+r.Int64N(9), 1+r.Int64N(9), 1+r.Int64N(1000)
			}
			x.alpha[0], x.beta[0] = r.Uint64(), r.Uint64()
			x.lda, x.ldb, x.ldc = max(x.m, x.k)+r.Int64N(3), max(x.n, x.k)+r.Int64N(3), x.m+r.Int64N(3)
			x.strideA, x.strideB, x.strideC = x.lda*max(x.m, x.k), 0, x.ldc*x.n
			splits := int64(1)
			if r.IntN(2) == 0 {
				splits, x.split = 2+r.Int64N(5), 1
			}
			na, nb, nc := x.sizes()
			buffers := [][]byte{make([]byte, na*size), make([]byte, nb*size), make([]byte, nc*size)}
			for _, b := range buffers {
				for i := range b {
					b[i] = byte(r.Uint32())
					if dtype == ndview.Bool {
						b[i] = byte(r.Uint32() & r.Uint32() & r.Uint32() & 1)
					}
				}
			}
			if x.split != 0 {
				add("quiver_scale_"+n.name, 1+r.Int64N(4), buffers[2:], &x, 0)
				scaled := x
				scaled.k = 0
				n.host(&scaled, nil, nil, unsafe.Pointer(unsafe.SliceData(buffers[2])))
				want = append(want, bytes.Clone(buffers[2]), bytes.Clone(launch.StructBytes(&x)))
			}
			name := []string{"quiver_multiply_", "quiver_multiply_thin_", "quiver_multiply_wide_"}[(round+round/3)%3] + n.name
			if size == 8 {
				name = strings.Replace(name, "wide_", "", 1)
			}
			add(name, 1+r.Int64N(5), buffers, &x, splits)
			want = append(want, bytes.Clone(buffers[0]), bytes.Clone(buffers[1]))
			sum := x
			if x.split != 0 {
				sum.beta, sum.readC = [2]uint64{1}, 1
			}
			n.host(&sum, unsafe.Pointer(unsafe.SliceData(buffers[0])), unsafe.Pointer(unsafe.SliceData(buffers[1])), unsafe.Pointer(unsafe.SliceData(buffers[2])))
			want = append(want, buffers[2], bytes.Clone(launch.StructBytes(&x)))
		}
	}
	command := exec.CommandContext(t.Context(), os.Getenv("QUIVER_EMULATE")+"/emulate-decode")
	command.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0")
	command.Stdin = &input
	var report bytes.Buffer
	command.Stderr = &report
	got, err := command.Output()
	require.NoError(t, err, "%s", report.String())
	for i, w := range want {
		require.GreaterOrEqual(t, len(got), len(w))
		require.True(t, bytes.Equal(w, got[:len(w)]), "buffer %d of %d", i, len(want))
		got = got[len(w):]
	}
	require.Empty(t, got)
}
