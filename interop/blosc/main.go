// Command blosc encodes a file into Blosc chunks, as a batch on the CPU and on the
// simulated device: blosc INPUT FOLDER. The chunk of options O and device D is the file
// FOLDER/COMPRESSOR-LEVEL-SHUFFLE-TYPESIZE-BLOCKSIZE-D.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input, folder string) error {
	data, err := os.ReadFile(input)
	if err != nil {
		return err
	}
	driver, err := cudatest.Open(cudatest.Config{})
	if err != nil {
		return err
	}
	simulated, err := driver.Device(0)
	if err != nil {
		return err
	}
	for name, dev := range map[string]arrowbuf.Device{"cpu": arrowbuf.CPU(), "simulated": simulated} {
		for c := blosc.BloscLZ; c <= blosc.Zstd; c++ {
			for shuffle := blosc.NoShuffle; shuffle <= blosc.BitShuffle; shuffle++ {
				for _, o := range []blosc.Options{{Level: 1, TypeSize: 1}, {Level: 5, TypeSize: 4}, {Level: 9, TypeSize: 8}, {Level: 0, TypeSize: 2}, {Level: 3, TypeSize: 17}, {Level: 5, TypeSize: 2, BlockSize: 1000}} {
					o.Compressor, o.Shuffle = c, shuffle
					chunk, err := encode(dev, data, o)
					if err != nil {
						return err
					}
					file := fmt.Sprintf("%s-%d-%d-%d-%d-%s", c, o.Level, shuffle, o.TypeSize, o.BlockSize, name)
					if err := os.WriteFile(filepath.Join(folder, file), chunk, 0o644); err != nil {
						return err
					}
				}
			}
		}
	}
	return driver.Close()
}

// encode encodes data as a batch of one input.
func encode(dev arrowbuf.Device, data []byte, o blosc.Options) ([]byte, error) {
	n := int64(len(data))
	src, err := dev.Alloc(n)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	if _, err := src.CopyFromHost(data, 0); err != nil {
		return nil, err
	}
	dst, err := dev.Alloc(blosc.Bound(n))
	if err != nil {
		return nil, err
	}
	defer dst.Release()
	results, err := blosc.Encode(compress.Batch{
		Src: src, In: []compress.Range{{Offset: 0, Length: n}},
		Dst: dst, Out: []compress.Range{{Offset: 0, Length: blosc.Bound(n)}},
	}, blosc.EncodeOptions{Options: o})
	if err != nil {
		return nil, err
	}
	if results[0].Err != nil {
		return nil, results[0].Err
	}
	chunk := make([]byte, results[0].Length)
	_, err = dst.CopyToHost(chunk, 0)
	return chunk, err
}
