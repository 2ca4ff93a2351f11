package flight

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quiver-gpu/quiver/ipc"
)

// ServerOptions says how to serve. The zero value serves without encryption, to
// everybody who reaches the address.
type ServerOptions struct {
	// TLS encrypts, and asks for clients' certificates where it says so.
	TLS *tls.Config
	// MaxBody is how many bytes of columns go in a message where rows can be cut:
	// 32 MiB where it is 0. A longer batch comes as several.
	MaxBody int64
	// Options are gRPC's own, such as interceptors that check who calls.
	Options []grpc.ServerOption
}

// Server offers a catalog by Flight. It may be used from any goroutine.
type Server struct {
	address net.Addr
	server  *grpc.Server
	ended   chan struct{}
	failure error
	once    sync.Once
}

// Serve offers the tables and streams of a catalog at a TCP address, host:port,
// until Close. Port 0 takes one that is free. Buffers, which are not Arrow's, are
// not offered.
func Serve(address string, catalog *ipc.Catalog, o ServerOptions) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving Flight: %w", err)
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 32 << 20
	}
	options := []grpc.ServerOption{grpc.MaxSendMsgSize(math.MaxInt32), grpc.WaitForHandlers(true)}
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s := &Server{address: listener.Addr(), server: grpc.NewServer(append(options, o.Options...)...), ended: make(chan struct{})}
	flight.RegisterFlightServiceServer(s.server, &service{catalog: catalog, maxBody: o.MaxBody})
	go func() {
		defer close(s.ended)
		if err := s.server.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
			s.failure = err
		}
	}()
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() net.Addr { return s.address }

// Close ends all calls, and returns when nothing reads the catalog for them any
// more, which stays the caller's. The error is why serving ended before, if it did.
// A second Close does nothing.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.server.Stop()
		<-s.ended
		err = s.failure
	})
	return err
}
