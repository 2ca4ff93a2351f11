//go:build linux

package ipc_test

import (
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ipc"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	catalog := ipc.NewCatalog()
	t.Cleanup(catalog.Close)
	require.NoError(t, catalog.PublishTable("table", schema, nil))
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	subscriber, err := catalog.Subscribe("stream")
	require.NoError(t, err)
	t.Cleanup(subscriber.Close)
	server, err := ipc.Serve(filepath.Join(t.TempDir(), "socket"), catalog, ipc.ServerOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client, err := ipc.Dial(t.Context(), server.Path(), ipc.DialOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	subscription, err := client.Stream(t.Context(), "stream", 1)
	require.NoError(t, err)
	t.Cleanup(subscription.Close)
	table, err := client.Table(t.Context(), "table")
	require.NoError(t, err)
	t.Cleanup(table.Release)
	apitest.Zeros{
		Functions: map[string]any{"Dial": ipc.Dial, "ExposeAllocation": ipc.ExposeAllocation, "ListenAndServe": ipc.ListenAndServe, "NewCatalog": nil, "Serve": ipc.Serve},
		Values: map[string]any{"Catalog": catalog, "Client": client, "Kind": ipc.Kind(0), "Server": server, "Stream": stream,
			"Subscriber": subscriber, "Subscription": subscription, "Table": table},
		// Done and Next wait, Shutdown ends the server.
		Skip:   []string{"Close", "Release", "Shutdown", "Next", "WaitSubscribers"},
		Panics: arrowbuf.ErrReleased,
	}.Run(t, ".")
}
