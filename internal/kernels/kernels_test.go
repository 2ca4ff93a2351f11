package kernels_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/internal/kernels"
)

func TestImageSelectsByComputeCapability(t *testing.T) {
	image := func(major, minor int) []byte {
		t.Helper()
		b, err := kernels.Image("copy/bits", major, minor)
		require.NoError(t, err)
		require.NotEmpty(t, b)
		return b
	}
	assert.Equal(t, image(7, 0), image(7, 5), "machine code runs on later GPUs of the same major version")
	assert.Equal(t, image(8, 0), image(8, 9))
	assert.NotEqual(t, image(8, 0), image(9, 0))
	assert.NotEqual(t, image(10, 0), image(12, 0))
	assert.Equal(t, "\x7fELF", string(image(9, 0)[:4]))
	assert.Contains(t, string(image(13, 0)), ".version", "PTX for newer GPUs")
	_, err := kernels.Image("copy/bits", 6, 1)
	assert.ErrorContains(t, err, "6.1")
	_, err = kernels.Image("copy/absent", 9, 0)
	assert.Error(t, err)
}

// Every program that imports ndview contains the images, and the repository keeps
// every version of them.
func TestImagesStayUnder10MB(t *testing.T) {
	const limit = 10_000_000
	images, err := filepath.Glob("images/*/*.zip")
	require.NoError(t, err)
	require.NotEmpty(t, images)
	var total int64
	for _, image := range images {
		info, err := os.Stat(image)
		require.NoError(t, err)
		total += info.Size()
	}
	assert.Less(t, total, int64(limit), "bytes of %d files in internal/kernels/images: to make them smaller, compile fewer kernels or, in make.py, fewer architectures", len(images))
}
