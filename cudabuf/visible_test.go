package cudabuf_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// tellDevices makes a run of the test binary print what the driver shows it.
const tellDevices = "QUIVER_TEST_TELL_DEVICES"

func TestVisibleDevicesAreRespected(t *testing.T) {
	if os.Getenv(tellDevices) != "" {
		d, err := cudabuf.Open()
		switch {
		case errors.Is(err, cudabuf.ErrNoDevice):
			fmt.Println("sees none")
		case err != nil:
			t.Fatal(err)
		default:
			fmt.Printf("sees %d\n", d.Count())
			require.NoError(t, d.Close())
		}
		return
	}
	if !cudatest.OnGPU() {
		t.Skip("the variable is the driver's to read; this needs a GPU")
	}
	for visible, want := range map[string]string{"0": "sees 1", "": "sees none", "-1": "sees none"} {
		if cudabuf.Gorgonia && want == "sees none" {
			continue // gorgonia.org/cu ends a program that sees no GPU
		}
		run := exec.Command(os.Args[0], "-test.run=^TestVisibleDevicesAreRespected$")
		run.Env = append(os.Environ(), tellDevices+"=1", "CUDA_VISIBLE_DEVICES="+visible)
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, strings.Split(string(out), "\n"), want, "CUDA_VISIBLE_DEVICES=%q", visible)
	}
}
