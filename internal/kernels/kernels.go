// Package kernels embeds the machine code of Quiver's CUDA kernels.
//
// `make kernels` compiles FOLDER/NAME.cu to images/FOLDER/NAME.zip; CONTRIBUTING.md
// says how to add a kernel. The folders are copy, elementwise, index, reduce, blas and
// columns, by what the kernels do, and common, which has headers only. An entry
// point is named quiver_..., and its host implementation is registered under the
// same name where the package that launches it calls launch.Program.
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

//go:embed images/*/*.zip
var images embed.FS

// Image returns the code compiled from name.cu, "copy/tiles" for instance, for a GPU
// of compute capability major.minor. That is machine code of the newest architecture
// that has the same major version and is not newer than the GPU, or otherwise PTX, which
// the driver compiles. It returns an error for a GPU older than 7.0.
func Image(name string, major, minor int) ([]byte, error) {
	data, err := images.ReadFile("images/" + name + ".zip")
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("kernels.Image: %s: %w", name, err)
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
		return nil, fmt.Errorf("kernels.Image: %s: no code for compute capability %d.%d: want 7.0 or newer", name, major, minor)
	}
	image, err := inflate(archive, best)
	if err != nil {
		return nil, fmt.Errorf("kernels.Image: %s: %s: %w", name, best, err)
	}
	return image, nil
}

// decoder is created on first use. It uses one core, as a device loads one image at a time.
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
