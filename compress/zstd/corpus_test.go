package zstd_test

import (
	"archive/zip"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
)

// corpora are archives of github.com/klauspost/compress, and the number of frames in each
// that it decodes. Those of decoder were made by decodecorpus, a program of the reference
// implementation that uses all of the format. The others are frames at limits of the format,
// corrupt ones, and ones in which decoders had errors.
var corpora = map[string]int{"decoder": 94, "good": 12, "bad": 0, "large": 1, "benchdecoder": 12, "decode-regression": 0, "regression": 1}

// largestOutput is the size in bytes up to which frames of corpora are decoded.
const largestOutput = 8 << 20

// blockBeyondWindow is a frame of no bytes, with a compressed block of 2 bytes. RFC 8878,
// section 3.1.1.2.3, limits a block to the window, which has no bytes: kernels refuse it, but
// libzstd does not.
const blockBeyondWindow = "\x28\xb5\x2f\xfd\x30\x00\x15\x00\x00\x00\x00"

// corpusFrame is a frame, and what klauspost/compress makes of it.
type corpusFrame struct {
	name     string
	in, want []byte
	err      error
}

// readCorpus returns the frames of an archive of corpora. It skips the test on a machine
// without Go, which knows where the files of the module are.
func readCorpus(t *testing.T, name string) []corpusFrame {
	t.Helper()
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("this machine has no Go, which finds the files of github.com/klauspost/compress")
	}
	folder, err := exec.Command(program, "list", "-m", "-f", "{{.Dir}}", "github.com/klauspost/compress").Output()
	require.NoError(t, err)
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(folder)), "zstd/testdata", name+".zip"))
	require.NoError(t, err)
	defer func() { require.NoError(t, archive.Close()) }()
	reference, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largestOutput))
	require.NoError(t, err)
	defer reference.Close()
	contents := map[string][]byte{}
	for _, f := range archive.File {
		r, err := f.Open()
		require.NoError(t, err)
		contents[f.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	var frames []corpusFrame
	for name, in := range contents {
		if _, encoded := contents[name+".zst"]; encoded {
			continue // what a frame decodes to, or why it does not
		}
		f := corpusFrame{name: name, in: in}
		f.want, f.err = reference.DecodeAll(in, nil)
		frames = append(frames, f)
	}
	return frames
}

// Frames of corpora decode as klauspost/compress decodes them, or are errors of themselves.
func TestFramesOfCorporaDecode(t *testing.T) {
	for name, number := range corpora {
		t.Run(name, func(t *testing.T) {
			frames := readCorpus(t, name)
			inputs, sizes := make([][]byte, len(frames)), make([]int, len(frames))
			for i, f := range frames {
				inputs[i], sizes[i] = f.in, max(len(f.want), 1<<16)
			}
			forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
				got, results := decode(t, dev, inputs, sizes, compress.DecodeOptions{})
				decoded := 0
				for i, f := range frames {
					switch {
					case string(f.in) == blockBeyondWindow && results[i].Err != nil:
						assert.ErrorIs(t, results[i].Err, compress.ErrCorrupt)
						decoded++
					case f.err != nil:
						assert.Error(t, results[i].Err, "%s: klauspost/compress: %v", f.name, f.err)
					default:
						require.NoError(t, results[i].Err, f.name)
						require.True(t, string(f.want) == string(got[i]), "%s: other bytes", f.name)
						decoded++
					}
				}
				assert.Equal(t, number, decoded, "frames")
			})
		})
	}
}
