package nvrtc

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInvalidSourcesAreRejected(t *testing.T) {
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
	useLibrary(t, "/nowhere/libnvrtc.so")
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

func TestArch(t *testing.T) {
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
	assert.ErrorContains(t, err, "the GPU is too old for this NVRTC: got compute capability 7.0, want at least 75")
	_, err = Arch(7, 0, nil)
	assert.Error(t, err)
}

func TestUsesFiles(t *testing.T) {
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
		assert.Equal(t, tt.want, tt.source.usesFiles(), "%+v", tt.source)
	}
}

func TestResultNames(t *testing.T) {
	assert.Equal(t, "NVRTC_SUCCESS", Success.Name())
	assert.Equal(t, "NVRTC_ERROR_COMPILATION (6)", Compilation.String())
	assert.Equal(t, "NVRTC_ERROR_CANCELLED", Cancelled.Name())
	assert.Equal(t, "NVRTC_ERROR_17", Result(17).Name())
	assert.Equal(t, "NVRTC_ERROR_-1", Result(-1).Name())
	for r := range Result(len(resultNames)) {
		assert.NotEmpty(t, r.Name())
	}
}

func mapFS(texts map[string]string) fs.FS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestCollectHeadersFollowsIncludes(t *testing.T) {
	mine := mapFS(map[string]string{
		"mine.h":       "#include \"sub/a.h\"\n#include <shared.h>\n#include \"mine.h\"",
		"sub/a.h":      "#include \"b.h\"\n#include \"../up.h\"\r\n",
		"sub/b.h":      "beside",
		"up.h":         "",
		"b.h":          "elsewhere",
		"not/included": "",
	})
	toolkit := mapFS(map[string]string{
		"shared.h": "#include <not/there.h>\n#  include /* no */ \"x\"\n// #include <c.h>\n#include \"unclosed",
		"mine.h":   "hidden by the first",
		"sub":      "a file that the other has as a directory",
	})
	got, err := CollectHeaders("\t# include<mine.h>\n#include\"sub/a.h\"\n#include </absolute.h>\n#include <sub>\n", mine, toolkit)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"mine.h":   "#include \"sub/a.h\"\n#include <shared.h>\n#include \"mine.h\"",
		"sub/a.h":  "#include \"b.h\"\n#include \"../up.h\"\r\n",
		"b.h":      "beside",
		"../up.h":  "",
		"shared.h": "#include <not/there.h>\n#  include /* no */ \"x\"\n// #include <c.h>\n#include \"unclosed",
		"sub":      "a file that the other has as a directory",
	}, got)
}

func TestCollectHeadersRejectsTwoFilesOfOneName(t *testing.T) {
	_, err := CollectHeaders("#include <a/x.h>\n#include <b/x.h>", mapFS(map[string]string{
		"a/x.h": `#include "y.h"`, "a/y.h": "1",
		"b/x.h": `#include "y.h"`, "b/y.h": "2",
	}))
	assert.ErrorContains(t, err, `#include "y.h" refers to both a/y.h and b/y.h`)
}

func TestCollectHeadersReturnsReadErrors(t *testing.T) {
	_, err := CollectHeaders("#include <a.h>", unreadable{})
	assert.ErrorIs(t, err, fs.ErrPermission)
}

type unreadable struct{}

func (unreadable) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestCollectedHeadersCompile(t *testing.T) {
	useReal(t)
	text := "#include <sub/a.h>\n" + `extern "C" __global__ void k(int *p) { *p = VALUE; }`
	headers, err := CollectHeaders(text, mapFS(map[string]string{
		"sub/a.h": "#include \"../up.h\"\n#include \"b.h\"", "up.h": "#define UP 1000000", "sub/b.h": "#define VALUE UP + 1",
	}))
	require.NoError(t, err)
	image, err := Compile(Source{Text: text, Headers: headers, Arch: "compute_90"})
	require.NoError(t, err)
	assert.Contains(t, string(image.Bytes), "1000001")
}

func FuzzParseIncludes(f *testing.F) {
	f.Add("#include <a>\n # include \"b\"")
	f.Fuzz(func(t *testing.T, text string) {
		for _, i := range parseIncludes(text) {
			assert.Contains(t, text, i.name)
			assert.NotContains(t, i.name, "\n")
		}
	})
}
