// Package s3test has a server of S3 in memory for tests.
package s3test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// SetCredentials sets the credentials for servers in the environment. Such a test must not
// run in parallel with others.
func SetCredentials(t *testing.T) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// Serve starts a server with an empty bucket, and returns a function that makes the URL of a
// path in it. If through is not nil, requests go through the handler that it makes of the
// server's.
func Serve(t *testing.T, through func(http.Handler) http.Handler) func(path string) string {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("tests"))
	handler := gofakes3.New(backend).Server()
	if through != nil {
		handler = through(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return func(path string) string {
		return "s3://tests/" + path + "?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + server.URL
	}
}
