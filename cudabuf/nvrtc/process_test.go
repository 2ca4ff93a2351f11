package nvrtc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hammerDir names the directory that a process of the tests below works on;
// hammerRounds tells how long, 0 for ever and without damage.
const (
	hammerDir    = "QUIVER_TEST_HAMMER_DIR"
	hammerRounds = "QUIVER_TEST_HAMMER_ROUNDS"
	hammerBytes  = 30000 // about half of what the sources make
)

func hammerSource(i int) Source { return Source{Text: fmt.Sprintf("text %d", i%16)} }

// TestHammer is what each process of the tests below does: compile, prune and
// now and then damage a file.
func TestHammer(t *testing.T) {
	dir := os.Getenv(hammerDir)
	if dir == "" {
		t.Skip("runs within other tests")
	}
	rounds, err := strconv.Atoi(os.Getenv(hammerRounds))
	require.NoError(t, err)
	c := &Cache{Dir: dir, MaxBytes: hammerBytes}
	for i := 0; rounds == 0 || i < rounds; i++ {
		s := hammerSource(i*7 + os.Getpid())
		image, err := c.compile(&counting{}, s)
		require.NoError(t, err)
		require.Equal(t, imageOf(s, "").Bytes, image.Bytes)
		if list := entries(t, c); rounds > 0 && i%10 == 9 && len(list) > 0 {
			// Another process may have removed it, or read it meanwhile.
			_ = os.Truncate(list[i%len(list)], int64(i))
		}
		if i == 20 {
			fmt.Println("busy")
		}
	}
}

func hammer(dir string, rounds int) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHammer$", "-test.v")
	cmd.Env = append(os.Environ(), hammerDir+"="+dir, hammerRounds+"="+strconv.Itoa(rounds))
	return cmd
}

func TestProcessesShareADirectory(t *testing.T) {
	c := quiet(t)
	const processes = 4
	outputs := make([]bytes.Buffer, processes)
	cmds := make([]*exec.Cmd, processes)
	for i := range cmds {
		cmds[i] = hammer(c.Dir, 100)
		cmds[i].Stdout, cmds[i].Stderr = &outputs[i], &outputs[i]
		require.NoError(t, cmds[i].Start())
	}
	for i, cmd := range cmds {
		assert.NoError(t, cmd.Wait(), "%s", &outputs[i])
	}
	temporary, err := filepath.Glob(filepath.Join(c.Dir, temporaryPrefix+"*"))
	require.NoError(t, err)
	assert.Empty(t, temporary)

	require.NoError(t, prune(c.Dir, hammerBytes))
	var total int64
	for _, path := range entries(t, c) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		total += info.Size()
	}
	assert.LessOrEqual(t, total, int64(hammerBytes))
	assert.NotZero(t, total)
}

func TestAProcessThatIsKilledLeavesNothingHalfDone(t *testing.T) {
	c := quiet(t)
	for range 4 {
		cmd := hammer(c.Dir, 0)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "busy" {
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	for i := range 16 {
		image, err := c.compile(&counting{}, hammerSource(i))
		require.NoError(t, err)
		assert.Equal(t, imageOf(hammerSource(i), "").Bytes, image.Bytes)
	}
}
