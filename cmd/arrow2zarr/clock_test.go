package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// anHourAhead is an S3 server whose clock is an hour ahead: it refuses requests that were
// not signed within a quarter of an hour, as S3 does. It stores the value of every hundredth
// put, and loses the response.
type anHourAhead struct {
	s3            http.Handler
	refused, lost atomic.Int64
	puts          atomic.Int64
}

func (s *anHourAhead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now().Add(time.Hour).UTC()
	w.Header().Set("Date", now.Format(http.TimeFormat))
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || now.Sub(signed).Abs() > 15*time.Minute {
		s.refused.Add(1)
		w.WriteHeader(http.StatusForbidden)
		if r.Method != http.MethodHead {
			fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>RequestTimeTooSkewed</Code><Message>the clocks differ</Message></Error>`)
		}
		return
	}
	if r.Method == http.MethodPut && s.puts.Add(1)%100 == 0 {
		s.s3.ServeHTTP(httptest.NewRecorder(), r)
		s.lost.Add(1)
		panic(http.ErrAbortHandler)
	}
	s.s3.ServeHTTP(w, r)
}

// Neither the time of an object nor that of this machine decides anything. Two workers of
// one partition and lost responses change nothing either.
func TestAClockThatIsOffChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("requests wait before they are repeated")
	}
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("tests"))
	server := &anHourAhead{s3: gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0)).Server()}
	listening := httptest.NewServer(server)
	defer listening.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	location := func(prefix string) string {
		return "s3://tests/" + prefix + "?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + listening.URL
	}

	input, folder := manyTags(t, 6), outputPath(t)
	tomorrow := time.Now().Add(24 * time.Hour)
	require.NoError(t, os.Chtimes(input, tomorrow, tomorrow))
	flags := []string{"--chunk-rows", "64"}
	mustRun(t, append([]string{"convert", input, folder}, flags...)...)
	want := files(t, folder)

	output := location("parts")
	mustRun(t, append([]string{"plan", input, output, "--partitions", "4"}, flags...)...)
	var running []*exec.Cmd
	for _, number := range []int{3, 1, 2, 2, 0, 1} {
		c := command(t, "partition", output, strconv.Itoa(number))
		require.NoError(t, c.Start())
		running = append(running, c)
	}
	for _, c := range running {
		require.NoError(t, c.Wait())
	}
	mustRun(t, "finalize", output)
	mustRun(t, "verify", input, output)
	s, err := store.Open(t.Context(), output)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(s)) }()
	assert.Equal(t, want, valuesOf(t, s))
	assert.Positive(t, server.refused.Load())
	assert.Positive(t, server.lost.Load())
}

func valuesOf(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	keys, err := s.List(t.Context(), "")
	require.NoError(t, err)
	values := map[string]string{}
	for _, key := range keys {
		value, err := s.Get(t.Context(), key, store.Range{})
		require.NoError(t, err)
		values[key] = string(value)
	}
	return values
}
