// Command slowstore is an S3 server in memory that delays each response, for
// scale_cpu.py and zarr_remote.py. It prints its address, and runs until its standard input ends.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	latency := flag.Duration("latency", 50*time.Millisecond, "delay of each response")
	flag.Parse()
	backend := s3mem.New()
	if err := backend.CreateBucket("tests"); err != nil {
		log.Fatal(err)
	}
	s3 := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(*latency)
		s3.ServeHTTP(w, r)
	}))
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the caller ends
	server.Close()
}
