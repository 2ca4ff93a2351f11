package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// DefaultTimeout is the limit of Options.Timeout if it is 0.
const DefaultTimeout = 10 * time.Minute

// Options are the options of a communicator. The zero value suits most programs. All ranks
// should have the same.
type Options struct {
	// Timeout limits how long the ranks wait for each other: to make the communicator, and
	// for each operation. 0 means DefaultTimeout, a negative value no limit. On a GPU the
	// time runs while the communicator's stream has work, of any kind.
	Timeout time.Duration
	// Stream is the CUDA stream of the operations; nil means the device's default stream.
	// The CPU device has no streams.
	Stream *cudabuf.Stream
	// Check lets ranks on GPUs compare each operation before they enqueue it, so that a
	// disagreement is ErrMismatch and not a hang or wrong values. It makes each operation
	// wait for all ranks. Without NCCL, ranks always compare.
	Check bool
}

// Comm is a communicator: the ranks that take part in operations, seen from one of them. All
// ranks must call the same operations in the same order, also those of several communicators
// on the same GPUs. It may be used from any goroutine, but the order of concurrent calls is
// not defined. Close it when it is no longer needed.
//
// Operations on the CPU device are complete when they return. On a GPU they are enqueued on
// the stream of the communicator, and later work on their arrays waits for them. There a
// rank that dies is found later: results are valid only if [Comm.Wait] returned nil after
// the operation. If a rank dies or an operation exceeds the timeout, the work of all ranks is
// aborted, so no stream waits for ever. Every later call returns the error. A communicator
// that has failed cannot be repaired; make another one.
type Comm struct {
	*comm
	group *Group // that collects the calls, or nil
}

// comm is one rank's part of a communicator.
type comm struct {
	rank, size int
	number     int64 // orders the communicators of the process
	dev        arrowbuf.Device
	options    Options
	mesh       *mesh
	engine     engine

	order  sync.Mutex // held while an operation runs
	mu     sync.Mutex
	closed bool
}

// commNumbers counts the communicators of the process.
var commNumbers atomic.Int64

// engine runs operations: hostEngine or ncclEngine.
type engine interface {
	// run runs the transfers of one rank, see run in group.go.
	run(ops []*operation) error
	// wait returns when all work is done, and why it failed.
	wait() error
	// close frees the engine after its work. abort frees it at once.
	close() error
	abort()
}

// setup is what a rank needs to join.
type setup struct {
	dev        arrowbuf.Device
	rank, size int
	options    Options
	started    time.Time
	endpoint   endpoint
	nccl       *library // nil for the host implementation
}

// timeout returns the limit of an operation, or 0 for none.
func (o Options) timeout() time.Duration {
	switch {
	case o.Timeout == 0:
		return DefaultTimeout
	case o.Timeout < 0:
		return 0
	}
	return o.Timeout
}

// never is a deadline for waits without a limit, which need a time.
const never = 100 * 365 * 24 * time.Hour

// deadline returns when the ranks must have joined.
func (s *setup) deadline() time.Time {
	if t := s.options.timeout(); t > 0 {
		return s.started.Add(t)
	}
	return s.started.Add(never)
}

// newSetup checks the arguments of a rank and opens NCCL if its device needs it.
func newSetup(dev arrowbuf.Device, rank, size int, o Options) (*setup, error) {
	if dev == nil {
		return nil, fmt.Errorf("nil device: %w", ndview.ErrNil)
	}
	if size < 1 || size > ranksMax || rank < 0 || rank >= size {
		return nil, fmt.Errorf("rank %d of %d: %w", rank, size, ErrRank)
	}
	host, _ := os.Hostname() // only for errors
	s := &setup{dev: dev, rank: rank, size: size, options: o, started: time.Now(),
		endpoint: endpoint{Backend: hostBackend, Device: dev.String(), Host: host}}
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	if o.Stream != nil && (!ok || o.Stream.Device() != cuda) {
		return nil, fmt.Errorf("stream of another device than %v: %w", dev, arrowbuf.ErrDevice)
	}
	if !ok || !usesNCCL(cuda) {
		return s, nil
	}
	var err error
	if s.nccl, err = nccl.Get(); err != nil {
		return nil, err
	}
	s.endpoint.Backend, s.endpoint.Version, s.endpoint.GPU = ncclBackend, s.nccl.version, cuda.UUID().String()
	return s, nil
}

// usesNCCL reports whether ranks of a device communicate by NCCL. Tests replace it.
var usesNCCL = func(d *cudabuf.Device) bool { return !d.RunsHostKernels() }

// joinID joins the ranks that have an ID.
func (s *setup) joinID(id ID) (*Comm, error) {
	at, token, err := id.address()
	if err != nil {
		return nil, err
	}
	return s.join(at, tokenText(token))
}

// join joins the ranks at a root.
func (s *setup) join(at, token string) (*Comm, error) {
	m, err := join(at, hello{Token: token, Rank: s.rank, Size: s.size, Endpoint: s.endpoint}, s.deadline())
	if err != nil {
		return nil, err
	}
	c := &comm{rank: s.rank, size: s.size, number: commNumbers.Add(1), dev: s.dev, options: s.options, mesh: m}
	if s.nccl == nil {
		c.engine = &hostEngine{c}
	} else if c.engine, err = newNCCL(s, c); err != nil {
		m.fail(err, s.rank)
		m.close()
		return nil, err
	}
	return &Comm{comm: c}, nil
}

// New returns the communicator of the size ranks that have an ID. It returns when all have
// joined. dev is the device of this rank. See [Connect] for its errors; a damaged ID is
// ErrID.
func New(dev arrowbuf.Device, id ID, rank, size int, o Options) (*Comm, error) {
	s, err := newSetup(dev, rank, size, o)
	if err != nil {
		return nil, fmt.Errorf("collective.New: %w", err)
	}
	c, err := s.joinID(id)
	if err != nil {
		return nil, fmt.Errorf("collective.New: %w", err)
	}
	return c, nil
}

// NewAll returns communicators of this process alone, one for each device. The rank of a
// device is its index. GPUs must differ; the CPU device and a simulated device may occur
// several times.
//
// A goroutine that calls operations of several communicators must put them in a [Group].
func NewAll(devices []arrowbuf.Device, o Options) ([]*Comm, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("collective.NewAll: no devices: %w", ndview.ErrNil)
	}
	if o.Stream != nil && len(devices) > 1 {
		return nil, fmt.Errorf("collective.NewAll: one stream for %d devices: %w", len(devices), arrowbuf.ErrDevice)
	}
	ranks := make([]*setup, len(devices)) // all are valid before one waits for the others
	for rank, dev := range devices {
		var err error
		if ranks[rank], err = newSetup(dev, rank, len(devices), o); err != nil {
			return nil, fmt.Errorf("collective.NewAll: device %d: %w", rank, err)
		}
	}
	id, err := newID("unix", ranks[0].deadline())
	if err != nil {
		return nil, fmt.Errorf("collective.NewAll: %w", err)
	}
	comms := make([]*Comm, len(devices))
	var joining errgroup.Group
	for rank, s := range ranks {
		joining.Go(func() (err error) { comms[rank], err = s.joinID(id); return err })
	}
	if err := joining.Wait(); err != nil {
		for _, c := range comms {
			if c != nil {
				c.Abort()
			}
		}
		return nil, fmt.Errorf("collective.NewAll: %w", err)
	}
	return comms, nil
}

// usable returns an error if the communicator is nil, closed or has failed.
func (c *Comm) usable() error {
	if c == nil || c.comm == nil {
		return fmt.Errorf("nil communicator: %w", ndview.ErrNil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		if err := c.mesh.failure(); errors.Is(err, ErrAborted) {
			return err
		}
		return ErrClosed
	}
	return c.mesh.failure()
}

// Rank returns the number of this rank, or -1 if c is nil.
func (c *Comm) Rank() int {
	if c == nil || c.comm == nil {
		return -1
	}
	return c.rank
}

// Size returns the number of ranks, or 0 if c is nil.
func (c *Comm) Size() int {
	if c == nil || c.comm == nil {
		return 0
	}
	return c.size
}

// Device returns the device of this rank, or nil if c is nil.
func (c *Comm) Device() arrowbuf.Device {
	if c == nil || c.comm == nil {
		return nil
	}
	return c.dev
}

// Err returns why the communicator has failed, without waiting, or nil. It returns ErrClosed
// after Close.
func (c *Comm) Err() error {
	if err := c.usable(); err != nil {
		return fmt.Errorf("collective.Comm.Err: %w", err)
	}
	return nil
}

// Wait returns when all operations so far are complete, and why the communicator has failed.
func (c *Comm) Wait() error {
	err := c.usable()
	if err == nil {
		err = c.engine.wait()
	}
	if err != nil {
		return fmt.Errorf("collective.Comm.Wait: %w", err)
	}
	return nil
}

// Abort ends the communicator at all ranks at once. Operations in progress return ErrAborted,
// here and at the others. It does nothing after Close, or if c is nil.
func (c *Comm) Abort() {
	if c == nil || c.comm == nil {
		return
	}
	c.mesh.fail(fmt.Errorf("rank %d called Abort: %w", c.rank, ErrAborted), c.rank)
	_ = c.finish(false) // the error is ErrAborted, or the earlier failure
}

// Close waits for the operations of this rank, and frees the communicator. All ranks must
// close it. It returns the error of a communicator that has failed, which it frees too. A
// second Close does nothing.
func (c *Comm) Close() error {
	if c == nil || c.comm == nil {
		return fmt.Errorf("collective.Comm.Close: nil communicator: %w", ndview.ErrNil)
	}
	if err := c.finish(true); err != nil {
		return fmt.Errorf("collective.Comm.Close: %w", err)
	}
	return nil
}

// finish frees the communicator once, after its work if orderly.
func (c *comm) finish(orderly bool) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.order.Lock()
	defer c.order.Unlock()
	var err error
	if orderly {
		err = c.engine.wait()
	}
	if failed := c.mesh.failure(); failed != nil {
		c.engine.abort()
		c.mesh.close()
		if !orderly || err == nil {
			err = failed
		}
		return err
	}
	err = errors.Join(err, c.engine.close())
	c.mesh.close()
	return err
}

// deadline returns when an operation that starts now must be complete; the zero time means
// never.
func (c *comm) deadline() (t time.Time) {
	if limit := c.options.timeout(); limit > 0 {
		t = time.Now().Add(limit)
	}
	return t
}

// NoColor is the color of ranks that take part in Split but get no communicator.
const NoColor = -1

// Split returns a new communicator of the ranks with the same color, which is at least 0.
// They are numbered by key, and by rank if keys are equal. A rank with NoColor gets nil. All
// ranks must call it. The options are those of c.
func (c *Comm) Split(color, key int) (*Comm, error) {
	n, err := c.split(color, key)
	if err != nil {
		return nil, fmt.Errorf("collective.Comm.Split: %w", err)
	}
	return n, nil
}

func (c *Comm) split(color, key int) (*Comm, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	if c.group != nil {
		return nil, fmt.Errorf("in a group: %w", errors.ErrUnsupported)
	}
	if color < NoColor {
		return nil, fmt.Errorf("color %d: want at least 0, or NoColor: %w", color, ErrRank)
	}
	c.order.Lock()
	defer c.order.Unlock()
	message := binary.LittleEndian.AppendUint64(nil, uint64(int64(color)))
	message = binary.LittleEndian.AppendUint64(message, uint64(int64(key)))
	all, err := c.mesh.exchange(opSplit, message, c.deadline())
	if err != nil {
		return nil, err
	}
	rank, size, leader := place(all, c.rank)
	// The first rank of each color makes the ID. All ranks take part in the second exchange.
	var id ID
	if color != NoColor && leader == c.rank {
		deadline := (&setup{options: c.options, started: time.Now()}).deadline()
		if id, err = newID(c.splitAddress(), deadline); err != nil {
			c.mesh.fail(fmt.Errorf("rank %d in Split: %w", c.rank, err), c.rank)
			return nil, err
		}
	}
	if all, err = c.mesh.exchange(opSplit, id[:], c.deadline()); err != nil || color == NoColor {
		return nil, err
	}
	if id, err = ParseID(all[leader]); err != nil {
		return nil, err
	}
	s, err := newSetup(c.dev, rank, size, c.options)
	if err != nil {
		return nil, err
	}
	return s.joinID(id)
}

// place returns the number of a rank within its color, the number of ranks that have it, and
// the old number of the first of them. all has the color and key of each rank.
func place(all [][]byte, rank int) (newRank, size, leader int) {
	type place struct{ color, key int64 }
	of := func(rank int) place {
		return place{int64(binary.LittleEndian.Uint64(all[rank])), int64(binary.LittleEndian.Uint64(all[rank][8:]))}
	}
	mine, first := of(rank), of(rank)
	leader = rank
	for other := range all {
		p := of(other)
		if p.color != mine.color {
			continue
		}
		size++
		if p.key < mine.key || p.key == mine.key && other < rank {
			newRank++
		}
		if p.key < first.key || p.key == first.key && other < leader {
			leader, first = other, p
		}
	}
	return newRank, size, leader
}

// splitAddress returns the address at which this rank can be reached like in c.
func (c *comm) splitAddress() string {
	for _, p := range c.mesh.peers {
		if p == nil {
			continue
		}
		if tcp, ok := p.sockets[control].LocalAddr().(*net.TCPAddr); ok {
			return "tcp:" + net.JoinHostPort(tcp.IP.String(), "0")
		}
	}
	return "unix"
}
