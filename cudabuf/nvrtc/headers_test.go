package nvrtc

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func files(texts map[string]string) fs.FS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestCollectHeadersFollowsIncludes(t *testing.T) {
	mine := files(map[string]string{
		"mine.h":       "#include \"sub/a.h\"\n#include <shared.h>\n#include \"mine.h\"",
		"sub/a.h":      "#include \"b.h\"\n#include \"../up.h\"\r\n",
		"sub/b.h":      "beside",
		"up.h":         "",
		"b.h":          "elsewhere",
		"not/included": "",
	})
	toolkit := files(map[string]string{
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

func TestCollectHeadersRefusesTwoFilesOfOneName(t *testing.T) {
	_, err := CollectHeaders("#include <a/x.h>\n#include <b/x.h>", files(map[string]string{
		"a/x.h": `#include "y.h"`, "a/y.h": "1",
		"b/x.h": `#include "y.h"`, "b/y.h": "2",
	}))
	assert.ErrorContains(t, err, `#include "y.h" means a/y.h here and b/y.h there`)
}

func TestCollectHeadersPassesOnWhatKeepsAFileFromBeingRead(t *testing.T) {
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
	headers, err := CollectHeaders(text, files(map[string]string{
		"sub/a.h": "#include \"../up.h\"\n#include \"b.h\"", "up.h": "#define UP 1000000", "sub/b.h": "#define VALUE UP + 1",
	}))
	require.NoError(t, err)
	image, err := Compile(Source{Text: text, Headers: headers, Arch: "compute_90"})
	require.NoError(t, err)
	assert.Contains(t, string(image.Bytes), "1000001")
}

func FuzzInclusions(f *testing.F) {
	f.Add("#include <a>\n # include \"b\"")
	f.Fuzz(func(t *testing.T, text string) {
		for _, i := range inclusions(text) {
			assert.Contains(t, text, i.name)
			assert.NotContains(t, i.name, "\n")
		}
	})
}
