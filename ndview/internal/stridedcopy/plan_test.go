package stridedcopy_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/internal/kernels"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// The parameters of a compiled kernel are two pointers and its copy of the plan's
// struct, and its launch bounds are the plan's threads.
func TestPlanLayoutsMatchKernels(t *testing.T) {
	for image, kernels := range stridedcopy.Images {
		found := compiledKernels(t, image)
		require.NotEmpty(t, found, image)
		for _, kernel := range kernels {
			widths := 0
			for _, width := range []int64{1, 2, 4, 8, 16} {
				k, ok := found[kernel.Function(width)]
				if !ok {
					continue // not for this width
				}
				delete(found, kernel.Function(width))
				widths++
				p := planOf(kernel, width)
				assert.Equal(t, 2*8+len(p.Struct), int(k.parameters), "%s of %d", kernel, width)
				assert.EqualValues(t, p.Threads, k.threads, "%s of %d", kernel, width)
			}
			assert.Positive(t, widths, kernel)
		}
		assert.Empty(t, found, "%s has kernels that are not in Images", image)
	}
}

// planOf returns an empty plan, for box tiles one that uses all the memory, and so the
// most threads.
func planOf(kernel stridedcopy.Kernel, width int64) stridedcopy.Plan {
	switch kernel.Image() {
	case "copy/interleave":
		return (&stridedcopy.Interleave{}).Plan(kernel)
	case "copy/box_tiles":
		return (&stridedcopy.BoxTiles{Shared: memory, UnitsA: 1, A: stridedcopy.SplitAxis{Whole: 1}, RunsA: 1, B: stridedcopy.SplitAxis{Whole: 1}}).Plan()
	case "copy/rows":
		return (&stridedcopy.Rows{}).Plan(kernel, width)
	}
	return (&stridedcopy.Tiles{}).Plan(kernel)
}

// kernel has a cubin's attributes of a kernel: the bytes of its parameters, and the
// most threads per block.
type kernel struct {
	parameters uint16
	threads    uint32
}

func compiledKernels(t *testing.T, image string) map[string]kernel {
	const mostThreads, sizeOfParameters, bytesFollow = 0x05, 0x19, 0x04 // EIATTR_MAX_THREADS, EIATTR_CBANK_PARAM_SIZE, EIFMT_SVAL
	code, err := kernels.Image(image, 9, 0)
	require.NoError(t, err)
	code = bytes.Clone(code)
	code[elf.EI_NIDENT+4] = byte(elf.EV_CURRENT) // a cubin has another e_version
	file, err := elf.NewFile(bytes.NewReader(code))
	require.NoError(t, err)
	found := map[string]kernel{}
	for _, section := range file.Sections {
		name, ok := strings.CutPrefix(section.Name, ".nv.info.")
		if !ok {
			continue
		}
		info, err := section.Data()
		require.NoError(t, err)
		var k kernel
		for len(info) >= 4 {
			format, attribute, value := info[0], info[1], binary.LittleEndian.Uint16(info[2:])
			info = info[4:]
			switch attribute {
			case sizeOfParameters:
				k.parameters = value
			case mostThreads:
				k.threads = binary.LittleEndian.Uint32(info) // x dimension
			}
			if format == bytesFollow {
				info = info[value:]
			}
		}
		found[name] = k
	}
	return found
}
