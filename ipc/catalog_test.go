package ipc_test

import (
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/ipc"
)

func TestPublishRejectsNil(t *testing.T) {
	_, err := ipc.Serve(filepath.Join(t.TempDir(), "socket"), nil, ipc.ServerOptions{})
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	catalog := ipc.NewCatalog()
	assert.ErrorIs(t, catalog.PublishBuffer("b", nil), arrow.ErrInvalid)
	assert.ErrorIs(t, catalog.PublishTable("t", arrow.NewSchema(nil, nil), []arrow.RecordBatch{nil}), arrow.ErrInvalid)
}
