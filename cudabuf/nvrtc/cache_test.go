package nvrtc

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeCompiler is a compiler whose images depend on the source. It counts
// compilations.
type fakeCompiler struct {
	build string
	calls atomic.Int64
	busy  func() // runs while compiling
}

func (c *fakeCompiler) version() (major, minor int)   { return 12, 9 }
func (c *fakeCompiler) architectures() ([]int, error) { return []int{90}, nil }

func (c *fakeCompiler) buildID() (string, error) {
	if c.build == "unknown" {
		return "", errors.New("unknown")
	}
	return c.build, nil
}

func (c *fakeCompiler) compile(s Source) (*Image, error) {
	c.calls.Add(1)
	if c.busy != nil {
		c.busy()
	}
	if s.Text == "wrong" {
		return nil, &Error{Call: "nvrtcCompileProgram", Code: Compilation}
	}
	return fakeImage(s, c.build), nil
}

// fakeImage returns the image of fakeCompiler, which depends on the whole
// source.
func fakeImage(s Source, build string) *Image {
	sum := sha256.Sum256(s.key(build))
	image := &Image{Bytes: []byte(strings.Repeat(string(sum[:]), 100)), Log: "log of " + s.Text}
	for _, name := range s.Names {
		if image.Names == nil {
			image.Names = map[string]string{}
		}
		image.Names[name] = "_Z" + name
	}
	return image
}

// newCache returns a cache in a temporary directory. Errors of the directory
// fail the test.
func newCache(t testing.TB) *Cache {
	return &Cache{Dir: t.TempDir(), OnError: func(err error) { t.Errorf("cache: %v", err) }}
}

// newFailingCache returns a cache that collects errors of its directory.
func newFailingCache(t testing.TB) (*Cache, *[]error) {
	var errs []error
	return &Cache{Dir: t.TempDir(), OnError: func(err error) { errs = append(errs, err) }}, &errs
}

// listEntries returns the files of a cache.
func listEntries(t testing.TB, c *Cache) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(c.Dir, "*"+entrySuffix))
	require.NoError(t, err)
	return list
}

func TestCacheCompilesOnce(t *testing.T) {
	c, nvrtc := newCache(t), &fakeCompiler{}
	s := Source{Text: "text", Names: []string{"a<int>", "b"}}
	first, err := c.compile(nvrtc, s)
	require.NoError(t, err)
	assert.False(t, first.Cached)
	for range 3 {
		again, err := (&Cache{Dir: c.Dir, OnError: c.OnError}).compile(nvrtc, s)
		require.NoError(t, err)
		assert.True(t, again.Cached)
		again.Cached = false
		assert.Equal(t, first, again)
	}
	assert.EqualValues(t, 1, nvrtc.calls.Load())
	info, err := os.Stat(listEntries(t, c)[0])
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
}

func TestKeyDependsOnWholeSource(t *testing.T) {
	seen := map[string]string{}
	for name, s := range map[string]Source{
		"nothing":                {},
		"a name":                 {Name: "a.cu"},
		"a text":                 {Text: "a"},
		"an architecture":        {Arch: "sm_90"},
		"PTX of it":              {Arch: "compute_90"},
		"an option":              {Options: []string{"-Da"}},
		"another":                {Options: []string{"-Db"}},
		"two options":            {Options: []string{"-Da", "-Db"}},
		"in the other order":     {Options: []string{"-Db", "-Da"}},
		"both in one":            {Options: []string{"-Da-Db"}},
		"a name expression":      {Names: []string{"-Da"}},
		"a header":               {Headers: map[string]string{"a": "b"}},
		"an empty header":        {Headers: map[string]string{"a": ""}},
		"another header":         {Headers: map[string]string{"ab": ""}},
		"two headers":            {Headers: map[string]string{"a": "", "b": ""}},
		"an option and a header": {Options: []string{"-Da"}, Headers: map[string]string{"a": "b"}},
	} {
		for _, build := range []string{"12.8", "12.9"} {
			key := string(s.key(build))
			assert.Empty(t, seen[key], "the same key as that of %s", name)
			seen[key] = name
		}
	}
	many := map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
	want := (&Source{Headers: many}).key("")
	for range 10 {
		assert.Equal(t, want, (&Source{Headers: maps.Clone(many)}).key(""), "the key does not depend on map order")
	}
}

func TestOtherNVRTCBuildCompilesAgain(t *testing.T) {
	c := newCache(t)
	for _, build := range []string{"12.9.41", "12.9.86"} {
		nvrtc := &fakeCompiler{build: build}
		image, err := c.compile(nvrtc, Source{Text: "x"})
		require.NoError(t, err)
		assert.Equal(t, fakeImage(Source{Text: "x"}, build), image)
	}
	_, err := c.compile(&fakeCompiler{build: "unknown"}, Source{Text: "x"})
	assert.EqualError(t, err, "unknown")
}

func TestSourcesWithFilesAreNotCached(t *testing.T) {
	c, nvrtc := newCache(t), &fakeCompiler{}
	for range 2 {
		_, err := c.compile(nvrtc, Source{Text: "x", Options: []string{"-I/include"}})
		require.NoError(t, err)
	}
	assert.EqualValues(t, 2, nvrtc.calls.Load())
	assert.Empty(t, listEntries(t, c))
}

func TestCompileErrorsAreNotCached(t *testing.T) {
	c, nvrtc := newCache(t), &fakeCompiler{}
	for range 2 {
		_, err := c.compile(nvrtc, Source{Text: "wrong"})
		var failed *Error
		assert.ErrorAs(t, err, &failed)
	}
	assert.EqualValues(t, 2, nvrtc.calls.Load())
	assert.Empty(t, listEntries(t, c))
}

func TestDamagedFilesAreReplaced(t *testing.T) {
	s := Source{Text: "text", Names: []string{"k"}}
	other := encodeEntry([]byte("another key"), &Image{Bytes: []byte("another image")})
	for name, damage := range map[string]func(good []byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"half":             func(good []byte) []byte { return good[:len(good)/2] },
		"one byte short":   func(good []byte) []byte { return good[:len(good)-1] },
		"one byte long":    func(good []byte) []byte { return append(good, 0) },
		"no header":        func(good []byte) []byte { return good[1:] },
		"only the header":  func(good []byte) []byte { return good[:len(entryMagic)] },
		"a flipped bit":    func(good []byte) []byte { good[len(good)/2] ^= 4; return good },
		"zeros":            func(good []byte) []byte { clear(good); return good },
		"another's":        func([]byte) []byte { return other },
		"a text":           func([]byte) []byte { return []byte("text") },
		"the next version": func(good []byte) []byte { good[len(entryMagic)-2]++; return good },
	} {
		t.Run(name, func(t *testing.T) {
			c, errs := newFailingCache(t)
			nvrtc := &fakeCompiler{}
			_, err := c.compile(nvrtc, s)
			require.NoError(t, err)
			path := listEntries(t, c)[0]
			good, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, damage(good), 0o600))

			image, err := c.compile(nvrtc, s)
			require.NoError(t, err)
			assert.Equal(t, fakeImage(s, ""), image)
			require.Len(t, *errs, 1)
			assert.ErrorIs(t, (*errs)[0], errDamaged)
			assert.ErrorContains(t, (*errs)[0], path)
			image, err = c.compile(nvrtc, s)
			require.NoError(t, err)
			assert.True(t, image.Cached)
			assert.EqualValues(t, 2, nvrtc.calls.Load())
		})
	}
}

func TestDirectoryErrorsDoNotFailCompilation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, prepare := range map[string]func(t *testing.T, c *Cache){
		"a file instead of a directory": func(_ *testing.T, c *Cache) { c.Dir = file },
		"no home directory": func(t *testing.T, c *Cache) {
			c.Dir = ""
			t.Setenv("HOME", "")
			t.Setenv("XDG_CACHE_HOME", "")
		},
		"an entry that is a directory": func(t *testing.T, c *Cache) {
			_, err := c.compile(&fakeCompiler{}, Source{Text: "x"})
			require.NoError(t, err)
			path := listEntries(t, c)[0]
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.MkdirAll(filepath.Join(path, "within"), 0o700))
		},
		"image above MaxBytes": func(_ *testing.T, c *Cache) { c.MaxBytes = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			c, errs := newFailingCache(t)
			prepare(t, c)
			image, err := c.compile(&fakeCompiler{}, Source{Text: "x"})
			require.NoError(t, err)
			assert.Equal(t, fakeImage(Source{Text: "x"}, ""), image)
			assert.NotEmpty(t, *errs)
			c.OnError = nil
			_, err = c.compile(&fakeCompiler{}, Source{Text: "x"})
			assert.NoError(t, err)
			temporary, err := filepath.Glob(filepath.Join(c.Dir, temporaryPrefix+"*"))
			require.NoError(t, err)
			assert.Empty(t, temporary)
		})
	}
}

func TestDefaultDirectoryIsUserCacheDir(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := new(Cache).compile(&fakeCompiler{}, Source{Text: "x"})
	require.NoError(t, err)
	assert.Len(t, listEntries(t, &Cache{Dir: filepath.Join(os.Getenv("XDG_CACHE_HOME"), "quiver", "kernels")}), 1)
}

func TestLeastRecentlyUsedAreRemovedFirst(t *testing.T) {
	c, nvrtc := newCache(t), &fakeCompiler{}
	compile := func(i int) bool {
		image, err := c.compile(nvrtc, Source{Text: fmt.Sprintf("text %d", i)})
		require.NoError(t, err)
		return image.Cached
	}
	stranger := filepath.Join(c.Dir, "README")
	stale := filepath.Join(c.Dir, temporaryPrefix+"stale")
	fresh := filepath.Join(c.Dir, temporaryPrefix+"fresh")
	for _, path := range []string{stranger, stale, fresh} {
		require.NoError(t, os.WriteFile(path, make([]byte, 10000), 0o600))
	}
	long := time.Unix(1e9, 0)
	require.NoError(t, os.Chtimes(stale, long, long))
	require.NoError(t, os.Chtimes(stranger, long, long))

	// Entry i was last used i seconds after entry 0. Then entry 0 is used again.
	known := map[string]bool{}
	var size int64
	for i := range 5 {
		require.False(t, compile(i))
		for _, path := range listEntries(t, c) {
			if !known[path] {
				known[path] = true
				when := long.Add(time.Duration(i) * time.Second)
				require.NoError(t, os.Chtimes(path, when, when))
				info, err := os.Stat(path)
				require.NoError(t, err)
				size = info.Size()
			}
		}
	}
	require.True(t, compile(0))

	c.MaxBytes = 4*size + 100
	require.False(t, compile(5))
	assert.Len(t, listEntries(t, c), 4)
	assert.FileExists(t, stranger)
	assert.FileExists(t, fresh)
	assert.NoFileExists(t, stale)
	c.MaxBytes = -1
	for i, want := range []bool{true, false, false, true, true, true} {
		assert.Equal(t, want, compile(i), "entry %d", i)
	}
	assert.Len(t, listEntries(t, c), 6, "a negative MaxBytes sets no bound")
}

func TestConcurrentCompilationsRunOnce(t *testing.T) {
	c := newCache(t)
	var wg sync.WaitGroup
	const goroutines = 16
	var started sync.WaitGroup
	started.Add(goroutines)
	nvrtc := &fakeCompiler{busy: started.Wait} // waits until all goroutines have started
	for range goroutines {
		wg.Go(func() {
			started.Done()
			image, err := c.compile(nvrtc, Source{Text: "x"})
			if assert.NoError(t, err) {
				assert.Equal(t, fakeImage(Source{Text: "x"}, "").Bytes, image.Bytes)
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, nvrtc.calls.Load())
}

func TestCacheReturnsCompilerImages(t *testing.T) {
	forEachLibrary(t, func(t *testing.T) {
		s := Source{Text: scale, Arch: "sm_90", Options: []string{"-DFACTOR=2"}, Names: []string{"scale<float>"}}
		want, err := Compile(s)
		require.NoError(t, err)
		c := newCache(t)
		for _, cached := range []bool{false, true} {
			got, err := c.Compile(s)
			require.NoError(t, err)
			assert.Equal(t, cached, got.Cached)
			assert.Equal(t, want.Names, got.Names)
			assert.Equal(t, want.Bytes, got.Bytes)
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	key := []byte("key")
	good := encodeEntry(key, &Image{Bytes: []byte("image"), Names: map[string]string{"a": "b"}})
	f.Add(good[len(entryMagic)+sha256.Size:])
	f.Add([]byte{3, 'k', 'e', 'y', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		image, err := decodeBody(body, key)
		if err != nil {
			assert.ErrorIs(t, err, errDamaged)
			return
		}
		again, err := decodeEntry(encodeEntry(key, image), key)
		require.NoError(t, err)
		assert.Equal(t, image, again)
	})
}

// hammerDir is the variable with the directory for a process of the tests below.
// hammerRounds is the number of compilations; 0 means forever, without damage.
const (
	hammerDir    = "QUIVER_TEST_HAMMER_DIR"
	hammerRounds = "QUIVER_TEST_HAMMER_ROUNDS"
	hammerBytes  = 30000 // about half of the size of all images
)

func hammerSource(i int) Source { return Source{Text: fmt.Sprintf("text %d", i%16)} }

// TestHammer is the body of each process of the tests below. It compiles,
// prunes and sometimes damages a file.
func TestHammer(t *testing.T) {
	dir := os.Getenv(hammerDir)
	if dir == "" {
		t.Skip("other tests run this in a process of their own")
	}
	rounds, err := strconv.Atoi(os.Getenv(hammerRounds))
	require.NoError(t, err)
	c := &Cache{Dir: dir, MaxBytes: hammerBytes}
	for i := 0; rounds == 0 || i < rounds; i++ {
		s := hammerSource(i*7 + os.Getpid())
		image, err := c.compile(&fakeCompiler{}, s)
		require.NoError(t, err)
		require.Equal(t, fakeImage(s, "").Bytes, image.Bytes)
		if list := listEntries(t, c); rounds > 0 && i%10 == 9 && len(list) > 0 {
			// Another process may have removed the file or may read it.
			_ = os.Truncate(list[i%len(list)], int64(i))
		}
		if i == 20 {
			fmt.Println("busy")
		}
	}
}

func hammerCommand(dir string, rounds int) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHammer$", "-test.v")
	cmd.Env = append(os.Environ(), hammerDir+"="+dir, hammerRounds+"="+strconv.Itoa(rounds))
	return cmd
}

func TestProcessesShareDirectory(t *testing.T) {
	c := newCache(t)
	const processes = 4
	outputs := make([]bytes.Buffer, processes)
	cmds := make([]*exec.Cmd, processes)
	for i := range cmds {
		cmds[i] = hammerCommand(c.Dir, 100)
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
	for _, path := range listEntries(t, c) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		total += info.Size()
	}
	assert.LessOrEqual(t, total, int64(hammerBytes))
	assert.NotZero(t, total)
}

func TestKilledProcessLeavesNoPartialFiles(t *testing.T) {
	c := newCache(t)
	for range 4 {
		cmd := hammerCommand(c.Dir, 0)
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
		image, err := c.compile(&fakeCompiler{}, hammerSource(i))
		require.NoError(t, err)
		assert.Equal(t, fakeImage(hammerSource(i), "").Bytes, image.Bytes)
	}
}
