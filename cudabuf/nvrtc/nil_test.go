package nvrtc_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	apitest.Zeros{
		Functions: map[string]any{
			"Arch": nvrtc.Arch, "Architectures": nvrtc.Architectures, "CollectHeaders": nvrtc.CollectHeaders, "Compile": nvrtc.Compile, "Version": nvrtc.Version,
		},
		Values: map[string]any{"Cache": &nvrtc.Cache{Dir: t.TempDir()}, "Error": new(nvrtc.Error), "Result": nvrtc.Result(0)},
		Args:   []any{"#include \"x.h\"\n"},
	}.Run(t, ".")
}
