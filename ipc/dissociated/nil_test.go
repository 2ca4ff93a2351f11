//go:build linux

package dissociated_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ipc/dissociated"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	window, err := dissociated.NewWindow(arrowbuf.CPU(), 1<<12)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, window.Close()) })
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	apitest.Zeros{
		Functions: map[string]any{"AppendFreed": dissociated.AppendFreed, "BodyTag": dissociated.BodyTag, "Dial": dissociated.Dial, "Listen": dissociated.Listen,
			"NewConn": dissociated.NewConn, "NewWindow": dissociated.NewWindow, "ParseBodyTag": dissociated.ParseBodyTag,
			"ParseEndpoint": dissociated.ParseEndpoint, "ParseFreed": dissociated.ParseFreed, "ParseLocations": dissociated.ParseLocations,
			"ParseMetadata": dissociated.ParseMetadata, "Receive": dissociated.Receive, "Send": dissociated.Send},
		Values: map[string]any{"BodyKind": dissociated.BodyKind(0), "Endpoint": dissociated.Endpoint{}, "Link": dissociated.Link{},
			"Locations": dissociated.Locations{}, "Metadata": dissociated.Metadata{}, "Server": new(dissociated.Server), "Window": window},
		Skip: []string{"Close"},
	}.Run(t, ".")
}
