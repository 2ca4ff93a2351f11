// Package kernels has the machine code of ndview's kernels, compiled ahead by
// `make kernels` from the .cu files beside it. CONTRIBUTING.md says how to add
// one.
package kernels

import (
	"archive/zip"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"sync"

	"github.com/klauspost/compress/zstd"
)

//go:embed images/*.zip
var images embed.FS

// Image returns the code of NAME.cu for a GPU of a compute capability: that of
// the newest architecture with the same major version that is not newer than
// the GPU, or else PTX, which the driver compiles. A GPU older than 7.0 has
// neither.
func Image(name string, major, minor int) ([]byte, error) {
	data, err := images.ReadFile("images/" + name + ".zip")
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("kernels of %s: %w", name, err)
	}
	best, newest := "", -1
	for _, f := range archive.File {
		var arch int
		if n, _ := fmt.Sscanf(f.Name, "compute_%d.zst", &arch); n == 1 && newest < 0 && arch <= 10*major+minor {
			best = f.Name
		}
		if n, _ := fmt.Sscanf(f.Name, "sm_%d.zst", &arch); n == 1 && arch/10 == major && arch%10 <= minor && arch > newest {
			best, newest = f.Name, arch
		}
	}
	if best == "" {
		return nil, fmt.Errorf("kernels of %s: there are none for compute capability %d.%d; 7.0 is the oldest", name, major, minor)
	}
	image, err := inflate(archive, best)
	if err != nil {
		return nil, fmt.Errorf("kernels of %s: %s: %w", name, best, err)
	}
	return image, nil
}

// decoder is made when it is first needed, on one core: a device asks for one
// image at a time.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
})

func inflate(archive *zip.Reader, name string) ([]byte, error) {
	frame, err := fs.ReadFile(archive, name)
	if err != nil {
		return nil, err
	}
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(frame, nil)
}
