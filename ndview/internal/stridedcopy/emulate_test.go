//go:build emulate

package stridedcopy_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// emulator is a process of kernels/emulate. It ends with a report if a kernel accesses
// memory outside its operands.
type emulator struct {
	in     io.Writer
	out    *bufio.Reader
	report bytes.Buffer
	done   func() error
}

func startEmulator(t *testing.T) *emulator {
	e := &emulator{}
	command := exec.CommandContext(t.Context(), os.Getenv("QUIVER_EMULATE")+"/emulate-copy")
	command.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0")
	command.Stderr = &e.report
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start(), "make emulate builds it")
	e.in, e.out = in, bufio.NewReader(out)
	e.done = func() error { _ = in.Close(); return command.Wait() }
	return e
}

// run returns the bytes of a destination; dstBefore of them precede the kernel's
// pointer.
func (e *emulator) run(p stridedcopy.Plan, width, dst, dstBefore int64, src []byte, srcBefore int64) ([]byte, error) {
	_, err := fmt.Fprintf(e.in, "%s %d %d %d %s %d %d %d %d\n", p.Kernel.Function(width), p.Blocks, p.Threads, p.Shared, hex.EncodeToString(p.Struct), dst, dstBefore, len(src), srcBefore)
	if err == nil {
		_, err = e.in.Write(src)
	}
	got := make([]byte, dst)
	if err == nil {
		_, err = io.ReadFull(e.out, got)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w\n%s", err, e.done(), e.report.String())
	}
	return got, nil
}

// TestKernelsCopyWithinTheirMemory runs every kernel that can copy a nest, not only the
// fastest, for random nests. QUIVER_EMULATE_SEED selects other nests.
func TestKernelsCopyWithinTheirMemory(t *testing.T) {
	const ours = 2 // the nests of this seed use all kernels
	e, seed := startEmulator(t), uint64(ours)
	if text := os.Getenv("QUIVER_EMULATE_SEED"); text != "" {
		_, err := fmt.Sscan(text, &seed)
		require.NoError(t, err)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	ran := map[string]int{}
	for i := range 500 {
		c := newCopyCase(r, i)
		for _, p := range c.plans(r) {
			about := fmt.Sprintf("%s of %+v, seed %d", p.Kernel, c.nest, seed)
			got, err := e.run(p, c.width, int64(len(c.want)), c.before[0], c.src, c.before[1])
			require.NoError(t, err, about)
			require.True(t, bytes.Equal(c.want, got), about)
			ran[strings.TrimRight(string(p.Kernel), "0123456789")]++
			if p.Kernel == "run_tiles" {
				ran[p.Kernel.Function(c.width)]++
			}
		}
	}
	require.NoError(t, e.done(), e.report.String())
	for _, kernel := range []string{
		"tiles", "sector_tiles", "narrow_tiles", "matrix_tiles", "word_tiles", "run_tiles", "short_run_tiles", "matrix_byte_tiles", "box_tiles",
		"rows", "unit_rows", "vector_rows", "word_rows", "joined_rows", "interleave", "deinterleave", "quiver_run_tiles_1", "quiver_run_tiles_2",
	} {
		assert.True(t, ran[kernel] > 0 || seed != ours, kernel)
	}
	t.Log(ran)
}

// copyCase is a nest, its source, and the expected destination.
type copyCase struct {
	width     int64
	nest      layout.Nest
	before    [2]int64 // bytes before the kernel's pointers: destination, source
	src, want []byte
}

func newCopyCase(r *rand.Rand, i int) copyCase {
	c := copyCase{width: []int64{1, 1, 2, 2, 4, 8, 16}[r.IntN(7)]}
	switch {
	case i%25 == 4:
		c.width = 4
	case i%5 == 3:
		c.width = 4 << r.IntN(3)
	}
	small := 1 + r.Int64N(2)
	some := func(most int64) int64 { return 1 + r.Int64N(most) }
	for i := range c.before {
		c.before[i] = c.width * small * r.Int64N(40)
	}
	var shape []int64
	gaps := true
	switch {
	case i%100 == 99: // enough tiles for run_tiles
		c.width, shape = small, []int64{1500 + some(500), (7 << 20) / small / 1500}
	case i%5 == 0: // short rows that follow one another
		c.width, shape, gaps = small, []int64{100 + some(2000), some(260) / small}, false
	case i%5 == 1: // whole sectors
		c.width, shape, gaps, c.before = small, []int64{32 * some(12), some(3), 32 * some(8)}, false, [2]int64{}
	case i%5 == 2: // planes, or rows of one unit of each
		c.width, shape = small, []int64{some(3), 1 + some(7), 1000 + some(3000)}
	case i%25 == 4: // run tiles of 4 bytes
		shape, gaps = []int64{some(2), 270 + some(100), 270 + some(100)}, false
	case i%5 == 3: // rows longer than a tile, of large units
		shape, gaps = []int64{some(3), 30 + some(120), 130 + some(200)}, r.IntN(4) == 0
	default:
		for len(shape) == 0 || layout.Product(shape)*c.width > 300<<10 {
			shape = make([]int64, 2+r.IntN(3))
			for i := range shape {
				shape[i] = some([]int64{4, 20, 90, 300, 1000}[r.IntN(5)])
			}
		}
	}
	for i := range shape {
		shape[i] = max(shape[i], 2)
	}
	dst, src := make([]int64, len(shape)), make([]int64, len(shape))
	order := reversedOrder(len(shape))
	if i%2 == 0 {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	end := c.before[0] + setStrides(r, c.width, shape, dst, order, gaps)
	for slices.Equal(order, reversedOrder(len(shape))) || r.IntN(2) == 0 {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	c.src, c.want = make([]byte, c.before[1]+setStrides(r, c.width, shape, src, order, gaps)), bytes.Repeat([]byte{0xEE}, int(end))
	c.nest = layout.Collapse(shape, dst, src)
	for i := range c.src {
		c.src[i] = byte(r.Uint32())
	}
	c.copy(0, c.before[0], c.before[1])
	return c
}

func reversedOrder(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}

// setStrides assigns ascending strides to the axes in order, with or without gaps, and
// returns where the last unit ends.
func setStrides(r *rand.Rand, width int64, shape, strides []int64, order []int, gaps bool) int64 {
	end, size := width, width
	for _, axis := range order {
		if gaps && r.IntN(8) == 0 {
			size += width * r.Int64N(5)
		}
		strides[axis] = size
		end += (shape[axis] - 1) * size
		size *= shape[axis]
	}
	return end
}

func (c *copyCase) copy(axis int, dst, src int64) {
	if axis == len(c.nest.Shape) {
		copy(c.want[dst:][:c.width], c.src[src:])
		return
	}
	for i := range c.nest.Shape[axis] {
		c.copy(axis+1, dst+i*c.nest.Strides[0][axis], src+i*c.nest.Strides[1][axis])
	}
}

// plans returns the plans of all kernels that can copy the nest.
func (c *copyCase) plans(r *rand.Rand) (all []stridedcopy.Plan) {
	n, width := c.nest, c.width
	dst, src := uint64(c.before[0]), uint64(c.before[1])
	room := []int64{0, 48 << 10, 64 << 10, 99 << 10, memory}[r.IntN(5)]
	if len(c.src) > 1<<20 {
		room = memory // otherwise run tiles would not fit
	}
	if len(n.Shape) == 0 {
		return nil
	}
	if w, kernel, ok := stridedcopy.NewInterleave(width, n); ok {
		all = append(all, w.Plan(kernel))
	}
	tiles, kernel, ok := stridedcopy.NewTiles(width, dst, src, n, room)
	if ok {
		all = append(all, tiles.Plan(kernel))
	}
	rows, kernel := stridedcopy.NewRows(width, n)
	all = append(all, rows.Plan(kernel, width))
	for _, room := range []int64{4 << 10, 46 << 10, 110 << 10} {
		if b, ok := stridedcopy.NewBoxTiles(width, dst, src, n, room, "narrow_tiles", tiles); ok {
			all = append(all, b.Plan())
		}
	}
	return all
}
