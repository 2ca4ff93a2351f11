package moves_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/moves"
	"github.com/quiver-gpu/quiver/ndview/kernels"
)

// Kernels take two addresses and a plan, whose struct they have a copy of.
func TestPlansAreAsLongAsKernelsTakeThem(t *testing.T) {
	for image, plan := range map[string]uintptr{
		"tiles": unsafe.Sizeof(moves.Tiles{}), "slim": unsafe.Sizeof(moves.Tiles{}), "matrices": unsafe.Sizeof(moves.Tiles{}),
		"runs": unsafe.Sizeof(moves.Tiles{}), "odd": unsafe.Sizeof(moves.Tiles{}), "words": unsafe.Sizeof(moves.Tiles{}),
		"bricks": unsafe.Sizeof(moves.Bricks{}), "rows": unsafe.Sizeof(moves.Rows{}), "weave": unsafe.Sizeof(moves.Weave{}),
	} {
		code, err := kernels.Image(image, 9, 0)
		require.NoError(t, err)
		sizes := parameters(t, code)
		require.NotEmpty(t, sizes, image)
		for kernel, size := range sizes {
			assert.EqualValues(t, 2*8+plan, size, kernel)
		}
	}
}

// parameters are the bytes of the parameters of each kernel of a cubin.
func parameters(t *testing.T, code []byte) map[string]uint16 {
	const sizeOfParameters, value16 = 0x19, 0x03 // EIATTR_CBANK_PARAM_SIZE, EIFMT_HVAL
	code = bytes.Clone(code)
	code[elf.EI_NIDENT+4] = byte(elf.EV_CURRENT) // which e_version is not, of a cubin
	file, err := elf.NewFile(bytes.NewReader(code))
	require.NoError(t, err)
	sizes := map[string]uint16{}
	for _, section := range file.Sections {
		kernel, ok := strings.CutPrefix(section.Name, ".nv.info.")
		if !ok {
			continue
		}
		info, err := section.Data()
		require.NoError(t, err)
		for len(info) >= 4 {
			format, attribute, value := info[0], info[1], binary.LittleEndian.Uint16(info[2:])
			info = info[4:]
			switch {
			case attribute == sizeOfParameters:
				require.EqualValues(t, value16, format)
				sizes[kernel] = value
			case format == 0x04: // so many bytes follow
				info = info[value:]
			}
		}
	}
	return sizes
}
