package flight_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	catalog := ipc.NewCatalog()
	t.Cleanup(catalog.Close)
	server, err := flight.Serve("127.0.0.1:0", catalog, flight.ServerOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client, err := flight.Dial(t.Context(), server.Address().String(), flight.DialOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	apitest.Zeros{
		Functions: map[string]any{"Dial": flight.Dial, "Serve": flight.Serve},
		Values:    map[string]any{"Client": client, "Server": server},
		Skip:      []string{"Close"},
	}.Run(t, ".")
}
