package nvrtc

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSourcesThatNVRTCWouldMisunderstandAreRefused(t *testing.T) {
	for name, s := range map[string]Source{
		"no architecture":          {Text: "x"},
		"another word":             {Arch: "90"},
		"an architecture too long": {Arch: "sm_9000"},
		"a letter in it":           {Arch: "sm_9x0"},
		"an option that sets it":   {Arch: "sm_90", Options: []string{"-arch=sm_80"}},
		"an option and a word":     {Arch: "sm_90", Options: []string{"--gpu-architecture", "sm_80"}},
		"zero in the text":         {Arch: "sm_90", Text: "a\x00b"},
		"zero in the name":         {Arch: "sm_90", Name: "a\x00b"},
		"zero in an option":        {Arch: "sm_90", Options: []string{"a\x00b"}},
		"zero in a header":         {Arch: "sm_90", Headers: map[string]string{"a": "a\x00b"}},
		"zero in a header's name":  {Arch: "sm_90", Headers: map[string]string{"a\x00b": ""}},
		"zero in an expression":    {Arch: "sm_90", Names: []string{"a\x00b"}},
		"options for PTX":          {Text: ".version 8.0", Options: []string{"-DN"}},
		"headers for PTX":          {Text: ".version 8.0", Headers: map[string]string{"a": ""}},
		"expressions for PTX":      {Text: ".version 8.0", Names: []string{"k"}},
	} {
		_, err := Compile(s)
		assert.ErrorIs(t, err, errSource, name)
		_, err = new(Cache).Compile(s)
		assert.ErrorIs(t, err, errSource, name)
	}
}

func TestPTXNeedsNoCompiler(t *testing.T) {
	use(t, "/nowhere/libnvrtc.so")
	cache := &Cache{Dir: t.TempDir()}
	for _, text := range []string{
		".version 8.0\n.target sm_90",
		" \n// a comment\n/* another\n*/\t.version 8.0",
	} {
		for _, compile := range []func(Source) (*Image, error){Compile, cache.Compile} {
			image, err := compile(Source{Text: text})
			require.NoError(t, err)
			assert.Equal(t, text, string(image.Bytes))
		}
	}
	for _, text := range []string{"", "//", "// .version", "/* .version", "/", "x .version", "/* */ // .version"} {
		assert.False(t, isPTX(text), text)
		_, err := Compile(Source{Text: text, Arch: "sm_90"})
		assert.ErrorIs(t, err, ErrNotFound)
	}
}

func TestArchChoosesWhatTheGPURuns(t *testing.T) {
	supported := []int{75, 80, 90, 100, 120}
	for _, tt := range []struct {
		major, minor int
		want         string
	}{
		{7, 5, "sm_75"}, {9, 0, "sm_90"}, {12, 0, "sm_120"},
		{8, 9, "compute_80"}, {12, 1, "compute_120"}, {20, 0, "compute_120"}, {9, 9, "compute_90"},
	} {
		got, err := Arch(tt.major, tt.minor, supported)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
	}
	_, err := Arch(7, 0, supported)
	assert.ErrorContains(t, err, "compute capability 7.0 is too old for this NVRTC, whose oldest is 75")
	_, err = Arch(7, 0, nil)
	assert.Error(t, err)
}

func TestWhatTouchesFilesIsKnown(t *testing.T) {
	for _, tt := range []struct {
		source Source
		want   bool
	}{
		{Source{Text: "#include <a.h>\n#include \"b.h\""}, false},
		{Source{Options: []string{"-DI=/x", "--use_fast_math", "-std=c++20", "-lineinfo", "--maxrregcount=32"}}, false},
		{Source{Options: []string{"-I/usr/include"}}, true},
		{Source{Options: []string{"-I", "/usr/include"}}, true},
		{Source{Options: []string{"--include-path=/usr/include"}}, true},
		{Source{Options: []string{"-include=a.h"}}, true},
		{Source{Options: []string{"--pre-include=a.h"}}, true},
		{Source{Options: []string{"-pch"}}, true},
		{Source{Options: []string{"--create-pch=a"}}, true},
		{Source{Options: []string{"-time=a.csv"}}, true},
		{Source{Options: []string{"-fdevice-time-trace=a"}}, true},
		{Source{Text: " # include \"/usr/include/a.h\""}, true},
		{Source{Headers: map[string]string{"a.h": "int a;\n#include </usr/include/a.h>"}}, true},
	} {
		assert.Equal(t, tt.want, tt.source.touchesFiles(), "%+v", tt.source)
	}
}

func TestResultsHaveTheirNamesWithoutTheLibrary(t *testing.T) {
	assert.Equal(t, "NVRTC_SUCCESS", Success.Name())
	assert.Equal(t, "NVRTC_ERROR_COMPILATION (6)", Compilation.String())
	assert.Equal(t, "NVRTC_ERROR_CANCELLED", Cancelled.Name())
	assert.Equal(t, "NVRTC_ERROR_17", Result(17).Name())
	assert.Equal(t, "NVRTC_ERROR_-1", Result(-1).Name())
	for r := range Result(len(names)) {
		assert.NotEmpty(t, r.Name())
	}
}
