// Package version knows which version of Quiver a command was built from.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is set by release builds (-ldflags "-X ...version.Version=v0.1.0"). If it
// is empty, the version of the module is used.
var Version string

// String returns what --version prints: the version, the commit if it is known, Go
// and the platform.
func String() string {
	version, commit := Version, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if version == "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = ", commit " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	if version == "" {
		version = "(devel)"
	}
	return fmt.Sprintf("%s%s, %s %s/%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
