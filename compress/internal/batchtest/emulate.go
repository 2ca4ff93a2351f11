//go:build emulate

package batchtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
)

// Emulator is a process of kernels/emulate that runs kernels on the CPU. It ends with a
// report if one accesses memory outside its buffers.
type Emulator struct {
	t      *testing.T
	in     io.Writer
	out    *bufio.Reader
	report bytes.Buffer
}

// StartEmulator starts the program emulate-decode in the folder that QUIVER_EMULATE names.
func StartEmulator(t *testing.T) *Emulator {
	e := &Emulator{t: t}
	command := exec.CommandContext(t.Context(), os.Getenv("QUIVER_EMULATE")+"/emulate-decode")
	command.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0")
	command.Stderr = &e.report
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start(), "make emulate builds it")
	e.in, e.out = in, bufio.NewReader(out)
	return e
}

// Launch runs a kernel. An argument is an int64, or a []byte that the kernel may change.
func (e *Emulator) Launch(kernel string, blocks, threads int64, arguments ...any) {
	e.t.Helper()
	var line strings.Builder
	fmt.Fprintf(&line, "%s %d %d", kernel, blocks, threads)
	for _, a := range arguments {
		switch a := a.(type) {
		case int64:
			fmt.Fprintf(&line, " =%d", a)
		case []byte:
			fmt.Fprintf(&line, " %d", len(a))
		default:
			e.t.Fatalf("argument of type %T", a)
		}
	}
	_, err := fmt.Fprintln(e.in, line.String())
	for _, a := range arguments {
		if b, ok := a.([]byte); ok && err == nil {
			_, err = e.in.Write(b)
		}
	}
	for _, a := range arguments {
		if b, ok := a.([]byte); ok && err == nil {
			_, err = io.ReadFull(e.out, b)
		}
	}
	require.NoError(e.t, err, "%s: %s", line.String(), e.report.String())
}

// Pack returns inputs at odd places of one buffer, as items of kernels, and the size of a
// buffer with room for sizes[i] bytes of output i.
func Pack(inputs [][]byte, sizes []int) (src []byte, items []batch.Item, room int64) {
	for i, in := range inputs {
		src, room = append(src, make([]byte, i*7%20)...), room+int64(i*5%20)
		items = append(items, batch.Item{Src: int64(len(src)), SrcSize: int64(len(in)), Dst: room, DstSize: int64(sizes[i])})
		src, room = append(src, in...), room+int64(sizes[i])
	}
	return src, items, room
}

// Unpack returns the outputs of items in dst.
func Unpack(dst []byte, items []batch.Item, outcomes []batch.Outcome) [][]byte {
	outputs := make([][]byte, len(items))
	for i, it := range items {
		outputs[i] = dst[it.Dst : it.Dst+outcomes[i].Size]
	}
	return outputs
}

// EmulatedEncoder runs the kernels of an encoder on items, as the package does. dst has 0xEE
// outside of the outputs.
type EmulatedEncoder = func(e *Emulator, src []byte, items []batch.Item, dst []byte) []batch.Outcome

// CompareEncoders encodes random inputs by emulated kernels and by the host implementation,
// and checks that the outputs are equal and decode. encoders returns both for a round.
func CompareEncoders(t *testing.T, rounds int, bound func(int64) int64, encoders func(round int) (EmulatedEncoder, Function), decode func(in []byte, n int) ([]byte, error)) {
	e, r := StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	dev := Simulated(t)
	for round := range rounds {
		n := r.IntN(6000)
		if round%6 == 0 {
			n = 30_000 + r.IntN(300_000)
		}
		all := inputs(r, n)
		sizes := make([]int, len(all))
		for i, in := range all {
			sizes[i] = int(bound(int64(len(in))))
		}
		emulated, host := encoders(round)
		src, items, room := Pack(all, sizes)
		dst := bytes.Repeat([]byte{filler}, int(room))
		outcomes := emulated(e, src, items, dst)
		want, results := Run(t, dev, all, sizes, host)
		for i, got := range Unpack(dst, items, outcomes) {
			require.Equal(t, batch.OK, outcomes[i].Status)
			require.NoError(t, results[i].Err)
			back, err := decode(got, n)
			require.NoError(t, err, "input %d of %d bytes", i, n)
			require.True(t, bytes.Equal(all[i], back), "input %d of %d bytes", i, n)
			require.True(t, bytes.Equal(want[i], got), "input %d of %d bytes: the host implementation has %d bytes, the kernels %d", i, n, len(want[i]), len(got))
		}
	}
}
