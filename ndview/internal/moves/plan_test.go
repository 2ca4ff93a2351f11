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

// Kernels take two addresses and a plan, whose struct they have a copy of, as of the
// threads of a block of tiles.
func TestPlansAreWhatKernelsTake(t *testing.T) {
	for image, plan := range map[string]uintptr{
		"tiles": unsafe.Sizeof(moves.Tiles{}), "slim": unsafe.Sizeof(moves.Tiles{}), "matrices": unsafe.Sizeof(moves.Tiles{}),
		"runs": unsafe.Sizeof(moves.Tiles{}), "odd": unsafe.Sizeof(moves.Tiles{}), "words": unsafe.Sizeof(moves.Tiles{}),
		"bricks": unsafe.Sizeof(moves.Bricks{}), "rows": unsafe.Sizeof(moves.Rows{}), "weave": unsafe.Sizeof(moves.Weave{}),
	} {
		found := compiled(t, image)
		require.NotEmpty(t, found, image)
		for name, k := range found {
			assert.EqualValues(t, 2*8+plan, k.parameters, name)
			if kernel := strings.Split(name, "_")[1]; plan == unsafe.Sizeof(moves.Tiles{}) {
				assert.EqualValues(t, (&moves.Tiles{}).Threads(kernel), k.threads, name)
			}
		}
	}
}

// kernel is what a cubin says of one: the bytes of its parameters, and how many threads a
// block may have.
type kernel struct {
	parameters uint16
	threads    uint32
}

func compiled(t *testing.T, image string) map[string]kernel {
	const mostThreads, sizeOfParameters, bytesFollow = 0x05, 0x19, 0x04 // EIATTR_MAX_THREADS, EIATTR_CBANK_PARAM_SIZE, EIFMT_SVAL
	code, err := kernels.Image(image, 9, 0)
	require.NoError(t, err)
	code = bytes.Clone(code)
	code[elf.EI_NIDENT+4] = byte(elf.EV_CURRENT) // which e_version is not, of a cubin
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
				k.threads = binary.LittleEndian.Uint32(info) // along x
			}
			if format == bytesFollow {
				info = info[value:]
			}
		}
		found[name] = k
	}
	return found
}
