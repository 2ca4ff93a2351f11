package handle_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	apitest.Zeros{
		Functions: map[string]any{"FromMemHandle": handle.FromMemHandle, "ParseProcess": handle.ParseProcess, "ParsePyArrow": handle.ParsePyArrow, "Self": nil},
		Values: map[string]any{"Descriptor": new(handle.Descriptor), "Mechanism": handle.Mechanism(0), "Mechanisms": handle.Mechanisms{},
			"Process": handle.Process{}},
	}.Run(t, ".")
}
