package collective

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Rendezvous is a place at which the ranks of a communicator meet, instead of an ID that the
// program sends around. All ranks name the same place and the same number of ranks. One place
// serves one communicator at a time.
type Rendezvous struct {
	// Address is "tcp:HOST:PORT" or "unix:PATH", where rank 0 listens, or "file:PATH", where
	// rank 0 writes an ID. Ranks at a file or a Unix socket are on one machine. FromEnv
	// returns "torch:HOST:PORT" where torchrun itself listens: its store has the ID then.
	Address string
	Rank    int // of this process: 0 up to Size-1
	Size    int // number of ranks
}

// The environment variables of FromEnv, as torchrun sets them.
const (
	envRank       = "RANK"
	envSize       = "WORLD_SIZE"
	envAddress    = "MASTER_ADDR"
	envPort       = "MASTER_PORT"
	envAgentStore = "TORCHELASTIC_USE_AGENT_STORE"
)

// FromEnv returns the rendezvous that the variables RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT name, as torchrun and many launchers set them. Rank 0 listens at that port.
// If torchrun itself listens there (TORCHELASTIC_USE_AGENT_STORE is True), the ID is passed
// through its store.
func FromEnv() (r Rendezvous, err error) {
	for _, v := range []struct {
		name string
		into *int
	}{{envRank, &r.Rank}, {envSize, &r.Size}} {
		if *v.into, err = strconv.Atoi(os.Getenv(v.name)); err != nil {
			return Rendezvous{}, fmt.Errorf("collective.FromEnv: %s is %q, want a number: %w", v.name, os.Getenv(v.name), ErrRendezvous)
		}
	}
	host, port := os.Getenv(envAddress), os.Getenv(envPort)
	if host == "" || port == "" {
		return Rendezvous{}, fmt.Errorf("collective.FromEnv: %s is %q and %s is %q, want a host and a port: %w", envAddress, host, envPort, port, ErrRendezvous)
	}
	r.Address = "tcp:" + net.JoinHostPort(host, port)
	if os.Getenv(envAgentStore) == "True" {
		r.Address = "torch:" + net.JoinHostPort(host, port)
	}
	return r, r.check("FromEnv")
}

func (r Rendezvous) check(function string) error {
	if r.Size < 1 || r.Size > ranksMax || r.Rank < 0 || r.Rank >= r.Size {
		return fmt.Errorf("collective.%s: rank %d of %d: %w", function, r.Rank, r.Size, ErrRank)
	}
	return nil
}

// Connect returns the communicator of the ranks that meet at a place. It returns when all
// have joined. dev is the device of this rank.
//
// It returns ErrRendezvous if the ranks do not fit together: two have the same number, they
// want different numbers of ranks, or some use NCCL and others do not. It returns ErrTimeout
// as well, with the ranks that are missing, if not all join within [Options.Timeout].
func Connect(dev arrowbuf.Device, r Rendezvous, o Options) (*Comm, error) {
	c, err := connect(dev, r, o)
	if err != nil {
		return nil, fmt.Errorf("collective.Connect: %w", err)
	}
	return c, nil
}

func connect(dev arrowbuf.Device, r Rendezvous, o Options) (*Comm, error) {
	if err := r.check("Connect"); err != nil {
		return nil, err
	}
	setup, err := newSetup(dev, r.Rank, r.Size, o)
	if err != nil {
		return nil, err
	}
	kind, rest, ok := strings.Cut(r.Address, ":")
	switch {
	case ok && kind == "file":
		return setup.meetAtFile(rest)
	case ok && kind == "torch":
		return setup.meetAtTorchStore(rest)
	case ok && (kind == "tcp" || kind == "unix"):
		return setup.meetAtSocket(r.Address)
	}
	return nil, fmt.Errorf("rendezvous %q: want tcp:HOST:PORT, unix:PATH or file:PATH: %w", r.Address, ErrRendezvous)
}

// meetAtSocket lets rank 0 listen at the address itself.
func (s *setup) meetAtSocket(address string) (*Comm, error) {
	if s.rank == 0 {
		removeStaleSocket(address)
		l, err := listen(address)
		if err != nil {
			return nil, err
		}
		r := &root{listener: l, open: true}
		go r.serve(s.deadline())
		defer r.close() // a rank that fails does not leave it open
	}
	return s.join(address, "")
}

// removeStaleSocket removes the file of a Unix socket at which no process listens any more.
func removeStaleSocket(address string) {
	network, path, err := splitAddress(address)
	if err != nil || network != "unix" {
		return
	}
	// Dialing a file that is no socket is refused as well.
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	conn, err := net.Dial(network, path)
	if err == nil {
		conn.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // listen reports why it cannot
	}
}

// meetAtFile lets rank 0 write an ID to the file, which the others wait for. A file of an
// earlier run has an ID at which no process listens; it is read again until rank 0 has
// replaced it.
func (s *setup) meetAtFile(path string) (*Comm, error) {
	if s.rank == 0 {
		id, err := newID("unix", s.deadline())
		if err != nil {
			return nil, err
		}
		if err := writeFile(path, []byte(id.String()+"\n")); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRendezvous, err)
		}
		defer func() { _ = os.Remove(path) }() // a file that stays is replaced
		return s.joinID(id)
	}
	for deadline := s.deadline(); ; time.Sleep(5 * time.Millisecond) {
		var id ID
		text, err := os.ReadFile(path)
		if err == nil {
			if err = id.UnmarshalText(text); err != nil {
				return nil, fmt.Errorf("%s: %w: %w", path, ErrRendezvous, err)
			}
			if listening(id) {
				return s.joinID(id)
			}
			err = fmt.Errorf("the ID in it is of another run")
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrRendezvous, err)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no rank 0 at %s: %w: %w: %w", path, ErrRendezvous, ErrTimeout, err)
		}
	}
}

// listening reports whether a process listens at the address of an ID.
func listening(id ID) bool {
	at, _, err := id.address()
	if err != nil {
		return false
	}
	network, rest, err := splitAddress(at)
	if err != nil {
		return false
	}
	conn, err := net.Dial(network, rest)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// writeFile replaces a file at once, so that no reader sees a part of it.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
