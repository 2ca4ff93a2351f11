package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each `arrow2zarr COMMAND --flag` of the documents is a command that has the flag, and
// each `--flag` alone is one of some command.
func TestCommandsAndFlagsOfDocumentsExist(t *testing.T) {
	root := newRoot(io.Discard, io.Discard)
	root.InitDefaultCompletionCmd()
	flags := map[string]map[string]bool{} // by command
	all := map[string]bool{}
	flag := regexp.MustCompile(`(?:^|[\s,])--([a-z][\w-]*)`)
	for _, command := range root.Commands() {
		flags[command.Name()] = map[string]bool{}
		for _, m := range flag.FindAllStringSubmatch(command.UsageString(), -1) {
			flags[command.Name()][m[1]], all[m[1]] = true, true
		}
	}
	use := regexp.MustCompile("\\barrow2zarr ([a-z]+)\\b([^\\n`'\"|]*)")
	alone := regexp.MustCompile("`--([a-z][\\w-]*)[^`]*`")
	documents, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	commands, alones := 0, 0
	for _, path := range append(documents, "../../README.md") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		code := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, m := range use.FindAllStringSubmatch(code, -1) {
			commands++
			known, ok := flags[m[1]]
			if !assert.True(t, ok, "%s: %s: no such command", path, m[0]) {
				continue
			}
			for _, f := range flag.FindAllStringSubmatch(m[2], -1) {
				assert.True(t, known[f[1]], "%s: %s: no flag --%s", path, m[0], f[1])
			}
		}
		if filepath.Base(path) != "arrow-to-zarr.md" { // others name flags of other programs
			continue
		}
		for _, m := range alone.FindAllStringSubmatch(code, -1) {
			alones++
			assert.True(t, all[m[1]], "%s: no flag --%s", path, m[1])
		}
	}
	assert.Greater(t, commands, 20)
	assert.Greater(t, alones, 10)
}
